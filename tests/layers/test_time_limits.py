"""Limits on time hold at every moment: a silent model, a hanging tool, a hook that waits, dead air."""

import asyncio
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, errors_of, results_of

from interpose import (
    LimitExceeded,
    Limits,
    Middleware,
    ModelTimeout,
    Usage,
)
from interpose.testing import FakeClock, calls, hang, text

ONE = ("echo", {"x": "1"})


def endless(limits: Limits, used: Usage | None = None) -> Any:
    return lambda log: agent_of(*[calls(ONE, usage=used, text="t") for _ in range(40)], tools=[echo], limits=limits)


async def test_a_hanging_tool_is_cut_and_the_model_reads_why() -> None:
    async def hangs() -> str:
        """Hang."""
        await asyncio.sleep(60)
        return "never"

    played = await both(
        lambda log: agent_of(calls("hangs"), text("x"), tools=[hangs], limits=Limits(tool_timeout_s=0.02))
    )
    assert errors_of(played.result)[0]
    assert "time" in results_of(played.result)[0].lower()
    assert played.result.text == "x"


@pytest.mark.parametrize("after", [(), ("he",)], ids=["silent", "half"])
async def test_a_hanging_model_is_cut_with_a_timeout_in_the_chain(after: Any) -> None:
    def make(log: list[Any]) -> Any:
        async def note(ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            except ModelTimeout:
                log.append("timeout")
                raise

        return agent_of(hang(after), middleware=[note], limits=Limits(model_timeout_s=0.03))

    played = await both(make)
    assert isinstance(played.error, ModelTimeout)
    assert played.log == ["timeout"]
    assert played.partial.text == "".join(after)


async def test_a_model_that_opens_and_then_hangs_is_cut_too() -> None:
    class Opens:
        provider, name, profile = "own", "own", None

        async def stream(self, request: Any) -> Any:
            from interpose import MessageStart

            yield MessageStart("m")
            await asyncio.sleep(60)

        async def generate(self, request: Any) -> Any:
            await asyncio.sleep(60)

    played = await both(lambda log: agent_of(model=Opens(), limits=Limits(model_timeout_s=0.03)))
    assert isinstance(played.error, ModelTimeout)


@pytest.mark.parametrize("where", ["model", "tool", "hook"])
async def test_the_duration_of_a_run_is_limited_wherever_it_waits(where: str) -> None:
    class Waits(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            if where == "hook":
                await asyncio.sleep(60)

    async def waits() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "x"

    turn = hang() if where == "model" else calls("waits")
    played = await both(
        lambda log: agent_of(turn, tools=[waits], middleware=[Waits()], limits=Limits(max_duration_s=0.05))
    )
    assert played.result.finish_reason == "limit"
    assert played.end == "on_finish"


async def test_a_duration_that_raises_names_itself() -> None:
    played = await both(lambda log: agent_of(hang(), limits=Limits(max_duration_s=0.03, on_exceeded="raise")))
    assert isinstance(played.error, LimitExceeded)
    assert played.error.limit == "max_duration_s"


async def test_half_said_text_of_a_run_cut_by_time_joins_the_thread() -> None:
    played = await both(lambda log: agent_of(hang(after=["half"]), limits=Limits(max_duration_s=0.05)))
    assert played.result.text == "half"
    assert played.result.messages[-1].text == "half"
    assert played.result.steps[-1].response.finish_reason == "limit"


async def test_a_clock_turned_by_hand_drives_the_limits() -> None:
    clock = FakeClock()
    agent = agent_of(hang(), limits=Limits(max_duration_s=3600), clock=clock)
    task = asyncio.create_task(agent.run("go"))
    await clock.advance(3599)
    assert not task.done()
    await clock.advance(2)
    assert (await task).finish_reason == "limit"


async def test_silence_is_cut_after_one_retry_with_nothing() -> None:
    played = await both(lambda log: agent_of(hang(), hang(), limits=Limits(dead_air_s=0.02)))
    assert (len(played.requests), played.result.finish_reason, played.result.text) == (2, "dead_air", "")


async def test_silence_after_text_keeps_the_text_and_is_not_retried() -> None:
    played = await both(lambda log: agent_of(hang(after=["Hi"]), limits=Limits(dead_air_s=0.02)))
    assert (len(played.requests), played.result.finish_reason, played.result.text) == (1, "dead_air", "Hi")


async def test_keep_alives_do_not_break_the_silence() -> None:
    from interpose import ReasoningDelta, TextDelta, ToolCallDelta

    class Alive:
        provider, name, profile = "own", "own", None

        async def stream(self, request: Any) -> Any:
            for _ in range(400):
                await asyncio.sleep(0.005)
                yield TextDelta("")
                yield ReasoningDelta("")
                yield ToolCallDelta(None, None, None, "")

    played = await both(lambda log: agent_of(model=Alive(), limits=Limits(dead_air_s=0.03)))
    assert played.result.finish_reason == "dead_air"


async def test_after_silence_whole_calls_are_kept_and_unfinished_ones_dropped() -> None:
    from interpose import ToolCallDelta

    half = [ToolCallDelta(0, "a", "echo", '{"x":"1"}'), ToolCallDelta(1, "b", "echo", '{"x"')]
    played = await both(lambda log: agent_of(hang(after=half), tools=[echo], limits=Limits(dead_air_s=0.02)))
    assert [call.id for call in played.result.messages[1].tool_calls] == ["a"]
    assert played.result.finish_reason == "dead_air"
