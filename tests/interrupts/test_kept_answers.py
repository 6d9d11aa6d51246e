"""A model's answer that a hook paused on is kept whole: paid once, told once, piped once."""

from typing import Any

import pytest
from tests.interrupts.play import Asks, agent, answers_to, asked, go_on, guarded, paused, shown

from interpose import Approved, Limits, Middleware, Pause, Resolved, Usage, tool
from interpose.testing import ScriptedModel, calls, event_types, text, text_of

COST = Usage(input_tokens=10, output_tokens=1)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Judge(Middleware):
    """Pauses behind the model of step 0, until it was answered."""

    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        return Pause("fine?") if ctx.step == 0 and ctx.answer("fine?") is None else None


class Late(Middleware):
    """The same from a layer round the call."""

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        return Pause("fine?") if ctx.step == 0 and ctx.answer("fine?") is None else response


pausing = pytest.mark.parametrize(
    "judge", [Judge, Late, lambda: Asks("after_model")], ids=["after", "wrap", "boundary"]
)


@pausing
async def test_its_limits_are_not_charged_again(how: str, judge: Any) -> None:
    limits = Limits(max_model_calls=1, max_total_tokens=100)
    first = await paused(how, agent(text("hi", usage=COST), middleware=[judge()], limits=limits))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, after.result.finish_reason) == ("hi", "stop")


@pausing
async def test_its_text_does_not_pass_the_chunk_hooks_again(how: str, judge: Any) -> None:
    class Marks(Middleware):
        def on_chunk(self, ctx: Any, event: Any) -> Any:
            return event.replace(delta=event.delta + "!") if event.type == "TEXT_MESSAGE_CONTENT" else None

    first = await paused(how, agent(text("hi"), middleware=[judge(), Marks()]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert after.result.text == after.result.messages[-1].text == "hi!"
    if how == "stream":
        assert text_of(shown(first, after)) == "hi!"


@pausing
async def test_its_text_reasoning_and_ids_are_as_they_were_shown(judge: Any) -> None:
    first = await paused("stream", agent(text("hi", reasoning="hm"), middleware=[judge()]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    (start,) = [event for event in shown(first, after) if event.type == "TEXT_MESSAGE_START"]
    message = after.result.messages[-1]
    assert (message.id, message.text) == (start.message_id, "hi")
    assert "hm" in str(message.to_dict())
    types = event_types(shown(first, after))
    assert types.count("REASONING_MESSAGE_START") <= 1


@pausing
async def test_its_calls_run_once_with_the_ids_that_were_shown(how: str, judge: Any) -> None:
    log: list[Any] = []
    tools = [guarded(log, approval=False)]
    first = await paused(how, agent(calls(("mail", {"to": "bob"})), text("done"), tools=tools, middleware=[judge()]))
    assert log == []
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
    if how == "stream":
        ids = {event.tool_call_id for event in shown(first, after) if event.type.startswith("TOOL_CALL")}
        assert ids == {call.id for message in after.result.messages for call in message.tool_calls}


@pausing
async def test_it_is_a_step_with_its_finish_reason_and_model(how: str, judge: Any) -> None:
    first = await paused(how, agent(text("cut", finish_reason="length"), middleware=[judge()]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    (step,) = after.result.steps
    assert (after.result.finish_reason, step.response.finish_reason, step.response.model) == (
        "length",
        "length",
        "scripted",
    )


@pausing
async def test_the_paused_result_shows_what_was_said(how: str, judge: Any) -> None:
    first = await paused(how, agent(text("hi"), middleware=[judge()]))
    assert first.result.messages[-1].text == "hi"


async def test_a_native_structured_answer_is_read_after_the_pause(how: str) -> None:
    model = ScriptedModel(text('{"n": 3}'), native_structured_output=True)
    first = await paused(how, agent(model=model, middleware=[Judge()], output=SCHEMA))
    assert first.result.output is None
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.output, len(after.requests)) == ({"n": 3}, 1)


async def test_the_tool_phase_is_told_what_waits_and_then_that_all_is_there(how: str) -> None:
    told: list[Any] = []

    class Tells(Middleware):
        def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
            told.append((len(info.calls), [one.data for one in info.results], [call.name for call in info.pending]))

    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    turn = calls("calc", ("mail", {"to": "bob"}))
    first = await paused(how, agent(turn, text("done"), tools=[calc, guarded([])], middleware=[Tells()]))
    await go_on(first, answers_to(first, Approved()))
    assert told == [(2, ["42"], ["mail"]), (2, ["42", "sent to bob"], [])]


async def test_layers_outside_the_one_that_paused_see_the_answer_as_it_was(how: str) -> None:
    seen: list[Any] = []

    class Outer(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            response = await call_next(request)
            seen.append((response.text, response.finish_reason, response.usage, response.model, response.provider))
            return response

    first = await paused(how, agent(text("hi", usage=COST), middleware=[Outer(), Judge()]))
    assert seen == []
    await go_on(first, answers_to(first, Resolved(True)))
    assert seen == [("hi", "stop", COST, "scripted", "scripted")]


@pausing
async def test_its_usage_is_counted_and_told_once(how: str, judge: Any) -> None:
    told: list[Any] = []

    class Tells(Middleware):
        def on_usage(self, ctx: Any, usage: Any) -> None:
            told.append(usage.input_tokens)

    first = await paused(how, agent(text("hi", usage=COST), middleware=[Tells(), judge()]))
    assert first.result.usage.input_tokens == 10
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.usage.input_tokens, told) == (10, [10])


async def test_a_call_for_the_structure_may_pause_and_is_made_once(how: str) -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            if request.call_class != "structured_output" or ctx.answer("ok?"):
                return None
            return Pause("ok?")

    @tool
    async def calc() -> str:
        """Work something out."""
        return "3"

    made = agent(calls("calc"), text("3"), text('{"n": 3}'), tools=[calc], middleware=[Gate()], output=SCHEMA)
    first = await paused(how, made)
    assert (len(first.requests), first.result.output) == (2, None)
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.output, len(after.requests)) == ({"n": 3}, 3)


async def test_a_pause_behind_the_call_for_the_structure_keeps_its_answer(how: str) -> None:
    class Gate(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            if request.call_class != "structured_output" or ctx.answer("ok?"):
                return None
            return Pause("ok?", response.text)

    @tool
    async def calc() -> str:
        """Work something out."""
        return "3"

    made = agent(calls("calc"), text("3"), text('{"n": 3}'), tools=[calc], middleware=[Gate()], output=SCHEMA)
    first = await paused(how, made)
    assert [one.value for one in asked(first)] == ['{"n": 3}']
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.output, len(after.requests)) == ({"n": 3}, 3)
