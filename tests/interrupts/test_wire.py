"""What leaves for an AG-UI client, and what one sends back, read and written by the protocol's own library."""

import json
from typing import Any

import ag_ui.core as ag_ui
import pytest
from tests.interrupts.play import Asks, agent, answers_to, args_of, asked, go_on, guarded, one_waiting, paused, shown

from interpose import Approved, Middleware, Pause, ProviderDown, Resolved, ResumeError
from interpose.models import ToolCallDelta
from interpose.testing import calls, text
from interpose.testing.turns import Turn

BOB = ("mail", {"to": "bob"})


async def test_the_questions_of_a_stream_are_what_the_protocol_expects() -> None:
    first = await one_waiting("stream", [])
    sent = ag_ui.RunFinishedEvent.model_validate_json(first.events[-1].to_json())
    assert isinstance(sent.outcome, ag_ui.RunFinishedInterruptOutcome)
    (question,) = sent.outcome.interrupts
    assert (question.id, question.tool_call_id) == (asked(first)[0].id, asked(first)[0].tool_call.id)  # type: ignore[union-attr]  # asked about a call


async def test_a_question_is_the_same_in_the_result_and_in_the_stream() -> None:
    first = await paused("stream", agent(text("x"), middleware=[Asks("before_model", keys=("a", "b"))]))
    sent = json.loads(first.events[-1].to_json())["outcome"]["interrupts"]
    assert sent == [json.loads(json.dumps(one.to_wire())) for one in asked(first)]
    for one in sent:
        ag_ui.Interrupt.model_validate(one)


async def test_what_the_protocols_library_writes_is_an_answer(how: str) -> None:
    log: list[Any] = []
    first = await one_waiting(how, log)
    entry = ag_ui.ResumeEntry(interrupt_id=asked(first)[0].id, status="resolved", payload={"approved": True})
    after = await go_on(first, [json.loads(entry.model_dump_json(by_alias=True))])
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])


async def test_fields_that_the_library_leaves_empty_do_no_harm(how: str) -> None:
    log: list[Any] = []
    first = await one_waiting(how, log)
    entry = ag_ui.ResumeEntry(interrupt_id=asked(first)[0].id, status="cancelled")
    after = await go_on(first, [entry.model_dump(by_alias=True)])
    assert (after.result.text, log) == ("done", [])


async def test_all_events_of_both_streams_are_the_protocols() -> None:
    class Gate(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return None if ctx.answer("ok?") else Pause("ok?", {"why": "it is mail"})

    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Gate()]))
    second = await go_on(first, answers_to(first, Resolved(True)))
    third = await go_on(second, answers_to(second, Approved()))
    events = shown(first, second, third)
    for event in events:
        kind = type(event).__name__
        getattr(ag_ui, kind).model_validate_json(event.to_json())
    assert [event.type for event in events].count("RUN_FINISHED") == 3
    assert "TOOL_CALL_RESULT" in [event.type for event in events]


async def test_half_a_call_of_a_failed_attempt_is_withdrawn_and_only_the_second_waits(how: str) -> None:
    log: list[Any] = []

    async def tries(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    half = Turn(chunks=(ToolCallDelta(0, "c1", "mail", '{"to'),), error=ProviderDown("away"))
    turns = (half, calls(BOB), text("done"))
    first = await paused(how, agent(*turns, tools=[guarded(log)], middleware=[tries]))
    assert (len(asked(first)), args_of(first)["to"]) == (1, "bob")
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
    if how == "stream":
        started = [event.tool_call_id for event in first.events if event.type == "TOOL_CALL_START"]
        withdrawn = [e.value for e in first.events if e.type == "CUSTOM" and e.name == "interpose.superseded"]
        assert started[:-1] == [one for value in withdrawn for one in value.get("toolCallIds", [])]
        results = [event.tool_call_id for event in after.events if event.type == "TOOL_CALL_RESULT"]
        assert results == started[-1:]


@pytest.mark.parametrize("given", [Approved(), True, {5: Approved()}, {None: Approved()}, {"": Approved()}], ids=repr)
async def test_answers_of_another_shape_are_refused(how: str, given: Any) -> None:
    log: list[Any] = []
    first = await one_waiting(how, log)
    after = await go_on(first, given)
    assert (type(after.error), log) == (ResumeError, [])
