"""Cancelling, leaving and closing: clean-up is awaited and every layer is left."""

import asyncio
from typing import Any

import pytest
from tests.layers.play import Ends, agent_of, both, echo, errors_of

from interpose import (
    Middleware,
    RunAborted,
    TextMessageContentEvent,
)
from interpose.testing import calls, fail, hang, text

ONE = ("echo", {"x": "1"})


@pytest.mark.parametrize("at", range(1, 9))
async def test_leaving_the_block_at_any_event_aborts_once_and_closes_all(at: int) -> None:
    ends = Ends()
    agent = agent_of(calls(ONE), text(chunks=("a", "b")), tools=[echo], middleware=[ends])
    before = asyncio.all_tasks()
    async with agent.stream("go") as run:
        for _ in range(at):
            await anext(run)
    assert ends.seen == ["on_abort"]
    assert agent.model.open_streams == 0  # type: ignore[attr-defined]  # a scripted model
    assert asyncio.all_tasks() == before


async def test_leaving_inside_a_generator_of_ones_own_closes_too() -> None:
    ends = Ends()
    agent = agent_of(hang(after=["a", "b"]), middleware=[ends])

    async def words() -> Any:
        async with agent.stream("go") as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent):
                    yield event.delta

    generator = words()
    assert await anext(generator) == "a"
    await generator.aclose()
    assert ends.seen == ["on_abort"]
    assert agent.model.open_streams == 0  # type: ignore[attr-defined]  # as above


async def test_an_exception_of_the_consumer_goes_through_and_closes_the_run() -> None:
    ends = Ends()
    agent = agent_of(hang(after=["a"]), middleware=[ends])

    async def consume() -> None:
        async with agent.stream("go") as run:
            async for _ in run:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await consume()
    assert ends.seen == ["on_abort"]


class Absorbs:
    """A model that takes a cancellation for an answer."""

    provider, name, profile = "own", "own", None

    async def stream(self, request: Any) -> Any:
        from interpose import Finish, TextDelta

        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            yield TextDelta("absorbed")
        yield Finish()


async def test_a_model_that_absorbs_cancellation_is_cancelled_all_the_same() -> None:
    ends = Ends()
    agent = agent_of(model=Absorbs(), middleware=[ends])
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await task
    assert ends.seen == ["on_abort"]


async def test_a_cancellation_that_nobody_asked_for_is_a_failure_of_the_tool() -> None:
    async def odd() -> str:
        """Odd."""
        raise asyncio.CancelledError("inner scope")

    played = await both(lambda log: agent_of(calls("odd"), text("went on"), tools=[odd]))
    assert played.result.text == "went on"
    assert errors_of(played.result)[0]


async def test_a_cancellation_that_nobody_asked_for_is_a_failure_of_the_provider() -> None:
    played = await both(lambda log: agent_of(fail(asyncio.CancelledError("inner scope"), after=["he"])))
    assert isinstance(played.error, Exception)
    assert played.end == "on_error"


async def test_a_cancellation_that_nobody_asked_for_in_a_hook_is_a_failure() -> None:
    class Odd(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            raise asyncio.CancelledError("inner scope")

    played = await both(lambda log: agent_of(text("x"), middleware=[Odd()]))
    assert isinstance(played.error, Exception)
    assert played.end == "on_error"


async def test_deferred_work_is_awaited_after_the_terminal_hook_and_its_failure_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.02)
        log.append("deferred")

    async def fails() -> None:
        raise RuntimeError("in the background")

    class Defers(Middleware):
        def on_start(self, ctx: Any) -> None:
            ctx.defer(work())
            ctx.defer(fails())

        def on_finish(self, ctx: Any, info: Any) -> None:
            log.append("finish")

    await agent_of(text("x"), middleware=[Defers()]).run("go")
    assert log == ["finish", "deferred"]
    assert "in the background" in caplog.text


async def test_what_was_entered_is_left_after_the_terminal_hook_last_first() -> None:
    from contextlib import asynccontextmanager

    log: list[str] = []

    @asynccontextmanager
    async def resource(name: str) -> Any:
        log.append(f"{name}+")
        yield name
        log.append(f"{name}-")

    class Enters(Middleware):
        async def on_start(self, ctx: Any) -> None:
            assert await ctx.enter(resource("a")) == "a"
            await ctx.enter(resource("b"))

        def on_finish(self, ctx: Any, info: Any) -> None:
            log.append("finish")

    await agent_of(text("x"), middleware=[Enters()]).run("go")
    assert log == ["a+", "b+", "finish", "b-", "a-"]


async def test_closing_the_agent_ends_its_runs_as_closed() -> None:
    agent = agent_of(hang())
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.01)
    await agent.aclose()
    with pytest.raises(RunAborted, match="closed"):
        await task
