"""Whatever a model says and hooks make of it: what the reader saw is what the run remembers, and history is legal."""

import asyncio
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lifecycle.play import add, agent, assert_answered, both, play

from interpose import (
    DROP,
    Agent,
    AssistantMessage,
    BadRequest,
    Finish,
    HistoryError,
    Middleware,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    UserMessage,
)
from interpose.testing import chunks, text, text_of

QUICK = settings(max_examples=60, deadline=None)
LETTERS = st.text(alphabet="ab é\n\ud83d\ude00\ufffd", max_size=4)
PIECES = st.lists(LETTERS, max_size=8)
OPS = st.lists(st.sampled_from(["pass", "drop", "empty", "expand", "replace", "list"]), min_size=1, max_size=5)


class Edits(Middleware):
    """Does to each piece of text or reasoning, one after the other, what *ops* say."""

    def __init__(self, ops: list[str]) -> None:
        self.ops = ops

    def on_chunk(self, ctx: Any, event: Any) -> Any:
        if event.type not in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            return None
        mine = ctx.private(self)
        count = mine["n"] = mine.get("n", -1) + 1
        match self.ops[count % len(self.ops)]:
            case "drop":
                return DROP
            case "empty":
                return []
            case "expand":
                return [event.replace(delta=letter) for letter in event.delta]
            case "replace":
                return event.replace(delta=f"<{event.delta}>")
            case "list":
                return [event]
        return None


def said(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")


def thought(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "REASONING_MESSAGE_CONTENT")


@QUICK
@given(pieces=PIECES, layers=st.lists(OPS, max_size=3))
def test_what_the_reader_saw_is_what_the_run_remembers(pieces: list[str], layers: list[list[str]]) -> None:
    played = asyncio.run(both(lambda log: agent(text(chunks=pieces), middleware=[Edits(ops) for ops in layers])))
    assert said(played.events) == played.result.text == played.result.messages[-1].text
    played.result.text.encode()


@QUICK
@given(whole=st.text(alphabet="abc", min_size=1, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=6))
def test_how_a_text_is_cut_into_pieces_changes_nothing(whole: str, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(whole)]
    pieces = [whole[i:j] for i, j in pairwise(places)]
    played = asyncio.run(both(lambda log: agent(text(chunks=pieces))))
    assert played.result.text == said(played.events) == "".join(pieces)


SOME = LETTERS.filter(bool)
PART = st.one_of(
    st.builds(TextDelta, SOME),
    st.builds(ReasoningDelta, SOME),
    st.builds(lambda n: ("call", n), st.integers(0, 9)),
)


def turn_of(parts: list[Any]) -> Any:
    made: list[Any] = []
    calls = 0
    for part in parts:
        if isinstance(part, tuple):
            made.append(ToolCallDelta(calls, f"c{calls}", "add", f'{{"a":{part[1]},'))
            made.append(ToolCallDelta(calls, args='"b":1}'))
            calls += 1
        else:
            made.append(part)
    return chunks(*made, Finish("tool_calls" if calls else "stop"))


@QUICK
@given(parts=st.lists(PART, max_size=8), layers=st.lists(OPS, max_size=2))
def test_text_reasoning_and_calls_in_any_order_are_told_and_kept_alike(
    parts: list[Any], layers: list[list[str]]
) -> None:
    asked = [part[1] for part in parts if isinstance(part, tuple)]

    def make(log: list[Any]) -> Agent[Any]:
        return agent(turn_of(parts), text("end"), tools=[add], middleware=[Edits(ops) for ops in layers])

    played = asyncio.run(both(make))
    answers = [message for message in played.result.messages if isinstance(message, AssistantMessage)]
    assert said(played.events) == "".join(message.text for message in answers)
    assert thought(played.events) == "".join(message.reasoning or "" for message in answers)
    results = [message.text for message in played.result.messages if message.role == "tool"]
    assert results == [str(n + 1) for n in asked]
    assert len(played.requests) == (2 if asked else 1)


async def test_empty_pieces_leave_no_trace() -> None:
    parts = [TextDelta(""), ReasoningDelta(""), TextDelta(""), ReasoningDelta("")]
    played = await both(lambda log: agent(turn_of(parts)))
    assert played.result.steps[0].response.message.content() == ()


@QUICK
@given(pieces=PIECES, ops=OPS, holds=st.booleans(), rewritten=LETTERS)
def test_a_rewritten_answer_is_what_the_reader_is_left_with(
    pieces: list[str], ops: list[str], holds: bool, rewritten: str
) -> None:
    class Rewrites(Middleware):
        holds_stream = holds

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return response.with_text(rewritten)

    played = asyncio.run(both(lambda log: agent(text(chunks=pieces), middleware=[Rewrites(), Edits(ops)])))
    assert text_of(played.events) == played.result.text == played.result.messages[-1].text
    if holds:
        assert "CUSTOM" not in played.types


MESSAGE = st.one_of(
    st.builds(UserMessage, st.sampled_from(["u", "v"])),
    st.builds(SystemMessage, st.just("s")),
    st.builds(
        lambda said, ids: AssistantMessage(said, tool_calls=tuple(ToolCall(i, "add", {"a": 1, "b": 2}) for i in ids)),
        st.sampled_from(["", "a"]),
        st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=3),
    ),
    st.builds(lambda i: ToolMessage("r", i), st.sampled_from(["c1", "c2", "c3"])),
)


@settings(max_examples=150, deadline=None)
@given(messages=st.lists(MESSAGE, min_size=1, max_size=7), how=st.sampled_from(["run", "stream"]))
def test_whatever_is_handed_in_what_is_sent_is_legal_or_refused(messages: list[Any], how: str) -> None:
    one = agent("x", tools=[add])
    played = asyncio.run(play(how, one, messages))
    assert not isinstance(played.error, BadRequest)
    if played.error is not None:
        assert isinstance(played.error, HistoryError)
        assert played.requests == []
        return
    users = [message.text for message in messages if message.role == "user"]
    if played.requests:
        assert [message.text for message in played.requests[0].messages if message.role == "user"] == users
        assert_answered(played.requests[0].messages)


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 3), max_size=4), last=st.booleans())
def test_a_legal_history_is_sent_as_it_is(sizes: list[int], last: bool) -> None:
    messages: list[Any] = [UserMessage("u")]
    for number, size in enumerate(sizes):
        ids = [f"c{number}.{n}" for n in range(size)]
        messages.append(AssistantMessage("a", tool_calls=tuple(ToolCall(i, "add", {"a": 1, "b": 2}) for i in ids)))
        messages.extend(ToolMessage("r", i) for i in ids)
        if last:
            messages.append(UserMessage("next"))
    if messages[-1].role == "assistant":
        messages.append(UserMessage("well?"))
    played = asyncio.run(play("run", agent("x", tools=[add]), messages))
    assert list(played.requests[0].messages) == messages


@settings(max_examples=40, deadline=None)
@given(keep=st.lists(st.booleans(), min_size=7, max_size=7))
def test_whatever_a_layer_leaves_out_what_is_sent_is_legal_or_refused(keep: list[bool]) -> None:
    class Cuts(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            left = [m for m, kept in zip(request.messages, keep, strict=False) if kept]
            return request.with_messages([*left, *request.messages[len(keep) :]])

    history: list[Any] = [UserMessage("u")]
    for n in range(2):
        ids = (f"c{n}.0", f"c{n}.1")
        history.append(AssistantMessage("", tool_calls=tuple(ToolCall(i, "add", {"a": 1, "b": 2}) for i in ids)))
        history.extend(ToolMessage("r", i) for i in ids)
    history.append(UserMessage("v"))
    played = asyncio.run(play("run", agent("x", tools=[add], middleware=[Cuts()]), history))
    if played.error is not None:
        assert isinstance(played.error, HistoryError)
        assert "Cuts" in str(played.error)
        assert played.requests == []
