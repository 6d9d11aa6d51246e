"""`Pause` from each hook that may pause: the hook is entered again, and nothing inside it runs twice."""

from typing import Any

import pytest
from tests.interrupts.play import (
    WORK,
    BeforeModel,
    OnStart,
    agent,
    answers_to,
    asked,
    carried,
    go_on,
    paused,
    results_of,
    shown,
    worker,
)

from interpose import Middleware, ModelResponse, Pause, Resolved
from interpose.hooks import PostModelHookResult, PreModelHookResult
from interpose.testing import calls, text, text_of


async def test_a_tools_result_and_duration_are_those_of_the_first_time(how: str) -> None:
    log: list[Any] = []
    seen: list[Any] = []

    class Outer(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
            seen.append((result.data, result.duration_ms))

    class Keeps(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            result = await call_next(call)
            seen.append((result.data, result.duration_ms))
            return result if ctx.answer("keep?") else Pause("keep?")

    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker(log)], middleware=[Outer(), Keeps()]))
    await go_on(first, answers_to(first, Resolved("yes")))
    assert (log, len(seen), len(set(seen))) == (["a"], 3, 1)


async def test_again_after_the_answer_does_call_the_tool_again(how: str) -> None:
    log: list[Any] = []

    class Redoes(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            await call_next(call)
            if ctx.answer("redo?") is None:
                return Pause("redo?")
            return await call_next.again(call)

    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker(log)], middleware=[Redoes()]))
    await go_on(first, answers_to(first, Resolved(True)))
    assert log == ["a", "a"]


async def test_an_answer_of_a_tool_hook_is_that_of_its_call_alone(how: str) -> None:
    got: dict[str, Any] = {}

    class Asks(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            answer = ctx.answer("ok?")
            if answer is None:
                return Pause("ok?")
            got[call.args["x"]] = answer.payload
            return None if answer.payload else call.refuse("no")

    log: list[Any] = []
    turn = calls(("work", {"x": "a"}), ("work", {"x": "b"}))
    first = await paused(how, agent(turn, text("done"), tools=[worker(log)], middleware=[Asks()]))
    assert len({one.id for one in asked(first)}) == 2
    after = await go_on(first, answers_to(first, Resolved(True), Resolved(False)))
    assert (got, log) == ({"a": True, "b": False}, ["a"])
    assert results_of(after.result.messages) == ["worked on a", "no"]


async def test_the_same_reason_in_a_later_step_is_asked_again(how: str) -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return None if ctx.answer("ok?") else Pause("ok?")

    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker([])], middleware=[Gate()]))
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert second.result.status == "interrupted"
    assert asked(first)[0].id != asked(second)[0].id
    third = await go_on(second, answers_to(second, Resolved(True)))
    assert (third.result.text, len(third.requests)) == ("done", 2)


async def test_the_same_reason_for_a_later_call_is_asked_again(how: str) -> None:
    log: list[Any] = []

    class Gate(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return None if ctx.answer("ok?") else Pause("ok?")

    turns = [calls(("work", {"x": "a"})), calls(("work", {"x": "b"})), text("done")]
    first = await paused(how, agent(*turns, tools=[worker(log)], middleware=[Gate()]))
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert (second.result.status, log) == ("interrupted", ["a"])
    third = await go_on(second, answers_to(second, Resolved(True)))
    assert (third.result.text, log) == ("done", ["a", "b"])


@pytest.mark.parametrize("where", ["before_model_call", "wrap_model_call", "after_model_call", "before_tool_call"])
async def test_one_hook_may_ask_one_thing_after_another(how: str, where: str) -> None:
    got: list[Any] = []

    def steps(ctx: Any) -> Any:
        for reason in ("first?", "second?", "third?"):
            if ctx.answer(reason) is None:
                return Pause(reason)
        got.append([ctx.answer(reason).payload for reason in ("first?", "second?", "third?")])
        return None

    class Chain(Middleware):
        if where == "before_model_call":

            def before_model_call(self, ctx: Any, request: Any) -> Any:
                return steps(ctx)

        elif where == "wrap_model_call":

            async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
                response = await call_next(request)
                return steps(ctx) or response

        elif where == "after_model_call":

            def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
                return steps(ctx)

        else:

            def before_tool_call(self, ctx: Any, call: Any) -> Any:
                return steps(ctx)

    log: list[Any] = []
    turns = [calls(WORK)] if where == "before_tool_call" else [text("done")]
    turns = [*turns, text("done")] if where == "before_tool_call" else turns
    played = await paused(how, agent(*turns, tools=[worker(log)], middleware=[Chain()]))
    for answer, reason in ((1, "second?"), (2, "third?")):
        played = await go_on(played, answers_to(played, Resolved(answer)))
        assert [one.reason for one in asked(played)] == [reason]
    played = await go_on(played, answers_to(played, Resolved(3)))
    assert (played.result.text, got, len(played.requests)) == ("done", [[1, 2, 3]], len(turns))


async def test_two_layers_may_pause_one_after_the_other(how: str) -> None:
    class Gate(Middleware):
        def __init__(self, reason: str) -> None:
            self.reason = reason

        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return None if ctx.answer(self.reason) else Pause(self.reason)

    first = await paused(how, agent(text("done"), middleware=[Gate("outer?"), Gate("inner?")]))
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert [one.reason for one in asked(second)] == ["inner?"]
    third = await go_on(second, answers_to(second, Resolved(True)))
    assert (third.result.status, third.result.text) == ("finished", "done")


async def test_two_middleware_of_one_name_keep_what_is_theirs(how: str) -> None:
    got: list[Any] = []

    class Stamp(Middleware):
        def __init__(self, mark: str) -> None:
            self.mark = mark

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            response = await call_next(request)
            got.append((self.mark, response.text))
            if self.mark == "outer" and ctx.answer("ok?") is None:
                return Pause("ok?")
            return response.replace(message=response.message.replace(text=response.text + self.mark[0]))

    first = await paused(how, agent(text("x"), middleware=[Stamp("outer"), Stamp("inner")]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert after.result.text == "xio"
    assert got == [("inner", "x"), ("outer", "xi"), ("outer", "xi")]


async def test_an_outer_retrying_layer_does_not_take_a_pause_for_a_failure(how: str) -> None:
    tries: list[int] = []

    class Tries(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            for _ in range(3):
                tries.append(1)
                try:
                    return await call_next.again(call)
                except Exception:
                    continue
            return "gave up"

    class Gate(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return None if ctx.answer("ok?") else Pause("ok?")

    log: list[Any] = []
    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker(log)], middleware=[Tries(), Gate()]))
    assert (tries, log) == ([1], [])
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, tries, log) == ("done", [1, 1], ["a"])


async def test_a_hook_that_answers_after_the_pause_keeps_the_model_uncalled(how: str) -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            answer = ctx.answer("what to say?")
            return Pause("what to say?") if answer is None else request.answer(answer.payload)

    first = await paused(how, agent(text("never"), middleware=[Gate()]))
    after = await go_on(first, answers_to(first, Resolved("hello")))
    assert (after.result.text, after.requests) == ("hello", [])


async def test_a_response_changed_after_the_answer_is_the_one_that_counts(how: str) -> None:
    class Judge(Middleware):
        holds_stream = True

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            answer = ctx.answer("fine?")
            if answer is None:
                return Pause("fine?", response.text)
            assert isinstance(response, ModelResponse)
            return response.replace(message=response.message.replace(text=answer.payload))

    first = await paused(how, agent(text("rude"), middleware=[Judge()]))
    assert asked(first)[0].value == "rude"
    after = await go_on(first, answers_to(first, Resolved("polite")))
    assert (after.result.text, len(after.requests)) == ("polite", 1)
    if how == "stream":
        assert text_of(shown(first, after)) == "polite"


async def test_text_that_waited_for_a_judgement_is_shown_after_it(how: str) -> None:
    class Judge(Middleware):
        holds_stream = True

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return None if ctx.answer("fine?") else Pause("fine?", response.text)

    first = await paused(how, agent(text("hello"), middleware=[Judge()]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert after.result.text == "hello"
    if how == "stream":
        assert text_of(shown(first, after)) == "hello"


async def test_a_pause_of_a_pre_model_hook_is_answered(how: str) -> None:
    made = agent(text("done"))

    @made.register_pre_model_hook
    def gate(context: Any) -> Any:
        return None if context.answer("ok?") else PreModelHookResult(interrupt=Pause("ok?", 1))

    first = await paused(how, made)
    assert [(one.reason, one.value) for one in asked(first)] == [("ok?", 1)]
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, len(after.requests)) == ("done", 1)


async def test_a_pause_of_a_post_model_hook_is_answered_and_the_model_is_called_once(how: str) -> None:
    made = agent(text("done"))

    @made.register_post_model_hook
    def gate(context: Any) -> Any:
        return None if context.answer("ok?") else PostModelHookResult(interrupt=Pause("ok?", 1))

    first = await paused(how, made)
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, len(after.requests)) == ("done", 1)


async def test_a_pause_of_the_agents_own_tool_hook_is_answered(how: str) -> None:
    log: list[Any] = []

    def gate(ctx: Any, call: Any) -> Any:
        return None if ctx.answer("ok?") else Pause("ok?")

    first = await paused(how, agent(calls(WORK), text("done"), tools=[worker(log)], before_tool=gate))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, log) == ("done", ["a"])


async def test_a_pause_in_start_runs_nothing_and_shows_nothing_before_the_answer() -> None:
    first = await paused("stream", agent(text("hi"), middleware=[OnStart([])]))
    assert first.types == ["RUN_STARTED", "RUN_FINISHED"]
    assert first.requests == []
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert text_of(after.events) == "hi"


async def test_a_pause_keeps_a_value_that_json_cannot_hold_out_of_the_checkpoint(how: str) -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return None if ctx.answer("ok?") else Pause("ok?", {"when": object()})

    first = await paused(how, agent(text("done"), middleware=[Gate()]))
    assert carried(first)
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert after.result.text == "done"


async def test_resumed_hooks_know_what_they_were_resumed_from(how: str) -> None:
    seen: list[Any] = []

    class Sees(Middleware):
        def on_start(self, ctx: Any) -> None:
            seen.append((ctx.run_id, ctx.resumed_from, ctx.thread_id, ctx.parent_run_id))

    first = await paused(how, agent(text("done"), middleware=[Sees(), BeforeModel([])]))
    await go_on(first, answers_to(first, Resolved(True)))
    (run, source, thread, parent), (new_run, new_source, new_thread, new_parent) = seen
    assert (source, new_source) == (None, run)
    assert new_run != run
    assert (thread, parent) == (new_thread, new_parent)
