"""Aborts, timeouts and cancellations from every side."""

import asyncio
import contextlib
import gc
import warnings
import weakref
from typing import Any

import pytest
from tests.layers.play import Ends, agent_of, both, echo

from interpose import (
    DROP,
    Abort,
    Middleware,
    ProviderDown,
    RunAborted,
    Usage,
)
from interpose.testing import FakeClock, calls, fail, hang, text, text_of

ONE = ("echo", {"x": "1"})


async def again(ctx: Any, request: Any, call_next: Any) -> Any:
    try:
        return await call_next(request)
    except ProviderDown:
        return await call_next.again(request)


@pytest.mark.parametrize(
    "where", ["before_model_call", "on_step", "on_start", "before_tool_call", "on_usage", "on_chunk"]
)
async def test_a_hook_that_hangs_is_cut_by_an_abort(where: str) -> None:
    ends = Ends()

    async def hangs(self: Any, ctx: Any, *args: Any) -> None:
        asyncio.get_running_loop().call_later(0.01, ctx.abort, "enough")
        await asyncio.sleep(30)

    kind = type("Hangs", (Middleware,), {where: hangs})
    agent = agent_of(calls(ONE, usage=Usage(input_tokens=1)), text("x"), tools=[echo], middleware=[ends, kind()])
    with pytest.raises(RunAborted, match="enough"):
        async with asyncio.timeout(20):
            await agent.run("go")
    assert ends.seen == ["on_abort"]


async def test_a_hook_that_swallows_its_cancellation_cannot_keep_the_run() -> None:
    class Stubborn(Middleware):
        async def before_model_call(self, ctx: Any, request: Any) -> None:
            ctx.abort("enough")
            with contextlib.suppress(BaseException):
                await asyncio.sleep(30)

    played = await both(lambda log: agent_of(text("x"), middleware=[Stubborn()]))
    assert isinstance(played.error, RunAborted)
    assert played.requests == []


async def test_a_second_abort_keeps_the_first_reason() -> None:
    class Aborts(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            ctx.abort("first")
            ctx.abort("second")
            return Abort("third")

    played = await both(lambda log: agent_of(text("x"), middleware=[Aborts()]))
    assert isinstance(played.error, RunAborted)
    assert played.error.reason == "first"


async def test_an_abort_in_a_terminal_hook_changes_nothing() -> None:
    class Late(Middleware):
        def on_finish(self, ctx: Any, info: Any) -> None:
            ctx.abort("too late")

    played = await both(lambda log: agent_of(text("x"), middleware=[Late()]))
    assert played.result.text == "x"


async def test_an_abort_after_the_end_changes_nothing() -> None:
    agent = agent_of(text("x"))
    async with agent.stream("go") as run:
        await run.result()
        run.abort("too late")
    assert (await run.result()).text == "x"


async def test_a_stream_that_was_never_entered_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = agent_of(text("x")).stream("go")
        left = weakref.ref(run)
        del run
        gc.collect()
    assert left() is None
    assert asyncio.all_tasks() == before


async def test_a_stream_aborted_before_it_is_entered_ends_as_aborted() -> None:
    ends = Ends()
    run = agent_of(text("x"), middleware=[ends]).stream("go")
    run.abort("never mind")
    with pytest.raises(RunAborted, match="never mind"):
        async with run:
            await run.result()
    assert ends.seen in ([], ["on_abort"])


async def test_an_outer_timeout_cancels_the_run_and_runs_on_abort() -> None:
    ends = Ends()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await agent_of(hang(), middleware=[ends]).run("go")
    assert ends.seen == ["on_abort"]


async def test_runs_in_a_task_group_are_all_ended_when_one_fails() -> None:
    ends = Ends()
    slow, broken = agent_of(hang(), middleware=[ends]), agent_of(fail(RuntimeError("x")))

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow.run("go"))
            group.create_task(broken.run("go"))

    with pytest.raises(ExceptionGroup):
        await together()
    assert ends.seen == ["on_abort"]


async def test_the_caller_who_cancels_cancels_nested_runs_too() -> None:
    inner_ends, outer_ends = Ends(), Ends()
    child = agent_of(hang(), middleware=[inner_ends]).as_tool("child", "Child.")
    agent = agent_of(calls(("child", {"prompt": "x"})), tools=[child], middleware=[outer_ends])
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.03)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (inner_ends.seen, outer_ends.seen) == (["on_abort"], ["on_abort"])


async def test_a_chunk_guard_may_flush_at_the_end_of_a_failed_message() -> None:
    class Holds(Middleware):
        """Keeps text back and gives it at the end of the message."""

        def on_chunk(self, ctx: Any, event: Any) -> Any:
            kept = ctx.private(self)
            if event.type == "TEXT_MESSAGE_CONTENT":
                kept["event"] = event
                return DROP
            if event.type == "TEXT_MESSAGE_END" and "event" in kept:
                return [kept.pop("event").replace(delta="flushed"), event]
            return None

    played = await both(lambda log: agent_of(fail(RuntimeError("x"), after=["half"]), middleware=[Holds()]))
    assert text_of(played.events) == "flushed"
    assert str(played.error) == "x"


async def test_a_chunk_hook_that_hangs_at_the_end_is_not_waited_for_long() -> None:
    class Hangs(Middleware):
        async def on_chunk(self, ctx: Any, event: Any) -> None:
            if event.type == "TEXT_MESSAGE_END":
                await asyncio.sleep(60)

    clock = FakeClock()
    agent = agent_of(fail(RuntimeError("x"), after=["half"]), middleware=[Hangs()], clock=clock)
    task = asyncio.create_task(agent.run("go"))
    await clock.advance(0.1)
    await clock.advance(10)
    with pytest.raises(RuntimeError, match="x"):
        async with asyncio.timeout(8):
            await task
