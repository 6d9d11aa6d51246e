"""Stopping a run at once, from wherever."""

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.lifecycle.play import agent, both, deltas, logged, play, two_steps

from interpose import (
    Abort,
    Agent,
    Middleware,
    ProviderDown,
    RunAborted,
    ToolContext,
    before_tool_call,
    on_chunk,
    on_start,
    wrap_model_call,
)
from interpose.testing import ScriptedModel, calls, hang, text


class Hears(Middleware):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def on_abort(self, ctx: Any, info: Any) -> None:
        self.log.append(info.reason)


async def test_an_abort_in_a_chunk_reads_no_further() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def stop(ctx: Any, event: Any) -> None:
            if event.type == "TEXT_MESSAGE_CONTENT" and event.delta == "b":
                ctx.abort("seen enough")

        return agent(text("abcd", chunks="abcd"), middleware=[Hears(log), on_chunk(stop)])

    played = await both(make)
    assert played.log == ["seen enough"]
    assert isinstance(played.error, RunAborted)
    assert played.error.reason == "seen enough"
    assert "".join(deltas(played.events)) in ("a", "ab")
    assert played.types[-1] == "RUN_ERROR"
    assert played.events[-1].code == "aborted"


OPEN = [
    {"role": "user", "content": "Go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}],
    },
]


async def test_an_abort_at_the_start_calls_no_model_and_runs_no_open_call() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def add(a: int, b: int) -> int:
            """Return the sum."""
            log.append("ran")
            return a + b

        return agent("x", tools=[add], middleware=[Hears(log), on_start(lambda ctx: ctx.abort("no"))])

    played = await both(make, OPEN)
    assert played.log == ["no"]
    assert played.requests == []
    assert isinstance(played.error, RunAborted)


async def test_an_abort_cancels_all_running_tools() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def wait(n: int) -> None:
            """Wait."""
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        async def stop(ctx: ToolContext[Any]) -> None:
            """Stop."""
            await asyncio.sleep(0.005)
            ctx.abort("now")
            await asyncio.sleep(10)

        return agent(
            calls(("wait", {"n": 1}), "stop"),
            "never",
            tools=[wait, stop],
            middleware=[logged("A", log, "on_tool_phase_complete", "on_abort")],
        )

    played = await both(make)
    assert played.log == ["cancelled", "A.on_abort"]
    assert isinstance(played.error, RunAborted)


async def test_an_abort_from_a_timer_ends_a_silent_provider_at_once() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def arm(ctx: Any) -> None:
            asyncio.get_running_loop().call_later(0.01, ctx.abort, "late")

        return agent(hang(["so"]), middleware=[Hears(log), on_start(arm)])

    started = time.perf_counter()
    played = await both(make)
    assert played.log == ["late"]
    assert time.perf_counter() - started < 2


async def test_an_abort_from_another_thread_works_too() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def arm(ctx: Any) -> None:
            threading.Timer(0.01, ctx.abort, ["elsewhere"]).start()

        return agent(hang(), middleware=[Hears(log), on_start(arm)])

    assert (await both(make)).log == ["elsewhere"]


async def test_a_tool_that_swallows_exceptions_does_not_outlive_an_abort() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def stubborn(ctx: ToolContext[Any]) -> str:
            """Wait."""
            asyncio.get_running_loop().call_later(0.01, ctx.abort, "now")
            try:
                await asyncio.sleep(10)
            except Exception:
                log.append("swallowed")
            return "done"

        return agent(calls("stubborn"), "never", tools=[stubborn], middleware=[Hears(log)])

    played = await both(make)
    assert played.log == ["now"]
    assert isinstance(played.error, RunAborted)


@pytest.mark.parametrize("swallow", ["except", "finally"])
async def test_a_layer_that_swallows_an_abort_changes_nothing(swallow: str) -> None:
    async def deaf(ctx: Any, request: Any, call_next: Any) -> Any:
        ctx.abort("now")
        if swallow == "except":
            try:
                return await call_next(request)
            except BaseException:
                return request.answer("never mind")
        try:
            return await call_next(request)
        finally:
            return request.answer("never mind")  # noqa: B012, SIM107  # the point of the test

    played = await both(lambda log: agent(text("x"), middleware=[Hears(log), wrap_model_call(deaf)]))
    assert played.log == ["now"]
    assert isinstance(played.error, RunAborted)


async def test_an_abort_by_outcome_executes_nothing_and_leaves_no_call_open() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def add(a: int, b: int) -> int:
            """Return the sum."""
            log.append("ran")
            return a + b

        return agent(
            calls(("add", {"a": 1, "b": 2})),
            "never",
            tools=[add],
            middleware=[Hears(log), before_tool_call(lambda ctx, call: Abort("policy"))],
        )

    played = await both(make)
    assert played.log == ["policy"]
    assert isinstance(played.error, RunAborted)
    assert played.error.reason == "policy"
    assert [m.role for m in played.partial.messages] == ["user", "assistant", "tool"]


async def test_an_abort_without_a_reason_has_an_empty_one() -> None:
    played = await both(lambda log: agent("x", middleware=[Hears(log), on_start(lambda ctx: ctx.abort())]))
    assert played.log == [""]


async def test_an_abort_and_a_failure_make_one_end() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def both_at_once(ctx: Any, request: Any, call_next: Any) -> Any:
            ctx.abort("first")
            raise ProviderDown("gone")

        return agent("x", middleware=[Hears(log), wrap_model_call(both_at_once)])

    played = await both(make)
    assert played.log == ["first"]
    assert isinstance(played.error, RunAborted)
    assert played.endings == ["on_abort"]


async def test_the_reader_can_abort() -> None:
    one = agent(hang(["so"]))
    async with one.stream("Go") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
        run.abort("bored")
        with pytest.raises(RunAborted, match="bored"):
            await run.result()


async def test_an_abort_after_the_last_event_comes_too_late() -> None:
    one = agent("x")
    async with one.stream("Go") as run:
        async for _ in run:
            pass
        run.abort("late")
        assert (await run.result()).text == "x"


async def test_a_provider_that_cancels_by_itself_has_failed() -> None:
    async def cancels(request: Any) -> Any:
        raise asyncio.CancelledError("inner scope")

    played = await both(lambda log: agent(cancels))
    assert played.error is not None
    assert not isinstance(played.error, RunAborted)
    assert played.endings == ["on_error"]


async def test_a_tool_that_cancels_by_itself_gives_an_error_result() -> None:
    async def cancels() -> None:
        """Cancel."""
        raise asyncio.CancelledError("inner scope")

    played = await both(lambda log: agent(calls("cancels"), "x", tools=[cancels]))
    assert played.result.text == "x"
    assert played.result.steps[0].tool_results[0].is_error


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_an_abort_in_a_task_group_of_a_layer_ends_the_run(how: str) -> None:
    async def grouped(ctx: Any, request: Any, call_next: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(call_next(request))
            await asyncio.sleep(0.005)
            ctx.abort("now")
        return task.result()

    played = await play(
        how, Agent(ScriptedModel(hang()), middleware=[*agent("x").middleware, wrap_model_call(grouped)])
    )
    assert isinstance(played.error, RunAborted)
    assert played.endings == ["on_abort"]


async def test_a_finished_step_before_an_abort_is_in_the_partial_result() -> None:
    def stop(ctx: Any, event: Any) -> None:
        if event.type == "STEP_STARTED" and ctx.step == 1:
            ctx.abort("one is enough")

    played = await both(lambda log: two_steps(middleware=[on_chunk(stop)]))
    assert [result.data for result in played.partial.steps[0].tool_results] == [3]
