"""Middleware is opened once, closed once, in order and in reverse; runs that the agent owns."""

import asyncio
from typing import Any

import pytest
from tests.layers.play import agent_of, echo

from interpose import Middleware, RunAborted, ToolContext
from interpose.testing import calls, hang, text

ONE = ("echo", {"x": "1"})


async def test_run_middleware_is_opened_and_closed_with_its_run() -> None:
    log: list[str] = []

    class Opens(Middleware):
        def open(self, agent: Any) -> None:
            log.append("open")

        def close(self) -> None:
            log.append("close")

    one = Opens()
    agent = agent_of(text("a"), text("b"))
    await agent.run("go", middleware=[one])
    await agent.run("go", middleware=[one])
    assert log == ["open", "close"] * 2


async def test_a_middleware_of_two_agents_is_opened_by_the_first_and_closed_by_the_last() -> None:
    log: list[str] = []

    class Opens(Middleware):
        async def open(self, agent: Any) -> None:
            log.append("open")

        async def close(self) -> None:
            log.append("close")

    one = Opens()
    first, second = agent_of(text("a"), middleware=[one]), agent_of(text("b"), middleware=[one])
    await first.run("go")
    await second.run("go")
    await first.aclose()
    assert log == ["open"]
    await second.aclose()
    assert log == ["open", "close"]


async def test_a_failing_open_refuses_use_with_its_cause_and_later_runs_go_without() -> None:
    from interpose import ConfigurationError

    class Busy(Middleware):
        def open(self, agent: Any) -> None:
            raise OSError("port busy")

    agent = agent_of(text("x"))
    with pytest.raises(ConfigurationError, match="Busy") as caught:
        await agent.use(Busy())
    assert isinstance(caught.value.__cause__, OSError)
    assert (await agent.run("go")).text == "x"


async def test_a_failing_open_refuses_the_first_run_and_closes_what_was_opened() -> None:
    from interpose import ConfigurationError

    log: list[str] = []

    class Opens(Middleware):
        def open(self, agent: Any) -> None:
            log.append("open")

        def close(self) -> None:
            log.append("close")

    class Busy(Middleware):
        def open(self, agent: Any) -> None:
            raise OSError("port busy")

    agent = agent_of(text("x"), middleware=[Opens(), Busy()])
    with pytest.raises(ConfigurationError, match="Busy"):
        await agent.run("go")
    await agent.aclose()
    assert log == ["open", "close"]


async def test_closing_runs_in_reverse_and_twice_does_nothing() -> None:
    log: list[str] = []

    class Closes(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            log.append(self.name)

    agent = agent_of(text("x"), middleware=[Closes("a"), Closes("b")])
    await agent.run("go")
    await agent.aclose()
    await agent.aclose()
    assert log == ["b", "a"]


async def test_a_failing_close_is_logged_and_the_others_still_close(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []

    class Closes(Middleware):
        def close(self) -> None:
            log.append("closed")

    class Fails(Middleware):
        def close(self) -> None:
            raise OSError("stuck")

    agent = agent_of(text("x"), middleware=[Closes(), Fails()])
    async with agent:
        await agent.run("go")
    assert log == ["closed"]
    assert "stuck" in caplog.text


async def test_an_owned_run_goes_on_when_its_reader_leaves_and_is_read_again_from_a_number() -> None:
    agent = agent_of(calls(ONE), text("done"), tools=[echo])
    run = await agent.start("go")
    async with run:
        first = await anext(run)
    await asyncio.sleep(0.05)
    async with agent.attach(run.run_id, after=0) as again:
        seqs = [event.seq async for event in again]
    assert first.seq == 0
    assert seqs == list(range(1, len(seqs) + 1))
    async with agent.attach(run.run_id) as whole:
        assert (await whole.result()).text == "done"


async def test_aclose_ends_an_owned_run() -> None:
    agent = agent_of(hang())
    run = await agent.start("go")
    await asyncio.sleep(0.01)
    await agent.aclose()
    with pytest.raises(RunAborted, match="closed"):
        await run.result()


async def test_the_tools_context_knows_its_call() -> None:
    seen: list[Any] = []

    async def work(ctx: ToolContext[Any], x: str) -> str:
        """Work."""
        seen.append((ctx.tool_call_id, ctx.idempotency_key, ctx.context))
        return x

    await agent_of(calls(("work", {"x": "1"}), ("work", {"x": "1"})), text("x"), tools=[work]).run("go", context="c")
    assert len({one[0] for one in seen}) == len({one[1] for one in seen}) == 2
    assert {one[2] for one in seen} == {"c"}
