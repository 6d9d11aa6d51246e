"""Endings that layers and hooks make difficult."""

import asyncio
import contextlib
from typing import Any

import pytest

from interpose import (
    Agent,
    ConfigurationError,
    End,
    Event,
    HookError,
    InterposeError,
    Limits,
    Middleware,
    RunResult,
    tool,
)
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, assert_events_valid, calls, collect, event_types, fail, text


class Endings(Middleware):
    def __init__(self) -> None:
        self.called: list[str] = []

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.called.append("on_finish")

    def on_abort(self, ctx: Any, info: Any) -> None:
        self.called.append("on_abort")

    def on_error(self, ctx: Any, info: Any) -> None:
        self.called.append("on_error")


class Cancels(Middleware):
    async def on_finish(self, ctx: Any, info: Any) -> None:
        raise asyncio.CancelledError

    async def on_error(self, ctx: Any, info: Any) -> None:
        raise asyncio.CancelledError


async def test_a_terminal_hook_that_raises_cancelled_error_skips_no_other() -> None:
    endings = Endings()
    agent = Agent(ScriptedModel("a", fail(ValueError("boom"))), middleware=[endings, Cancels()], post_model_hooks=())
    failures = []
    for _ in range(2):
        try:
            await agent.run("x")
        except Exception as error:
            failures.append(type(error).__name__)
    assert endings.called == ["on_finish", "on_error"]
    assert failures == ["InterposeError", "ValueError"]


class Saves(Middleware):
    async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ValueError:
            return RunResult(text="saved")


async def test_a_layer_that_makes_a_result_of_a_failure_leaves_a_whole_stream() -> None:
    store = MemoryStore()
    agent = Agent(ScriptedModel(fail(ValueError("boom"), after=["he"])), middleware=[Saves()], store=store)
    run = agent.stream("x", thread_id="t")
    events = await collect(run)
    assert_events_valid(events)
    assert event_types(events)[-3:] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"]
    assert (await run.result()).text == "saved"
    assert [message.text for message in await store.load("t")] == ["x", "he"]


async def test_the_first_of_two_attempts_may_be_kept_though_the_second_was_shown() -> None:
    @tool
    def note(n: int) -> int:
        """Note."""
        return n

    class KeepsFirst(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            if request.number:
                return await call_next(request)
            first = await call_next.again(request)
            await call_next.again(request)
            return first

    model = ScriptedModel(calls(("note", {"n": 1})), calls(("note", {"n": 2})), text("done"))
    agent = Agent(model, tools=[note], middleware=[KeepsFirst()], post_model_hooks=())
    run = agent.stream("x")
    assert_events_valid(await collect(run))
    result = await run.result()
    assert [one.data for one in result.steps[0].tool_results] == [1]


async def test_a_call_that_was_cut_off_is_told_apart_from_one_that_never_ran() -> None:
    @tool
    async def pay(n: int) -> str:
        """Pay."""
        await asyncio.sleep(10)
        return "paid"

    class Stops(Middleware):
        async def before_tool_call(self, ctx: Any, call: Any) -> Any:
            if call.args["n"] == 0:
                await asyncio.sleep(0.01)
                return End()
            if call.args["n"] == 2:
                await asyncio.sleep(10)
            return None

    turn = calls(("pay", {"n": 0}), ("pay", {"n": 1}), ("pay", {"n": 2}))
    agent = Agent(ScriptedModel(turn), tools=[pay], middleware=[Stops()], post_model_hooks=())
    results = [message.text for message in (await agent.run("x")).messages if message.role == "tool"]
    assert "may have taken effect" in results[1]
    assert results[2] == results[0] == "not executed: the run ended"


async def test_a_run_that_waits_for_its_own_end_is_refused_and_a_close_from_within_ends_it() -> None:
    class Waits(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            await agent.aclose()

    agent: Agent[Any] = Agent(ScriptedModel("a"), middleware=[Waits()])
    with pytest.raises(InterposeError, match="closed"):
        await asyncio.wait_for(agent.run("x"), 5)


async def test_a_stream_that_is_aborted_before_its_end_was_read_ends_once() -> None:
    agent = Agent(ScriptedModel("a"))
    async with agent.stream("x") as run:
        events: list[Event] = [await anext(run)]
        await asyncio.sleep(0.02)
        run.abort("late")
        events += await collect(run)
    assert_events_valid(events)
    assert event_types(events)[-1] == "RUN_ERROR"


async def test_what_a_tool_gives_after_its_time_is_thrown_away() -> None:
    @tool
    async def stubborn() -> str:
        """Ignore the clock."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        return "late"

    agent = Agent(ScriptedModel(calls("stubborn"), "end"), tools=[stubborn], limits=Limits(tool_timeout_s=0.01))
    result = (await agent.run("x")).messages[2]
    assert "timed out" in result.text
    assert "late" not in result.text


async def test_an_abort_does_not_wait_for_ever_for_a_tool_that_ignores_it() -> None:
    stop = asyncio.Event()

    @tool
    async def deaf() -> str:
        """Ignore everything."""
        while not stop.is_set():
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                continue
        return "at last"

    agent = Agent(ScriptedModel(calls("deaf")), tools=[deaf])
    async with agent.stream("x") as run:
        await asyncio.sleep(0.02)
        run.abort("enough")
        with pytest.raises(InterposeError, match="enough"):
            await asyncio.wait_for(run.result(), 5)
    stop.set()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def test_an_event_of_another_place_in_a_content_is_refused() -> None:
    from interpose import RunErrorEvent, TextMessageContentEvent

    class Forges(Middleware):
        def on_chunk(self, ctx: Any, event: Event) -> Any:
            return RunErrorEvent("no") if isinstance(event, TextMessageContentEvent) else None

    with pytest.raises(HookError, match=r"Forges\.on_chunk returned a RUN_ERROR"):
        await Agent(ScriptedModel("a"), middleware=[Forges()]).run("x")


async def test_a_forgotten_await_is_named() -> None:
    class Forgets(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return call_next(request)

    with pytest.raises(HookError, match="return await call_next"):
        await Agent(ScriptedModel("a"), middleware=[Forgets()]).run("x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"clock": 3},
        {"limits": 3},
        {"settings": 3},
        {"instructions": None},
        {"store": 3},
        {"post_model_hooks": [3]},
        {"before_tool": 3},
        {"output_retries": -1},
        {"tools": {}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_wrong_argument_is_refused_where_it_is_given(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong)).replace("post_model_hooks", "model hook")):
        Agent(ScriptedModel("a"), **wrong)
