"""`Pause` from each hook that may pause: it is entered again, reads the answer, and nothing inside it runs twice."""

from typing import Any

import pytest
from tests.interrupts.play import (
    WORK,
    BeforeModel,
    Looks,
    OnStart,
    agent,
    answers_to,
    asked,
    go_on,
    looks_of,
    paused,
    said,
    shown,
    worker,
)

from interpose import Cancelled, Middleware, Pause, Resolved
from interpose.testing import calls, text, text_of


class WrapModelFirst(OnStart):
    on_start = Middleware.on_start

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        if ctx.step == 0:
            value = said(ctx)
            if isinstance(value, Pause):
                return value
            self.got.append(value)
        return await call_next(request)


class WrapModelLast(OnStart):
    on_start = Middleware.on_start

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        if ctx.step == 0:
            value = said(ctx)
            if isinstance(value, Pause):
                return value
            self.got.append(value)
        return response


class AfterModel(OnStart):
    on_start = Middleware.on_start

    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        if ctx.step > 0:
            return None
        value = said(ctx)
        return value if isinstance(value, Pause) else self.got.append(value)


class BeforeTool(OnStart):
    on_start = Middleware.on_start

    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        value = said(ctx)
        return value if isinstance(value, Pause) else self.got.append(value)


class WrapToolFirst(OnStart):
    on_start = Middleware.on_start

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        value = said(ctx)
        if isinstance(value, Pause):
            return value
        self.got.append(value)
        return await call_next(call)


class WrapToolLast(OnStart):
    on_start = Middleware.on_start

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        value = said(ctx)
        if isinstance(value, Pause):
            return value
        self.got.append(value)
        return result


HOOKS = (OnStart, BeforeModel, WrapModelFirst, WrapModelLast, AfterModel, BeforeTool, WrapToolFirst, WrapToolLast)


every_hook = pytest.mark.parametrize("hook", HOOKS, ids=lambda one: one.__name__)


@every_hook
async def test_a_hook_that_paused_reads_the_answer_and_the_run_is_as_without_a_pause(how: str, hook: Any) -> None:
    log: list[Any] = []
    got: list[Any] = []
    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker(log)], middleware=[hook(got)]))
    assert [one.reason for one in asked(first)] == ["ok?"]
    after = await go_on(first, answers_to(first, Resolved("yes")))
    assert (after.result.status, after.result.text, got) == ("finished", "done", ["yes"])
    assert (log, len(after.requests)) == (["a"], 2)
    assert [message.role for message in after.result.messages] == ["user", "assistant", "tool", "assistant"]
    assert [step.number for step in after.result.steps] == [0, 1]


@every_hook
async def test_a_hook_that_paused_may_be_told_that_the_question_was_withdrawn(how: str, hook: Any) -> None:
    got: list[Any] = []
    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker([])], middleware=[hook(got)]))
    after = await go_on(first, answers_to(first, Cancelled()))
    assert (after.result.text, got) == ("done", [Cancelled()])


@every_hook
async def test_nothing_is_streamed_twice_around_the_pause_of_a_hook(hook: Any) -> None:
    turn = calls(WORK, text="Let me see")
    first = await paused("stream", agent(turn, text("done"), tools=[worker([])], middleware=[hook([])]))
    after = await go_on(first, answers_to(first, Resolved("yes")))
    both = shown(first, after)
    assert text_of(both) == "Let me seedone"
    types = [event.type for event in both]
    assert [types.count(f"TOOL_CALL_{one}") for one in ("START", "ARGS", "END", "RESULT")] == [1, 1, 1, 1]


@every_hook
async def test_a_pause_has_the_value_that_a_person_needs(how: str, hook: Any) -> None:
    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker([])], middleware=[hook([])]))
    assert asked(first)[0].value == {"step": 0}


@every_hook
async def test_the_layers_outside_and_the_terminal_hooks_are_called_once_a_run(how: str, hook: Any) -> None:
    look = Looks()
    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker([])], middleware=[look, hook([])]))
    assert looks_of(look)[-1] == "on_finish interrupted"
    await go_on(first, answers_to(first, Resolved("yes")))
    seen = looks_of(look)
    assert [one for one in seen if one.startswith("on_finish")] == ["on_finish finished"]
    assert seen.count("after_tool_call work") == 1


@every_hook
async def test_the_layers_inside_a_pause_that_came_late_are_called_once_in_both_runs(how: str, hook: Any) -> None:
    look = Looks()
    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker([])], middleware=[hook([]), look]))
    await go_on(first, answers_to(first, Resolved("yes")))
    assert [look.seen.count(one) for one in ("before_tool_call work", "after_tool_call work")] == [1, 1]
    assert [look.seen.count(one) for one in ("before_model_call", "after_model_call")] == [2, 2]
