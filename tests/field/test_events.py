"""The event stream keeps account of what is open, sends nothing twice, and says what there is to say."""

from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, shape

from interpose import (
    DROP,
    FatalToolError,
    Finish,
    HookError,
    Middleware,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolContext,
)
from interpose import ToolCallDelta as Delta
from interpose.testing import calls, chunks, event_types, fail, text, text_of

TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
CALL = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]


def parts_of(message: Any) -> list[Any]:
    return list(message.content())


class Chunks(Middleware):
    def __init__(self, function: Any) -> None:
        self.function = function

    def on_chunk(self, ctx: Any, event: Any) -> Any:
        return self.function(event)


async def test_open_parts_are_closed_before_the_one_error() -> None:
    async def breaks() -> str:
        """Break."""
        raise FatalToolError("db")

    turn = calls(("breaks", {}), text="ab")
    played = await both(lambda log: agent_of(turn, tools=[breaks]))
    kinds = event_types(played.events)
    assert kinds[-1] == "RUN_ERROR"
    assert kinds.count("RUN_ERROR") == 1
    assert kinds.index("TEXT_MESSAGE_END") < kinds.index("TOOL_CALL_END") < len(kinds) - 1
    assert "ab" in [message.text for message in played.partial.messages]


async def test_a_failure_amid_text_keeps_the_text_in_the_partial_result_only() -> None:
    played = await both(lambda log: agent_of(fail(ProviderError("x", code="overloaded"), after=["he"])))
    assert played.partial.text == "he"
    assert event_types(played.events)[-3:] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    assert played.events[-1].code == "overloaded"
    assert played.info.error.code == "overloaded"


async def test_text_before_and_after_a_call_are_two_messages() -> None:
    turn = chunks(TextDelta("I will"), Delta(0, "c1", "echo", '{"x":"1"}'), TextDelta("more"), Finish("tool_calls"))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[echo]))
    kinds = event_types(played.events)[2:11]
    assert kinds == [*TEXT, *CALL, *TEXT]
    ids = [event.message_id for event in played.events if event.type == "TEXT_MESSAGE_START"]
    assert len(set(ids)) == 3


async def test_the_order_within_a_message_is_kept_in_history() -> None:
    turn = chunks(TextDelta("I will"), Delta(0, "c1", "echo", '{"x":"1"}'), TextDelta("more"), Finish("tool_calls"))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[echo]))
    parts = parts_of(played.result.messages[1])
    assert [part.__class__.__name__ for part in parts] == ["TextPart", "ToolCall", "TextPart"]


async def test_empty_pieces_are_not_sent_and_blanks_are() -> None:
    played = await both(lambda log: agent_of(text(chunks=("", " ", "a", ""))))
    said = [event.delta for event in played.events if event.type == "TEXT_MESSAGE_CONTENT"]
    assert said == [" ", "a"]
    assert played.result.text == " a"


@pytest.mark.parametrize("turn", [text(""), text(chunks=("", "")), chunks(Finish())], ids=["none", "empty", "finish"])
async def test_a_message_without_text_sends_neither_start_nor_end(turn: Any) -> None:
    played = await both(lambda log: agent_of(turn))
    assert event_types(played.events) == ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]


async def test_arguments_in_the_start_are_whole_and_calls_do_not_mix() -> None:
    turn = chunks(
        Delta(0, "a", "echo", '{"x":'), Delta(1, "b", "echo", '{"x":"'), Delta(0, None, None, '"1"}'),
        Delta(1, None, None, '2"}'), Finish("tool_calls"),
    )  # fmt: skip
    played = await both(lambda log: agent_of(turn, text("x"), tools=[echo]))
    joined = {"a": "", "b": ""}
    for event in played.events:
        if event.type == "TOOL_CALL_ARGS":
            joined[event.tool_call_id] += event.delta
    assert joined == {"a": '{"x":"1"}', "b": '{"x":"2"}'}


async def test_a_call_without_arguments_is_opened_and_closed() -> None:
    async def now() -> str:
        """Now."""
        return "x"

    played = await both(
        lambda log: agent_of(chunks(Delta(0, "a", "now"), Finish("tool_calls")), text("x"), tools=[now])
    )
    kinds = event_types(played.events)
    assert kinds.count("TOOL_CALL_START") == kinds.count("TOOL_CALL_END") == 1


async def test_reasoning_is_bracketed_and_stands_before_the_text() -> None:
    played = await both(lambda log: agent_of(text("x", reasoning="hmm")))
    assert event_types(played.events)[2:7] == [
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END",
        "REASONING_END",
    ]  # fmt: skip
    assert shape(played.result.messages)[-1][2] == "hmm"


async def test_every_event_is_numbered_from_zero() -> None:
    played = await both(lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo]))
    assert [event.seq for event in played.events] == list(range(len(played.events)))


async def test_step_brackets_enclose_the_tool_results() -> None:
    played = await both(lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo]))
    assert event_types(played.events) == [
        "RUN_STARTED", "STEP_STARTED", *CALL, "TOOL_CALL_RESULT", "STEP_FINISHED",
        "STEP_STARTED", *TEXT, "STEP_FINISHED", "RUN_FINISHED",
    ]  # fmt: skip
    names = [event.step_name for event in played.events if event.type == "STEP_STARTED"]
    assert names == ["step-0", "step-1"]


async def test_changed_chunks_are_what_is_shown_stored_and_sent() -> None:
    def upper(event: Any) -> Any:
        return event.replace(delta=event.delta.upper()) if event.type == "TEXT_MESSAGE_CONTENT" else None

    turns = [calls(("echo", {"x": "1"}), text="ab"), text(chunks=("a", "b"))]
    played = await both(lambda log: agent_of(*turns, tools=[echo], middleware=[Chunks(upper)]))
    assert played.result.text == text_of(played.events)[2:] == "AB"
    assert played.requests[1].messages[1].text == "AB"


async def test_a_dropped_event_is_unknown_to_later_hooks_and_to_the_record() -> None:
    seen: list[str] = []

    def drop(event: Any) -> Any:
        return DROP if event.type == "TEXT_MESSAGE_CONTENT" and event.delta == "b" else None

    def note(event: Any) -> Any:
        if event.type == "TEXT_MESSAGE_CONTENT":
            seen.append(event.delta)

    played = await both(lambda log: agent_of(text(chunks=("a", "b", "c")), middleware=[Chunks(drop), Chunks(note)]))
    assert seen == ["a", "c"] * 2
    assert played.result.text == "ac"


async def test_when_all_text_is_dropped_the_message_is_not_announced() -> None:
    def drop(event: Any) -> Any:
        return DROP if event.type == "TEXT_MESSAGE_CONTENT" else None

    played = await both(lambda log: agent_of(text("secret"), middleware=[Chunks(drop)]))
    assert event_types(played.events) == ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]
    assert played.result.text == ""


@pytest.mark.parametrize("many", [0, 1, 3])
async def test_one_chunk_may_become_several(many: int) -> None:
    def expand(event: Any) -> Any:
        return [event] * many if event.type == "TEXT_MESSAGE_CONTENT" else None

    played = await both(lambda log: agent_of(text("a"), middleware=[Chunks(expand)]))
    assert played.result.text == "a" * many


async def test_hiding_the_events_of_a_call_does_not_undo_it() -> None:
    def hide(event: Any) -> Any:
        return DROP if event.type == "TOOL_CALL_START" else None

    played = await both(
        lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[Chunks(hide)])
    )
    kinds = event_types(played.events)
    assert not {"TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"} & set(kinds)
    assert played.result.messages[2].text == "1"


@pytest.mark.parametrize("kind", ["TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS"])
async def test_changing_an_id_is_a_hook_error(kind: str) -> None:
    def change(event: Any) -> Any:
        if event.type != kind:
            return None
        return event.replace(message_id="z") if kind.startswith("TEXT") else event.replace(tool_call_id="z")

    turn = calls(("echo", {"x": "1"}), text="ab")
    played = await both(lambda log: agent_of(turn, text("x"), tools=[echo], middleware=[Chunks(change)]))
    assert isinstance(played.error, HookError)


async def test_run_and_step_events_can_only_be_watched() -> None:
    def drop(event: Any) -> Any:
        return DROP if event.type.startswith(("RUN_", "STEP_")) else None

    played = await both(lambda log: agent_of(text("x"), middleware=[Chunks(drop)]))
    assert len(played.events) == 7


async def test_an_exception_in_a_chunk_hook_fails_the_run() -> None:
    def fails(event: Any) -> Any:
        if event.type == "TEXT_MESSAGE_CONTENT":
            raise ZeroDivisionError("x")

    played = await both(lambda log: agent_of(text("x"), middleware=[Chunks(fails)]))
    assert isinstance(played.error, ZeroDivisionError)


@pytest.mark.parametrize("kind", ["RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END",
                                  "STEP_FINISHED", "RUN_FINISHED"])  # fmt: skip
async def test_a_chunk_hook_that_fails_at_any_event_leaves_a_valid_stream(kind: str) -> None:
    def fails(event: Any) -> Any:
        if event.type == kind:
            raise ZeroDivisionError(kind)

    played = await both(lambda log: agent_of(text("x"), middleware=[Chunks(fails)]))
    assert isinstance(played.error, ZeroDivisionError)


async def test_custom_events_of_tools_and_hooks_are_in_the_stream() -> None:
    async def work(ctx: ToolContext[Any]) -> str:
        """Work."""
        ctx.emit("progress", {"done": 1})
        return "x"

    class Emits(Middleware):
        def on_start(self, ctx: Any) -> None:
            ctx.emit("started", 1)

    played = await both(lambda log: agent_of(calls("work"), text("x"), tools=[work], middleware=[Emits()]))
    custom = [(event.name, event.value) for event in played.events if event.type == "CUSTOM"]
    assert custom == [("started", 1), ("progress", {"done": 1})]


async def test_an_empty_chunk_with_a_signature_keeps_it_and_shows_nothing() -> None:
    turn = chunks(ReasoningDelta("a"), ReasoningDelta("", "Z"), TextDelta("x"), Finish())
    played = await both(lambda log: agent_of(turn, middleware=[Chunks(lambda e: None), Chunks(lambda e: e)]))
    parts = parts_of(played.result.messages[-1])
    assert (parts[0].text, parts[0].signature) == ("a", "Z")
    deltas = [event.delta for event in played.events if event.type == "REASONING_MESSAGE_CONTENT"]
    assert deltas == ["a"]


async def test_signed_reasoning_is_sent_back_once_and_byte_for_byte() -> None:
    turn = chunks(
        ReasoningDelta("t1"), ReasoningDelta("", "S1"), Delta(0, "c1", "echo", '{"x":"1"}'),
        Delta(1, "c2", "echo", '{"x":"2"}'), Finish("tool_calls"),
    )  # fmt: skip

    class Rewrites(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.append_instructions("x")

    played = await both(lambda log: agent_of(turn, text("x"), tools=[echo], middleware=[Rewrites()]))
    parts = parts_of(played.requests[1].messages[1])
    assert [part.__class__.__name__ for part in parts] == ["ReasoningPart", "ToolCall", "ToolCall"]
    assert parts[0].signature == "S1"


async def test_input_that_holds_nothing_new_gives_start_and_finish() -> None:
    played = await both(lambda log: agent_of(text("x")), None)
    assert event_types(played.events)[0] == "RUN_STARTED"
    assert event_types(played.events)[-1] == "RUN_FINISHED"
    assert played.requests == [] or played.result.text == "x"


async def test_the_consumer_that_reads_nothing_gets_the_result() -> None:
    agent = agent_of(calls(("echo", {"x": "1"})), text("done"), tools=[echo])
    async with agent.stream("go") as run:
        assert (await run.result()).text == "done"
        assert await run.result() is await run.result()
