"""Tools, hooks and nested runs that misbehave, and values that are edited where they should not be."""

import asyncio
from typing import Any

import pytest
from tests.layers.play import Ends, agent_of, both, echo, errors_of, results_of

from interpose import (
    End,
    HookError,
    Limits,
    Middleware,
    ProviderDown,
)
from interpose.testing import calls, fail, hang, text

ONE = ("echo", {"x": "1"})


async def again(ctx: Any, request: Any, call_next: Any) -> Any:
    try:
        return await call_next(request)
    except ProviderDown:
        return await call_next.again(request)


async def test_a_run_inside_a_tool_is_a_run_of_its_own_and_may_be_caught() -> None:
    async def ask() -> str:
        """Ask."""
        try:
            return (await agent_of(fail(RuntimeError("inner broke"))).run("go")).text
        except RuntimeError as error:
            return f"caught: {error}"

    played = await both(lambda log: agent_of(calls("ask"), text("x"), tools=[ask]))
    assert results_of(played.result) == ["caught: inner broke"]


async def test_a_failing_sub_agent_is_an_error_result_for_its_parent() -> None:
    def make(log: list[Any]) -> Any:
        child = agent_of(fail(RuntimeError("inner broke"))).as_tool("child", "Child.")
        return agent_of(calls(("child", {"prompt": "x"})), text("end"), tools=[child])

    played = await both(make)
    assert errors_of(played.result) == [True]
    assert "inner broke" in results_of(played.result)[0]
    assert played.result.text == "end"


async def test_a_sub_agent_that_ends_early_answers_with_its_text() -> None:
    class Ender(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return End("ended")

    def make(log: list[Any]) -> Any:
        child = agent_of(middleware=[Ender()]).as_tool("child", "Child.")
        return agent_of(calls(("child", {"prompt": "x"})), text("end"), tools=[child])

    played = await both(make)
    assert (results_of(played.result), errors_of(played.result)) == (["ended"], [False])


async def test_a_nested_run_cut_by_an_outer_limit_finishes_for_that_reason() -> None:
    inner = Ends()
    child = agent_of(hang(), middleware=[inner]).as_tool("child", "Child.")
    agent = agent_of(calls(("child", {"prompt": "x"})), tools=[child], limits=Limits(max_duration_s=0.05))
    result = await agent.run("go")
    assert result.finish_reason == "limit"
    assert inner.seen == ["on_finish"]
    assert inner.info[0].finish_reason == "limit"


async def test_a_hook_may_be_cancelled_while_others_of_the_step_are_told() -> None:
    class Slow(Middleware):
        async def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
            await asyncio.sleep(0.001)

    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Slow(), Slow()]))
    assert played.result.text == "x"


async def test_the_same_middleware_object_listed_twice_is_two_layers_and_one_opening() -> None:
    log: list[str] = []

    class Logs(Middleware):
        def open(self, agent: Any) -> None:
            log.append("open")

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            log.append("+")
            return await call_next(request)

    one = Logs()
    await agent_of(text("x"), middleware=[one, one]).run("go")
    assert log == ["open", "+", "+"]


async def test_editing_what_a_hook_was_given_changes_nothing() -> None:
    class Edits(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> None:
            with pytest.raises((AttributeError, TypeError)):
                call.args = {"x": "edited"}

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
            with pytest.raises((AttributeError, TypeError)):
                response.message.text = "edited"

        def on_chunk(self, ctx: Any, event: Any) -> None:
            with pytest.raises((AttributeError, TypeError)):
                event.seq = 99

    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Edits()]))
    assert results_of(played.result) == ["1"]


async def test_a_tool_that_edits_its_arguments_does_not_change_history() -> None:
    async def edits(x: dict[str, Any]) -> str:
        """Edit."""
        x["k"] = "edited"
        return "x"

    played = await both(lambda log: agent_of(calls(("edits", {"x": {"k": 1}})), text("x"), tools=[edits]))
    assert played.result.messages[1].tool_calls[0].args == {"x": {"k": 1}}


async def test_a_result_that_is_changed_later_by_its_tool_does_not_change_history() -> None:
    shared: list[int] = [1]

    async def grows() -> list[int]:
        """Grow."""
        shared.append(len(shared) + 1)
        return shared

    agent = agent_of(calls("grows"), calls("grows"), text("x"), tools=[grows])
    result = await agent.run("go")
    assert results_of(result) == ["[1,2]", "[1,2,3]"]


async def test_a_def_tool_that_returns_a_coroutine_has_it_awaited() -> None:
    async def inner() -> str:
        return "from within"

    def gives() -> Any:
        """Give."""
        return inner()

    played = await both(lambda log: agent_of(calls("gives"), text("x"), tools=[gives]))
    assert results_of(played.result) == ["from within"]


async def test_stop_iteration_from_tools_and_hooks_is_an_ordinary_failure() -> None:
    def stops() -> str:
        """Stop."""
        raise StopIteration("x")

    async def stops_async() -> str:
        """Stop."""
        raise StopAsyncIteration("x")

    played = await both(lambda log: agent_of(calls("stops", "stops_async"), text("x"), tools=[stops, stops_async]))
    assert errors_of(played.result) == [True, True]


async def test_a_def_hook_that_raises_stop_iteration_fails_the_run() -> None:
    class Stops(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> None:
            next(iter([]))

    played = await both(lambda log: agent_of(text("x"), middleware=[Stops()]))
    assert played.error is not None
    assert played.end == "on_error"


async def test_steps_without_calls_in_the_middle_end_the_run() -> None:
    played = await both(lambda log: agent_of(text("done"), text("never")))
    assert len(played.requests) == 1


async def test_a_finish_of_tool_calls_without_calls_ends_the_run() -> None:
    played = await both(lambda log: agent_of(text("done", finish_reason="tool_calls"), text("never")))
    assert len(played.requests) == 1
    assert played.result.text == "done"


async def test_a_response_made_of_a_foreign_object_is_a_hook_error_in_both_ways() -> None:
    class Wrong(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return response.message

    played = await both(lambda log: agent_of(text("x"), middleware=[Wrong()]))
    assert isinstance(played.error, HookError)
