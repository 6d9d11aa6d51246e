"""Layers round the model call: answering, changing the request, trying again, ending."""

from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, hello, logged, results_of, two_steps

from interpose import (
    Agent,
    AssistantMessage,
    End,
    HistoryError,
    HookError,
    Limits,
    Middleware,
    Retry,
    ToolCall,
    Usage,
    after_model_call,
    before_model_call,
    on_usage,
    tool,
    wrap_model_call,
)
from interpose.testing import ScriptedModel, calls, make_response, text, text_of


async def answer(ctx: Any, request: Any, call_next: Any) -> Any:
    return request.answer("made up")


async def test_a_layer_that_answers_makes_a_real_step_without_a_model() -> None:
    played = await both(lambda log: agent(middleware=[wrap_model_call(answer)]))
    assert played.requests == []
    assert len(played.result.steps) == 1
    assert text_of(played.events) == played.result.text == "made up"
    assert played.types[2:5] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]


async def test_what_a_layer_made_up_is_marked_with_its_name() -> None:
    class Canned(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.answer("made up")

    played = await both(lambda log: agent(middleware=[Canned()]))
    assert played.result.steps[0].response.made_by == "Canned"


async def test_an_answer_in_front_skips_what_is_inside_and_its_own_wrap_but_no_after() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Answers(Middleware):
            def before_model_call(self, ctx: Any, request: Any) -> Any:
                return request.answer("made up")

            async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
                log.append("own wrap")
                return await call_next(request)

            def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
                log.append("own after")

        outer = logged("outer", log, "after_model_call")
        inner = logged("inner", log, "before_model_call", "wrap_model_call", "after_model_call")
        return agent(middleware=[outer, Answers(), inner])

    assert (await both(make)).log == ["own after", "outer.after_model_call"]


async def test_made_up_calls_are_executed_and_the_model_reads_their_results() -> None:
    def once(ctx: Any, request: Any) -> Any:
        asked = [ToolCall("c1", "add", {"a": 1, "b": 2}), ToolCall("c2", "add", {"a": 3, "b": 4})]
        return make_response(asked) if request.is_first_step else None

    played = await both(lambda log: agent("both", tools=[add], middleware=[before_model_call(once)]))
    assert results_of(played.requests[0].messages) == ["3", "7"]
    assert played.types.count("TOOL_CALL_START") == played.types.count("TOOL_CALL_RESULT") == 2


async def test_a_made_up_answer_spends_no_model_call_and_no_usage() -> None:
    def once(ctx: Any, request: Any) -> Any:
        used = Usage(input_tokens=99, output_tokens=1)
        return make_response([("add", {"a": 1, "b": 2})], usage=used) if request.is_first_step else None

    turn = text("real", usage=Usage(input_tokens=1, output_tokens=1))
    limits = Limits(max_model_calls=1, on_exceeded="raise")
    played = await both(
        lambda log: agent(
            turn,
            tools=[add],
            limits=limits,
            middleware=[before_model_call(once), on_usage(lambda ctx, usage: log.append(usage.total_tokens))],
        )
    )
    assert played.result.text == "real"
    assert played.result.usage.total_tokens == 2
    assert played.log == [2]


@tool
async def other() -> str:
    """Do something else."""
    return "done"


CHANGES: dict[str, tuple[Any, Any]] = {
    "model": (lambda r: r.with_model("tiny"), lambda r: r.model),
    "tools": (lambda r: r.with_tools([*r.tools, other]), lambda r: [t.name for t in r.tools]),
    "only": (lambda r: r.only_tools("add"), lambda r: [t.name for t in r.tools]),
    "without": (lambda r: r.without_tools("second"), lambda r: [t.name for t in r.tools]),
    "choice": (lambda r: r.with_tool_choice("required"), lambda r: r.settings.tool_choice),
    "max_tokens": (lambda r: r.with_max_tokens(7), lambda r: r.settings.max_tokens),
    "instructions": (lambda r: r.append_instructions("More."), lambda r: r.instructions),
}
WANTED: dict[str, list[Any]] = {
    "model": ["tiny", "scripted"],
    "tools": [["add", "second", "other"], ["add", "second"]],
    "only": [["add"], ["add", "second"]],
    "without": [["add"], ["add", "second"]],
    "choice": ["required", None],
    "max_tokens": [7, None],
    "instructions": ["Base.\n\nMore.", "Base."],
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_changed_request_holds_for_its_step_only(what: str) -> None:
    change, look = CHANGES[what]

    async def second(a: int = 0) -> int:
        """Return it."""
        return a

    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(change(request) if request.is_first_step else request)

    turns = calls(("add", {"a": 1, "b": 2})), text("3")
    played = await both(
        lambda log: agent(*turns, tools=[add, second], instructions="Base.", middleware=[wrap_model_call(layer)])
    )
    assert [look(request) for request in played.requests] == WANTED[what]
    assert look(played.result.steps[0].request) == WANTED[what][0]


async def test_another_model_object_takes_the_call() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        small = ScriptedModel("small talk", provider="elsewhere", model="small")
        return agent(middleware=[before_model_call(lambda ctx, request: request.with_model(small))])

    played = await both(make)
    assert played.result.text == "small talk"
    assert played.result.steps[0].response.provider == "elsewhere"


async def test_provider_options_of_two_layers_are_merged() -> None:
    one = before_model_call(lambda ctx, request: request.with_provider_options({"a": 1}))
    two = before_model_call(lambda ctx, request: request.with_provider_options({"b": 2}))
    played = await both(lambda log: agent(hello(), middleware=[one, two]))
    assert dict(played.requests[0].settings.provider_options) == {"a": 1, "b": 2}


async def test_a_tool_that_a_layer_took_off_does_not_run() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        @tool
        async def danger() -> str:
            """Do harm."""
            log.append("ran")
            return "done"

        off = before_model_call(lambda ctx, request: request.without_tools("danger"))
        return agent(calls("danger"), "x", tools=[danger, add], middleware=[off])

    played = await both(make)
    assert played.log == []
    (result,) = played.result.steps[0].tool_results
    assert result.is_error
    assert "danger" in result.text


async def test_a_retry_is_another_call_within_the_step() -> None:
    def judge(ctx: Any, request: Any, response: Any) -> Any:
        return Retry("in English, please") if response.text == "Bonjour" else None

    played = await both(lambda log: agent("Bonjour", "Hello", middleware=[after_model_call(judge)]))
    assert len(played.requests) == 2
    assert [m.text for m in played.requests[1].messages] == ["Go", "Bonjour", "in English, please"]
    assert [m.role for m in played.requests[1].messages] == ["user", "assistant", "user"]
    assert [r.attempt for r in played.requests] == [0, 1]
    assert len(played.result.steps) == 1
    assert [m.text for m in played.result.messages] == ["Go", "Hello"]
    assert text_of(played.events) == "Hello"


@pytest.mark.parametrize("retries", [1, 2])
async def test_beyond_its_retries_the_response_stands(retries: int) -> None:
    judge = after_model_call(lambda ctx, request, response: Retry("again", max_retries=retries))
    turns = [text(f"try {n}", usage=Usage(input_tokens=1)) for n in range(retries + 1)]
    played = await both(lambda log: agent(*turns, middleware=[judge]))
    assert played.result.text == f"try {retries}"
    assert played.result.usage.input_tokens == retries + 1


async def test_a_retry_runs_what_is_inside_the_asker_again_and_nothing_outside() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def judge(ctx: Any, request: Any, response: Any) -> Any:
            return Retry("again") if response.text == "a" else None

        hooks = ("before_model_call", "after_model_call")
        return agent(
            "a", "b", middleware=[logged("out", log, *hooks), after_model_call(judge), logged("in", log, *hooks)]
        )

    inner = ["in.before_model_call", "in.after_model_call"]
    assert (await both(make)).log == ["out.before_model_call", *inner, *inner, "out.after_model_call"]


async def test_an_end_before_a_later_call_keeps_what_there_is() -> None:
    def stop(ctx: Any, request: Any) -> Any:
        return None if request.is_first_step else End()

    turn = calls(("add", {"a": 1, "b": 2}), text="let me see")
    played = await both(lambda log: agent(turn, tools=[add], middleware=[before_model_call(stop)]))
    assert played.result.text == "let me see"
    assert [result.data for result in played.result.steps[0].tool_results] == [3]
    assert played.endings == ["on_finish"]


async def test_an_end_with_text_says_it_last() -> None:
    ends = after_model_call(lambda ctx, request, response: End("that is all", finish_reason="content_filter"))
    played = await both(lambda log: agent(hello(), middleware=[ends]))
    assert played.result.text == "that is all"
    assert played.result.messages[-1].text == "that is all"
    assert played.result.finish_reason == "content_filter"


async def test_an_outcome_skips_the_afters_outside_and_no_finally() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def outer(ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            except Exception:
                log.append("caught")
                raise
            finally:
                log.append("finally")

        ends = before_model_call(lambda ctx, request: End())
        return agent(middleware=[logged("A", log, "after_model_call"), wrap_model_call(outer), ends])

    played = await both(make)
    assert played.log == ["finally"]
    assert played.result.steps == ()


async def test_a_layer_that_breaks_the_history_is_named() -> None:
    class Cuts(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            kept = [message for message in request.messages if not isinstance(message, AssistantMessage)]
            return await call_next(request.with_messages(kept))

    played = await both(lambda log: two_steps(middleware=[Cuts()]))
    assert isinstance(played.error, HistoryError)
    assert "Cuts" in str(played.error)
    assert len(played.requests) == 1
    assert played.endings == ["on_error"]


async def test_unknown_usage_stays_apart_from_none() -> None:
    first = calls(("add", {"a": 1, "b": 2}), usage=Usage(input_tokens=3, output_tokens=4))
    played = await both(lambda log: agent(first, text("x"), tools=[add]))
    used = played.result.usage
    assert (used.input_tokens, used.output_tokens, used.total_tokens) == (3, 4, 7)
    assert (used.cache_read_tokens, used.reasoning_tokens, used.cost_usd) == (None, None, None)


async def test_usage_is_told_once_a_step_as_the_sum_of_its_attempts() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def judge(ctx: Any, request: Any, response: Any) -> Any:
            return Retry("again") if response.text == "a" else None

        turns = [text(word, usage=Usage(input_tokens=5)) for word in "ab"]
        tell = on_usage(lambda ctx, usage: log.append(usage.input_tokens))
        return agent(*turns, middleware=[after_model_call(judge), tell])

    assert (await both(make)).log == [10]


async def test_unreported_usage_is_not_told() -> None:
    played = await both(lambda log: agent(hello(), middleware=[logged("A", log, "on_usage")]))
    assert played.log == []


async def test_the_last_allowed_step_is_known_as_such() -> None:
    turns = [calls(("add", {"a": 1, "b": n})) for n in range(3)]
    played = await both(lambda log: agent(*turns, tools=[add], limits=Limits(max_steps=3)))
    assert [request.is_final_step for request in played.requests] == [False, False, True]


async def test_a_request_knows_where_the_run_is() -> None:
    played = await both(lambda log: two_steps())
    second = played.requests[1]
    assert (second.number, len(second.steps), second.is_first_step, second.call_class) == (1, 1, False, "agent")


async def test_a_text_where_a_response_belongs_is_refused() -> None:
    played = await both(lambda log: agent("x", middleware=[before_model_call(lambda ctx, request: "hello")]))
    assert isinstance(played.error, HookError)
    assert "before_model_call" in str(played.error)


async def test_what_a_layer_sends_is_not_what_the_thread_keeps() -> None:
    shorten = before_model_call(lambda ctx, request: request.with_messages(request.messages[:1]))
    played = await both(lambda log: two_steps(middleware=[shorten]))
    assert [m.role for m in played.requests[1].messages] == ["user"]
    assert [m.role for m in played.result.messages] == ["user", "assistant", "tool", "assistant"]
