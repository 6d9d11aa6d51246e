"""Opening and closing middleware, and agents that share it."""

import asyncio
import copy
import logging
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, logged, play

from interpose import Agent, ConfigurationError, Middleware, RunAborted
from interpose.testing import ScriptedModel, calls, hang, text


class Opens(Middleware):
    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name = name
        self.log = log
        self.fails = fails

    async def open(self, agent: Any) -> None:
        self.log.append(f"open {self.name}")
        if self.fails == "open":
            raise OSError("no disk")

    async def close(self) -> None:
        self.log.append(f"close {self.name}")
        if self.fails == "close":
            raise OSError("no disk")


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_a_failing_open_refuses_the_first_run_and_says_who(how: str) -> None:
    one = agent("x", middleware=[Opens("Index", [], "open")])
    played = await play(how, one)
    assert isinstance(played.error, ConfigurationError)
    assert "Index" in str(played.error)
    assert isinstance(played.error.__cause__, OSError)
    assert played.requests == []


async def test_a_failing_open_refuses_use_and_the_agent_goes_on_without() -> None:
    one = agent("x")
    with pytest.raises(ConfigurationError, match="Index") as failure:
        await one.use(Opens("Index", [], "open"))
    assert isinstance(failure.value.__cause__, OSError)
    assert (await play("run", one)).result.text == "x"


async def test_use_opens_at_once_and_comes_too_late_after_a_run() -> None:
    log: list[str] = []
    one = agent("x")
    await one.use(Opens("a", log))
    assert log == ["open a"]
    await play("run", one)
    with pytest.raises(ConfigurationError, match="first run"):
        await one.use(Opens("b", log))
    assert log == ["open a"]


async def test_an_agent_that_never_ran_can_be_left() -> None:
    log: list[str] = []
    async with Agent(ScriptedModel("x"), middleware=[Opens("a", log)], post_model_hooks=()):
        pass
    assert log in ([], ["open a", "close a"])


async def test_a_failing_close_keeps_no_other_from_closing(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    opened = [Opens("a", log), Opens("b", log, "close"), Opens("c", log)]
    with caplog.at_level(logging.WARNING):
        async with Agent(ScriptedModel("x"), middleware=opened, post_model_hooks=()) as one:
            await one.run("Go")
    assert log == ["open a", "open b", "open c", "close c", "close b", "close a"]
    assert "no disk" in caplog.text
    assert "b" in caplog.text


async def test_shared_middleware_is_opened_by_the_first_agent_and_closed_by_the_last() -> None:
    log: list[str] = []
    shared = Opens("a", log)
    first, second = (Agent(ScriptedModel("x"), middleware=[shared], post_model_hooks=()) for _ in range(2))
    await first.run("Go")
    await second.run("Go")
    await first.aclose()
    assert log == ["open a"]
    await second.aclose()
    assert log == ["open a", "close a"]


async def test_a_runs_own_middleware_is_opened_and_closed_with_it() -> None:
    log: list[str] = []
    one = agent("x", middleware=[])
    await play("run", one, middleware=[Opens("a", log)])
    assert log == ["open a", "close a"]


async def test_closing_the_agent_stops_its_runs() -> None:
    one = agent(hang(["so"]))
    async with one.stream("Go") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
        await one.aclose()
        with pytest.raises(RunAborted, match="closed"):
            await run.result()


async def test_a_closed_agents_middleware_can_be_opened_again() -> None:
    log: list[str] = []
    one = Agent(ScriptedModel("x", "y"), middleware=[Opens("a", log)], post_model_hooks=())
    async with one:
        await one.run("Go")
    async with one:
        await one.run("Go")
    assert log == ["open a", "close a"] * 2


@pytest.mark.parametrize("way", [copy.copy, lambda one: one.copy()], ids=["copy.copy", "copy"])
async def test_a_copy_is_a_whole_agent(way: Any) -> None:
    log: list[str] = []

    def before(ctx: Any, call: Any) -> None:
        log.append("before_tool")

    model = ScriptedModel(*[calls(("add", {"a": 1, "b": 2})), text("3")] * 2)
    original = Agent(
        model,
        tools=[add],
        middleware=[logged("A", log, "before_model_call", "on_finish")],
        before_tool=before,
        post_model_hooks=(),
    )
    copied = way(original)
    await original.run("Go")
    wanted, log[:] = list(log), []
    await copied.use(logged("B", [], "on_start"))
    assert (await copied.run("Go")).text == "3"
    assert log == wanted
    assert len(original.middleware) == 1


async def test_an_override_holds_in_its_context_only() -> None:
    one = Agent(ScriptedModel("real"), post_model_hooks=())
    with one.override(model=ScriptedModel("fake")):
        assert (await one.run("Go")).text == "fake"
    assert (await one.run("Go")).text == "real"


def test_run_sync_is_for_scripts() -> None:
    assert Agent(ScriptedModel("x"), post_model_hooks=()).run_sync("Go").text == "x"


async def test_run_sync_inside_a_loop_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="await"):
        Agent(ScriptedModel("x"), post_model_hooks=()).run_sync("Go")


async def test_a_tool_of_a_runs_own_middleware_is_offered_in_that_run_alone() -> None:
    async def extra(n: int) -> str:
        """Extra."""
        return f"extra {n}"

    class Brings(Middleware):
        tools = (extra,)

    one = Agent(
        ScriptedModel(calls(("extra", {"n": 1})), text("a"), calls(("extra", {"n": 2})), text("b")), post_model_hooks=()
    )
    first = await one.run("x", middleware=[Brings()])
    second = await one.run("x")
    assert first.messages[2].text == "extra 1"
    assert "no tool 'extra'" in second.messages[2].text


async def test_a_second_agent_waits_while_the_first_opens_what_they_share() -> None:
    class Slow(Middleware):
        opened = 0

        async def open(self, agent: Any) -> None:
            await asyncio.sleep(0.02)
            self.opened += 1

        def setup(self, ctx: Any) -> None:
            assert self.opened == 1

    shared = Slow()
    results = await asyncio.gather(*[agent("x", middleware=[shared]).run("go") for _ in range(3)])
    assert [one.text for one in results] == ["x", "x", "x"]


async def test_an_open_that_fails_fails_for_each_agent_that_waited_for_it() -> None:
    class Fails(Middleware):
        async def open(self, agent: Any) -> None:
            await asyncio.sleep(0.02)
            raise OSError("no disk")

    shared = Fails()
    runs = [agent("x", middleware=[shared]).run("go") for _ in range(2)]
    for error in await asyncio.gather(*runs, return_exceptions=True):
        assert isinstance(error, ConfigurationError)
        assert "no disk" in str(error)


async def test_opening_may_run_an_agent_that_has_the_same_middleware() -> None:
    class Asks(Middleware):
        said = ""

        async def open(self, agent: Any) -> None:
            self.said = (await asking.run("Who are you?")).text

    shared = Asks()
    asking = agent("a helper", middleware=[shared])
    async with asyncio.timeout(20):
        await agent("x", middleware=[shared]).run("go")
    assert shared.said == "a helper"


async def test_an_agent_that_opens_while_another_closes_waits_and_opens_anew() -> None:
    log: list[str] = []

    class Slow(Opens):
        async def close(self) -> None:
            await asyncio.sleep(0.02)
            await super().close()

    shared = Slow("shared", log)
    first, second = agent("x", middleware=[shared]), agent("x", middleware=[shared])
    await first.run("go")
    closing = asyncio.create_task(first.aclose())
    await asyncio.sleep(0)
    await second.run("go")
    await closing
    assert log == ["open shared", "close shared", "open shared"]
