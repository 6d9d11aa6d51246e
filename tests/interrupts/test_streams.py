"""The streams of a paused run and of what goes on from it: each valid alone, and nothing in both."""

from typing import Any

import pytest
from tests.interrupts.play import Asks, agent, answers_to, asked, go_on, guarded, paused, shown

from interpose import Approved, Middleware, Rejected, Resolved, tool
from interpose.events import messages_from_wire
from interpose.testing import calls, event_types, text, text_of

BOB = ("mail", {"to": "bob"})
TOOL_EVENTS = ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT")


async def test_a_paused_stream_ends_with_the_questions() -> None:
    first = await paused("stream", agent(calls(BOB), tools=[guarded([])]))
    last = first.events[-1]
    assert (last.type, last.outcome["type"]) == ("RUN_FINISHED", "interrupt")
    (question,) = last.outcome["interrupts"]
    assert (question["id"], question["toolCallId"]) == (asked(first)[0].id, asked(first)[0].tool_call.id)  # type: ignore[union-attr]  # asked about a call


async def test_both_streams_have_their_steps_opened_and_closed() -> None:
    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert [event.step_name for event in first.events if event.type == "STEP_STARTED"] == ["step-0"]
    assert [event.step_name for event in first.events if event.type == "STEP_FINISHED"] == ["step-0"]
    assert [event.step_name for event in after.events if event.type == "STEP_STARTED"] == ["step-0", "step-1"]
    assert [event.step_name for event in after.events if event.type == "STEP_FINISHED"] == ["step-0", "step-1"]
    for played in (first, after):
        assert played.types[-1] == "RUN_FINISHED"


async def test_a_resumed_stream_begins_with_a_run_of_its_own_on_the_same_thread() -> None:
    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    begins = after.events[0]
    assert (begins.type, begins.run_id, begins.thread_id) == (
        "RUN_STARTED",
        after.result.run_id,
        first.result.thread_id,
    )


@pytest.mark.parametrize("answer", [Approved(), Rejected("no")], ids=["approved", "rejected"])
async def test_of_a_call_that_was_shown_only_the_result_is_sent(answer: Any) -> None:
    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, answer))
    assert [one for one in first.types if one in TOOL_EVENTS] == list(TOOL_EVENTS[:3])
    assert [one for one in after.types if one in TOOL_EVENTS] == ["TOOL_CALL_RESULT"]
    assert after.events[after.types.index("TOOL_CALL_RESULT")].tool_call_id == asked(first)[0].tool_call.id  # type: ignore[union-attr]  # asked about a call


async def test_arguments_joined_over_both_streams_are_whole() -> None:
    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    joined = "".join(event.delta for event in shown(first, after) if event.type == "TOOL_CALL_ARGS")
    assert joined in ('{"to":"bob"}', '{"to": "bob"}')


async def test_results_of_siblings_are_sent_once_in_the_run_that_made_them() -> None:
    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    first = await paused("stream", agent(calls("calc", BOB, "calc"), text("done"), tools=[calc, guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert [event.content for event in first.events if event.type == "TOOL_CALL_RESULT"] == ["42", "42"]
    assert [event.content for event in after.events if event.type == "TOOL_CALL_RESULT"] == ["sent to bob"]
    ids = [event.message_id for event in shown(first, after) if event.type == "TOOL_CALL_RESULT"]
    assert len(set(ids)) == 3


async def test_results_in_history_are_in_the_order_of_the_calls_whichever_run_made_them(how: str) -> None:
    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    first = await paused(how, agent(calls(BOB, "calc"), text("done"), tools=[calc, guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert [m.text for m in after.requests[-1].messages if m.role == "tool"] == ["sent to bob", "42"]


async def test_results_have_the_ids_under_which_they_were_sent(how: str) -> None:
    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    first = await paused(how, agent(calls("calc", BOB), text("done"), tools=[calc, guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    kept = [message.id for message in first.result.messages if message.role == "tool"]
    assert [message.id for message in after.result.messages if message.role == "tool"][:1] == kept
    if how == "stream":
        sent = [event.message_id for event in shown(first, after) if event.type == "TOOL_CALL_RESULT"]
        assert [message.id for message in after.result.messages if message.role == "tool"] == sent


@pytest.mark.parametrize("phase", ["after_model", "before_tools", "after_tools"])
async def test_text_that_was_shown_is_not_shown_again(phase: str) -> None:
    turn = calls(BOB, text="Let me")
    tools = [guarded([], approval=False)]
    first = await paused("stream", agent(turn, text("done"), tools=tools, middleware=[Asks(phase)]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (text_of(first.events), text_of(after.events)) == ("Let me", "done")
    types = event_types(shown(first, after))
    assert [types.count(one) for one in TOOL_EVENTS] == [1, 1, 1, 1]


async def test_reasoning_that_was_shown_is_not_shown_again_and_is_kept() -> None:
    turn = text("Fine", reasoning="hm")
    first = await paused("stream", agent(turn, middleware=[Asks("after_model")]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert not [one for one in after.types if one.startswith("REASONING")]
    assert "hm" in str(after.result.messages[-1].to_dict())


async def test_chunk_hooks_see_what_each_reader_saw() -> None:
    seen: list[str] = []

    class Sees(Middleware):
        def on_chunk(self, ctx: Any, event: Any) -> None:
            seen.append(event.type)

    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Sees()]))
    after = await go_on(first, answers_to(first, Approved()))
    assert seen == event_types(shown(first, after))


async def test_an_edited_call_is_not_shown_as_the_models_own_again() -> None:
    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved({"to": "eve", "n": 1})))
    assert "TOOL_CALL_START" not in after.types
    assert [event.content for event in after.events if event.type == "TOOL_CALL_RESULT"] == ["sent to eve"]


async def test_the_last_event_of_each_stream_is_its_only_end() -> None:
    first = await paused("stream", agent(calls(BOB), calls(BOB), text("done"), tools=[guarded([])]))
    second = await go_on(first, answers_to(first, Approved()))
    third = await go_on(second, answers_to(second, Approved()))
    for played in (first, second, third):
        assert played.types.count("RUN_STARTED") == played.types.count("RUN_FINISHED") == 1
        assert "RUN_ERROR" not in played.types
    assert [played.events[-1].outcome["type"] for played in (first, second, third)] == [
        "interrupt",
        "interrupt",
        "success",
    ]


async def test_a_reader_who_leaves_a_resumed_stream_ends_it_with_one_abort() -> None:
    ended: list[str] = []

    class Ends(Middleware):
        def on_finish(self, ctx: Any, info: Any) -> None:
            ended.append(info.status)

        def on_abort(self, ctx: Any, info: Any) -> None:
            ended.append("abort")

    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Ends()]))
    async with first.agent.stream(resume=answers_to(first, Approved()), parent_run_id=first.result.checkpoint) as run:  # type: ignore[arg-type]  # a checkpoint takes the place of the id
        async for event in run:
            if event.type == "TOOL_CALL_RESULT":
                break
    assert ended == ["interrupted", "abort"]


async def test_edited_arguments_reach_the_reader_as_a_snapshot_of_the_messages() -> None:
    log: list[Any] = []
    first = await paused("stream", agent(calls(("mail", {"to": "bob"})), text("done"), tools=[guarded(log)]))
    after = await go_on(first, answers_to(first, Approved({"to": "eve", "n": 1})))
    (snapshot,) = [event for event in after.events if event.type == "MESSAGES_SNAPSHOT"]
    assert after.events.index(snapshot) == 1  # behind RUN_STARTED
    messages = messages_from_wire(snapshot.messages)
    assert dict(messages[-1].tool_calls[0].args) == {"to": "eve", "n": 1}


async def test_without_an_edit_no_snapshot_is_sent() -> None:
    first = await paused("stream", agent(calls(("mail", {"to": "bob"})), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert "MESSAGES_SNAPSHOT" not in [event.type for event in after.events]
