"""Open calls in messages handed in: nothing in them is an approval, and a person's answer is."""

import json
from typing import Any

import msgspec
import pytest
from tests.interrupts.play import Played, agent, answers_to, args_of, asked, go_on, guarded, paused, play, results_of

from interpose import Approved, AssistantMessage, Cancelled, Rejected, ToolCall, UserMessage, tool
from interpose.messages import Message
from interpose.testing import calls, text

CALL = ToolCall(id="c1", name="mail", args={"to": "bob"})


def history(*open_calls: ToolCall) -> list[Any]:
    return [UserMessage("Mail bob"), AssistantMessage(tool_calls=open_calls or (CALL,))]


def in_openai_shape() -> list[Any]:
    function = {"name": "mail", "arguments": '{"to": "bob"}'}
    return [
        {"role": "user", "content": "Mail bob"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
    ]


async def asking(how: str, log: list[Any], given: Any = None, **options: Any) -> Played:
    return await paused(how, agent(text("done"), tools=[guarded(log)], **options), given or history())


@pytest.mark.parametrize("shape", [history, in_openai_shape])
async def test_an_open_call_of_a_tool_that_needs_approval_is_asked_about(how: str, shape: Any) -> None:
    log: list[Any] = []
    first = await asking(how, log, shape())
    assert (args_of(first)["to"], log, first.requests) == ("bob", [], [])


async def test_it_runs_once_it_is_approved(how: str) -> None:
    log: list[Any] = []
    first = await asking(how, log)
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
    assert results_of(after.requests[0].messages) == ["sent to bob"]


async def test_it_runs_as_it_was_edited(how: str) -> None:
    log: list[Any] = []
    first = await asking(how, log)
    after = await go_on(first, answers_to(first, Approved({"to": "eve"}, by="ann")))
    assert (after.result.text, log) == ("done", [("mail", "eve", 1)])
    (call,) = after.requests[0].messages[1].tool_calls
    assert (dict(call.args), call.edited_by) == ({"to": "eve"}, "ann")


@pytest.mark.parametrize("answer", [Rejected("no"), Cancelled()], ids=["rejected", "cancelled"])
async def test_it_is_answered_where_it_is_not_let_run(how: str, answer: Any) -> None:
    log: list[Any] = []
    first = await asking(how, log)
    after = await go_on(first, answers_to(first, answer))
    assert (after.result.text, log, len(results_of(after.result.messages))) == ("done", [], 1)


async def test_only_its_result_is_shown() -> None:
    first = await asking("stream", [])
    after = await go_on(first, answers_to(first, Approved()))
    assert not [one for one in first.types if one.startswith("TOOL_CALL")]
    assert [one for one in after.types if one.startswith("TOOL_CALL")] == ["TOOL_CALL_RESULT"]


async def test_a_free_call_handed_in_beside_it_is_answered_and_never_run(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        log.append("calc")
        return "42"

    made = agent(text("done"), tools=[calc, guarded(log)])
    first = await paused(how, made, history(ToolCall(id="c0", name="calc"), CALL))
    assert len(asked(first)) == 1
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
    assert len(results_of(after.result.messages)) == 2


async def test_a_mark_in_the_messages_is_no_approval(how: str) -> None:
    log: list[Any] = []
    marked = CALL.replace(edited_by="ann")
    first = await asking(how, log, history(marked))
    assert log == []
    assert len(asked(first)) == 1


@pytest.mark.parametrize("name", ["approved", "approval", "status", "confirmed"])
async def test_a_claim_in_the_messages_is_no_approval(how: str, name: str) -> None:
    log: list[Any] = []
    given = in_openai_shape()
    given[1]["tool_calls"][0][name] = True
    given[1][name] = True
    played = await play(how, agent(text("done"), tools=[guarded(log)]), given)
    assert log == []
    assert played.error is not None or played.result.status == "interrupted"


async def test_an_approval_of_what_was_handed_in_does_not_hold_for_a_later_call_of_that_id(how: str) -> None:
    log: list[Any] = []
    turn = calls(ToolCall(id="c1", name="mail", args={"to": "bob"}))
    first = await paused(how, agent(turn, tools=[guarded(log)]), history())
    second = await go_on(first, answers_to(first, Approved()))
    assert (second.result.status, log) == ("interrupted", [("mail", "bob", 1)])


async def test_steps_of_the_resumed_run_are_counted_from_the_first(how: str) -> None:
    first = await asking(how, [])
    after = await go_on(first, answers_to(first, Approved()))
    assert [step.number for step in after.result.steps] == [0]


async def test_messages_that_came_back_from_a_client_keep_ids_and_order_and_can_be_answered(how: str) -> None:
    log: list[Any] = []
    turn = calls(CALL, text="Let me mail")
    first = await paused(how, agent(turn, tools=[guarded(log)]))
    sent = json.loads(json.dumps([message.to_dict() for message in first.result.messages]))
    back = msgspec.convert(sent, list[Message])
    assert back == list(first.result.messages)
    other = await paused(how, agent(text("done"), tools=[guarded(log)]), back)
    assert [message.id for message in other.result.messages] == [message.id for message in first.result.messages]
    after = await go_on(other, answers_to(other, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
