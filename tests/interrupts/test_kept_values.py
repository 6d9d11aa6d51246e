"""What a person or a tool gave is the same after the pause as without one, whatever it is."""

import datetime
import decimal
import json
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from tests.interrupts.play import agent, answers_to, carried, go_on, guarded, paused, play

from interpose import Approved, Middleware, ToolResult, UserMessage, tool
from interpose.messages import ImagePart, ProviderPart, TextPart
from interpose.models import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from interpose.testing import calls, text
from interpose.testing.turns import Turn

BOB = ("mail", {"to": "bob"})


@dataclass
class Point:
    x: int
    y: float = 0.5


class Box(msgspec.Struct):
    point: Point
    names: tuple[str, ...] = ()


VALUES: list[Any] = [
    None,
    0,
    False,
    "",
    " ",
    [],
    {},
    "12",
    '{"a": 1}',
    1.0,
    1e300,
    2**70,
    [1, [2, None]],
    {"a": {"b": []}},
    {1: "one"},
    ("a", 1),
    {3, 4},
    b"\x00\xff",
    datetime.date(2024, 5, 1),
    datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC),
    decimal.Decimal("1.10"),
    uuid.UUID(int=5),
    Point(1),
    Box(Point(2), ("a",)),
    [Point(1), Point(2)],
    object,
    float("inf"),
    "\u00e9\u2028\U0001f600",
]


@pytest.mark.parametrize("value", VALUES, ids=lambda one: repr(one)[:30])
async def test_a_siblings_result_is_read_by_the_model_as_without_a_pause(how: str, value: Any) -> None:
    @tool
    async def calc() -> Any:
        """Work something out."""
        return value

    turns = (calls("calc", BOB), text("done"))
    first = await paused(how, agent(*turns, tools=[calc, guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    straight = await play(how, agent(*turns, tools=[calc, guarded([], approval=False)]))
    read = [[m.text for m in one.requests[-1].messages if m.role == "tool"] for one in (after, straight)]
    assert read[0] == read[1]
    steps = [[one.text for one in played.result.steps[0].tool_results] for played in (after, straight)]
    assert steps[0] == steps[1]


async def test_a_siblings_result_made_of_parts_stays_made_of_parts(how: str) -> None:
    @tool
    async def look() -> Any:
        """Look."""
        return [TextPart("see"), ImagePart(media_type="image/png", data="iVBORw==")]

    turns = (calls("look", BOB), text("done"))
    first = await paused(how, agent(*turns, tools=[look, guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    straight = await play(how, agent(*turns, tools=[look, guarded([], approval=False)]))
    read = [one.requests[-1].messages[-2].to_dict() for one in (after, straight)]
    for one in read:
        del one["id"], one["tool_call_id"]
    assert read[0] == read[1]


async def test_a_siblings_error_stays_an_error_with_its_duration(how: str) -> None:
    @tool
    async def bad() -> str:
        """Fail."""
        raise ValueError("no such thing")

    ended: list[ToolResult] = []

    class Sees(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
            ended.append(result)

    first = await paused(how, agent(calls("bad", BOB), text("done"), tools=[bad, guarded([])], middleware=[Sees()]))
    after = await go_on(first, answers_to(first, Approved()))
    kept = after.result.steps[0].tool_results[0]
    assert (kept.is_error, kept.text, kept.duration_ms) == (True, ended[0].text, ended[0].duration_ms)


async def test_what_a_layer_made_of_a_siblings_result_is_kept(how: str) -> None:
    class Hides(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> Any:
            return result.replace(data="***") if call.name == "calc" else None

    @tool
    async def calc() -> str:
        """Work something out."""
        return "secret"

    first = await paused(how, agent(calls("calc", BOB), text("done"), tools=[calc, guarded([])], middleware=[Hides()]))
    assert "secret" not in json.dumps(carried(first))
    after = await go_on(first, answers_to(first, Approved()))
    assert [m.text for m in after.requests[-1].messages if m.role == "tool"] == ["***", "sent to bob"]


async def test_signed_reasoning_and_opaque_parts_are_sent_back_untouched(how: str) -> None:
    turn = Turn(
        chunks=(
            ReasoningDelta("I think", "sig-1"),
            ProviderPart({"opaque": [1, None, "x"]}),
            TextDelta("Let me"),
            ToolCallDelta(0, "c1", "mail", '{"to":"bob"}'),
            Finish("tool_calls"),
        )
    )
    first = await paused(how, agent(turn, text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    straight = await play(how, agent(turn, text("done"), tools=[guarded([], approval=False)]))
    sent = [one.requests[-1].messages[1].to_dict() for one in (after, straight)]
    for one in sent:
        one.pop("id")
    assert "sig-1" in json.dumps(sent[0])
    assert sent[0] == sent[1]


async def test_pictures_that_were_handed_in_come_through(how: str) -> None:
    given = [UserMessage(parts=(TextPart("Mail this"), ImagePart(media_type="image/png", data="iVBORw==")), name="ann")]
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]), given)
    after = await go_on(first, answers_to(first, Approved()))
    assert after.requests[-1].messages[0] == after.requests[0].messages[0] == given[0]


async def test_broken_calls_beside_a_waiting_one_keep_what_the_model_wrote(how: str) -> None:
    turns = (calls(("mail", '{"to": "x'), BOB), text("done"))
    first = await paused(how, agent(*turns, tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    straight = await play(how, agent(*turns, tools=[guarded([], approval=False)]))
    for one, other in zip(after.requests[-1].messages, straight.requests[-1].messages, strict=True):
        assert [(call.raw, call.error) for call in one.tool_calls] == [(c.raw, c.error) for c in other.tool_calls]
        assert one.text == other.text
