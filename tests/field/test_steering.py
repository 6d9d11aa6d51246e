"""Outcomes travel beside errors: nothing swallows them, the strongest holds, and where they may come from is fixed."""

import asyncio
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, errors_of, results_of, roles, run_once

from interpose import (
    DROP,
    Abort,
    End,
    FatalToolError,
    HookError,
    Limits,
    Middleware,
    Pause,
    Retry,
    RunAborted,
    Skip,
    tool,
)
from interpose.testing import calls, event_types, make_response, text, text_of

ONE = ("echo", {"x": "1"})


def returning(hook: str, value: Any, name: str = "Steers") -> Any:
    return type(name, (Middleware,), {hook: lambda self, *args: value})()


@pytest.mark.parametrize("way", ["gather", "task group", "task", "shield", "except BaseException"])
@pytest.mark.parametrize("outcome", [End("ended"), Abort("aborted"), Pause("asked")], ids=["End", "Abort", "Pause"])
async def test_no_way_of_awaiting_call_next_swallows_an_outcome(way: str, outcome: Any) -> None:
    async def swallow(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            if way == "gather":
                await asyncio.gather(call_next(request), return_exceptions=True)
            elif way == "task group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(call_next(request))
            elif way == "task":
                await asyncio.wait([asyncio.ensure_future(call_next(request))])
            elif way == "shield":
                await asyncio.shield(call_next(request))
            else:
                await call_next(request)
        except BaseException:
            pass
        return request.answer("swallowed")

    played = await both(
        lambda log: agent_of(text("never"), middleware=[swallow, returning("before_model_call", outcome)])
    )
    if isinstance(outcome, Abort):
        assert isinstance(played.error, RunAborted)
    elif isinstance(outcome, Pause):
        assert played.result.status == "interrupted"
    else:
        assert played.result.text == "ended"
    assert played.requests == []


@pytest.mark.parametrize("outcome", [End("ended"), Abort("aborted")], ids=["End", "Abort"])
async def test_no_tool_layer_swallows_an_outcome(outcome: Any) -> None:
    class Swallows(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            try:
                return await call_next(call)
            except BaseException:
                return "swallowed"

    middleware = [Swallows(), returning("before_tool_call", outcome)]
    played = await both(lambda log: agent_of(calls(ONE), text("never"), tools=[echo], middleware=middleware))
    assert len(played.requests) == 1
    assert (played.error is None) is isinstance(outcome, End)


async def test_an_error_after_an_end_is_stronger() -> None:
    class Fails(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            finally:
                raise ZeroDivisionError("on the way out")

    middleware = [Fails(), returning("before_model_call", End("ended"))]
    played = await both(lambda log: agent_of(text("never"), middleware=middleware))
    assert isinstance(played.error, ZeroDivisionError)


async def test_an_abort_is_stronger_than_an_error() -> None:
    class Fails(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> None:
            ctx.abort("first")
            raise ZeroDivisionError("then")

    played = await both(lambda log: agent_of(text("never"), middleware=[Fails()]))
    assert isinstance(played.error, RunAborted)


async def test_a_fatal_tool_is_stronger_than_the_pause_of_its_sibling() -> None:
    async def breaks() -> str:
        """Break."""
        await asyncio.sleep(0.01)
        raise FatalToolError("fatal")

    class Asks(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return Pause("ask") if call.name == "echo" else None

    played = await both(lambda log: agent_of(calls(ONE, "breaks"), tools=[echo, breaks], middleware=[Asks()]))
    assert isinstance(played.error, FatalToolError)


async def test_a_pause_is_stronger_than_an_end() -> None:
    class Steers(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return Pause("ask") if call.args["x"] == "pause" else None

        async def after_tool_call(self, ctx: Any, call: Any, result: Any) -> Any:
            await asyncio.sleep(0.01)
            return End("ended")

    turn = calls(("echo", {"x": "pause"}), ("echo", {"x": "end"}))
    played = await both(lambda log: agent_of(turn, tools=[echo], middleware=[Steers()]))
    assert played.result.status == "interrupted"


@pytest.mark.parametrize(
    ("hook", "outcome"),
    [
        ("before_model_call", Retry("x")),
        ("before_model_call", Skip("x")),
        ("before_model_call", DROP),
        ("wrap_model_call", Retry("x")),
        ("wrap_model_call", Skip("x")),
        ("after_model_call", Skip("x")),
        ("after_model_call", DROP),
        ("before_tool_call", Retry("x")),
        ("before_tool_call", DROP),
        ("wrap_tool_call", Retry("x")),
        ("after_tool_call", Pause("x")),
        ("after_tool_call", Retry("x")),
        ("after_tool_call", Skip("x")),
        ("on_start", Retry("x")),
        ("on_start", DROP),
        ("on_step", End()),
        ("on_config", End()),
        ("on_usage", End()),
        ("on_chunk", End()),
        ("on_tool_phase_complete", End()),
        ("on_should_continue", End()),
        ("wrap_run", End()),
        ("setup", End()),
        ("on_interrupt_boundary", Pause("x")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_an_outcome_from_a_seam_that_does_not_take_it_is_a_hook_error(hook: str, outcome: Any) -> None:
    from interpose import Usage

    used = Usage(input_tokens=1)
    played = await both(
        lambda log: agent_of(
            calls(ONE, usage=used), text("x", usage=used), tools=[echo], middleware=[returning(hook, outcome)]
        )
    )
    assert isinstance(played.error, HookError)
    for word in ("Steers", hook, type(outcome).__name__.upper() if outcome is DROP else type(outcome).__name__):
        assert word in str(played.error)


@pytest.mark.parametrize("outcome", [End, Pause, Abort, Retry, Skip])
async def test_the_class_of_an_outcome_in_its_place_is_a_hook_error(outcome: Any) -> None:
    played = await both(lambda log: agent_of(text("x"), middleware=[returning("before_model_call", outcome)]))
    assert isinstance(played.error, HookError)


async def test_the_text_of_an_end_is_a_last_message_in_history_and_stream() -> None:
    class Ends(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return End("bye")

    played = await both(lambda log: agent_of(text("said"), middleware=[Ends()]))
    assert [message.text for message in played.result.messages] == ["go", "said", "bye"]
    assert text_of(played.events) == "saidbye"
    assert event_types(played.events).count("TEXT_MESSAGE_START") == 2


async def test_an_end_keeps_the_finished_results_and_answers_the_open_calls() -> None:
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(5)
        return "x"

    class Ends(Middleware):
        async def after_tool_call(self, ctx: Any, call: Any, result: Any) -> Any:
            await asyncio.sleep(0.01)
            return End() if call.args.get("x") == "last" else None

    turn = calls(("echo", {"x": "first"}), "slow", ("echo", {"x": "last"}))
    played = await both(lambda log: agent_of(turn, tools=[echo, slow], middleware=[Ends()]))
    assert errors_of(played.result)[:2] == [False, True]
    assert len(results_of(played.result)) == 3
    assert len(played.requests) == 1


async def test_wrap_run_sees_the_result_of_runs_that_end_in_good_order() -> None:
    def make(log: list[Any]) -> Any:
        class Around(Middleware):
            async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
                result = await call_next()
                log.append((result.status, result.finish_reason, result.text))
                return result.replace(text=result.text + "!")

        return agent_of(text("x"), middleware=[Around(), returning("after_model_call", End("bye"))])

    played = await run_once(make)
    assert played.log == [("finished", "stop", "bye")]
    assert played.result.text == "bye!"


async def test_wrap_run_may_return_nothing_and_changes_nothing() -> None:
    class Around(Middleware):
        async def wrap_run(self, ctx: Any, call_next: Any) -> None:
            await call_next()

    played = await both(lambda log: agent_of(text("x"), middleware=[Around()]))
    assert played.result.text == "x"


async def test_errors_and_limits_that_raise_pass_through_wrap_run() -> None:
    def make(log: list[Any]) -> Any:
        class Around(Middleware):
            async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
                try:
                    return await call_next()
                finally:
                    log.append("left")

        limits = Limits(max_steps=1, on_exceeded="raise")
        return agent_of(calls(ONE), tools=[echo], middleware=[Around()], limits=limits)

    played = await both(make)
    assert played.log == ["left"]
    assert played.end == "on_error"


async def test_retry_in_a_stream_supersedes_the_rejected_text() -> None:
    class Asks(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return Retry("again", max_retries=2) if response.text != "good" else None

    played = await both(lambda log: agent_of(text("bad"), text("worse"), text("good"), middleware=[Asks()]))
    superseded = [event for event in played.events if event.type == "CUSTOM"]
    assert text_of(played.events) == "good"
    assert len(superseded) == 2
    assert roles(played.result.messages) == ["user", "assistant"]


async def test_retries_are_counted_per_hook() -> None:
    def asking(word: str, log: list[Any]) -> Any:
        class Asks(Middleware):
            def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
                log.append(word)
                return Retry(word)

        return Asks()

    played = await both(
        lambda log: agent_of(*[text(str(n)) for n in range(9)], middleware=[asking("a", log), asking("b", log)])
    )
    assert played.log == ["b", "b", "a", "b", "a"]
    assert len(played.requests) == 3


async def test_retry_is_counted_anew_in_each_step() -> None:
    class Asks(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return Retry("again")

    turns = [text("a"), calls(ONE), text("b"), text("c")]
    played = await both(lambda log: agent_of(*turns, tools=[echo], middleware=[Asks()]))
    assert len(played.requests) == 4
    assert played.result.text == "c"


async def test_a_tool_that_a_layer_adds_for_the_step_can_run() -> None:
    @tool
    async def added() -> str:
        """Added."""
        return "ran"

    class Adds(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.with_tools([*request.tools, added])

    played = await both(lambda log: agent_of(calls("added"), text("x"), tools=[echo], middleware=[Adds()]))
    assert results_of(played.result) == ["ran"]


async def test_a_made_up_response_may_call_only_what_its_maker_was_given() -> None:
    class Hides(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.without_tools("echo")

    class Makes(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return make_response([ONE]) if request.is_first_step else None

    played = await both(lambda log: agent_of(text("x"), tools=[echo], middleware=[Hides(), Makes()]))
    assert errors_of(played.result) == [True]
