"""Events and messages on the wire, against the models of AG-UI's own package."""

import json
from typing import Any, get_args

import ag_ui.core
import msgspec
import pytest
from pydantic import BaseModel, TypeAdapter

from interpose import events as ours
from interpose.events import AnyEvent, Event, event_from_dict, messages_from_wire, messages_to_wire
from interpose.messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

EVENTS: list[type[Event]] = list(get_args(AnyEvent))
NOT_OURS = {"subagent_run_id", "input"}
"""Optional fields that this library does not send: a nested run has a stream of its own, the input is the client's."""

ag_event: TypeAdapter[Any] = TypeAdapter(ag_ui.core.Event)
ag_message: TypeAdapter[Any] = TypeAdapter(ag_ui.core.Message)

IDS: dict[str, Any] = {"thread_id": "t1", "run_id": "r1"}
USAGE = ({"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": 0},)
INTERRUPT = {"id": "i1", "reason": "approval", "message": "Run it?", "toolCallId": "c1"}

REQUIRED: dict[type[Event], dict[str, Any]] = {
    ours.RunStartedEvent: IDS,
    ours.RunFinishedEvent: IDS,
    ours.RunErrorEvent: {"message": "no"},
    ours.StepStartedEvent: {"step_name": "step-0"},
    ours.StepFinishedEvent: {"step_name": "step-0"},
    ours.TextMessageStartEvent: {"message_id": "m1"},
    ours.TextMessageContentEvent: {"message_id": "m1", "delta": "héllo"},
    ours.TextMessageEndEvent: {"message_id": "m1"},
    ours.ReasoningStartEvent: {"message_id": "m1"},
    ours.ReasoningMessageStartEvent: {"message_id": "m1"},
    ours.ReasoningMessageContentEvent: {"message_id": "m1", "delta": "hm"},
    ours.ReasoningMessageEndEvent: {"message_id": "m1"},
    ours.ReasoningEndEvent: {"message_id": "m1"},
    ours.ToolCallStartEvent: {"tool_call_id": "c1", "tool_call_name": "f"},
    ours.ToolCallArgsEvent: {"tool_call_id": "c1", "delta": '{"a":'},
    ours.ToolCallEndEvent: {"tool_call_id": "c1"},
    ours.ToolCallResultEvent: {"message_id": "m2", "tool_call_id": "c1", "content": "1"},
    ours.StateSnapshotEvent: {"snapshot": {"a": [1]}},
    ours.StateDeltaEvent: {"delta": ({"op": "add", "path": "/a", "value": 1},)},
    ours.MessagesSnapshotEvent: {"messages": ({"id": "m1", "role": "user", "content": "hi"},)},
    ours.CustomEvent: {"name": "interpose.superseded", "value": {"messageId": "m1"}},
}

OPTIONAL: dict[type[Event], dict[str, Any]] = {
    ours.RunStartedEvent: {"parent_run_id": "r0", "protocol_version": "1.0"},
    ours.RunFinishedEvent: {
        "outcome": {"type": "interrupt", "interrupts": [INTERRUPT]},
        "result": {"text": "x"},
        "usage": USAGE,
    },
    ours.RunErrorEvent: {"code": "aborted", "usage": USAGE},
    ours.TextMessageStartEvent: {"role": "assistant", "name": "writer"},
    ours.ReasoningMessageStartEvent: {"role": "reasoning"},
    ours.ToolCallStartEvent: {"parent_message_id": "m1"},
    ours.ToolCallResultEvent: {"role": "tool"},
}
OF_ALL: dict[str, Any] = {"timestamp": 1_790_000_000_000, "raw_event": {"x": 1}, "metadata": {"k": "v"}}


def full(kind: type[Event]) -> Event:
    return kind(**REQUIRED[kind], **OPTIONAL.get(kind, {}), **OF_ALL)


def ag_model(kind: type[Event]) -> type[BaseModel]:
    model: type[BaseModel] = getattr(ag_ui.core, kind.__name__)
    return model


each_event = pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)


def test_every_event_has_an_example() -> None:
    assert set(REQUIRED) == set(EVENTS)


@each_event
def test_fields_are_those_of_the_protocol_one_by_one(kind: type[Event]) -> None:
    own = {field.name: field.encode_name for field in msgspec.structs.fields(kind) if field.name != "seq"}
    theirs = {name: info.alias for name, info in ag_model(kind).model_fields.items() if name not in NOT_OURS}
    assert {**own, "type": "type"} == theirs


@each_event
def test_fields_that_the_protocol_requires_are_required(kind: type[Event]) -> None:
    own = {field.name for field in msgspec.structs.fields(kind) if field.required}
    assert own == {name for name, info in ag_model(kind).model_fields.items() if info.is_required()}


@each_event
def test_a_full_event_reads_there_as_it_was_written(kind: type[Event]) -> None:
    event = full(kind)
    read: Any = ag_event.validate_json(event.to_json())
    assert read.__class__.__name__ == kind.__name__
    assert read.type == event.type == kind.type
    for name, value in {**REQUIRED[kind], **OPTIONAL.get(kind, {}), **OF_ALL}.items():
        theirs = TypeAdapter(Any).dump_python(getattr(read, name), mode="json", by_alias=True, exclude_none=True)
        assert theirs == json.loads(json.dumps(value)), name
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True) == json.loads(event.to_json())


@each_event
def test_an_event_survives_its_json(kind: type[Event]) -> None:
    event = full(kind)
    assert json.loads(event.to_json()) == event.to_dict()
    assert event_from_dict(json.loads(event.to_json())) == event


@each_event
def test_optional_fields_without_a_value_are_absent(kind: type[Event]) -> None:
    wire = kind(**REQUIRED[kind]).to_dict()
    always = {"protocolVersion"} if kind is ours.RunStartedEvent else set()
    encoded = {field.encode_name for field in msgspec.structs.fields(kind) if field.required}
    assert set(wire) == {"type", *encoded, *always}
    ag_event.validate_python(wire)


def test_a_run_tells_the_version_of_its_protocol() -> None:
    wire = ours.RunStartedEvent(**IDS).to_dict()
    assert wire["protocolVersion"] == ag_ui.core.PROTOCOL_VERSION


def test_seq_stays_off_the_wire() -> None:
    event = ours.StepStartedEvent(step_name="s", seq=7)
    assert json.loads(event.to_json()) == event.to_dict() == {"type": "STEP_STARTED", "stepName": "s"}
    assert event.seq == 7


@pytest.mark.parametrize(
    "outcome",
    [
        {"type": "success"},
        {"type": "success", "pendingToolCallIds": ["c1"]},
        {"type": "interrupt", "interrupts": [INTERRUPT]},
        {"type": "cancelled"},
    ],
    ids=str,
)
def test_outcomes_are_the_protocols(outcome: dict[str, Any]) -> None:
    event = ours.RunFinishedEvent(**IDS, outcome=outcome)
    read = ag_event.validate_json(event.to_json())
    assert read.outcome.model_dump(by_alias=True, exclude_none=True) == outcome


@pytest.mark.parametrize(
    "wire", [{"type": "NO_SUCH"}, {}, {"type": "STEP_STARTED"}, {"type": "STEP_STARTED", "stepName": 3}], ids=str
)
def test_what_is_no_event_is_refused(wire: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no event"):
        event_from_dict(wire)


def test_half_characters_do_not_break_the_wire() -> None:
    event = ours.TextMessageContentEvent(message_id="m", delta="a\ud83d")
    assert json.loads(event.to_json())["delta"] == "a\ufffd"


# Messages.

PICTURE = ImagePart(data="aGk=", media_type="image/png")
BROKEN: Any = '{"a": tru'  # arguments may be given as JSON text

MESSAGES: list[Message] = [
    SystemMessage("s", metadata={"k": 1}),
    UserMessage("u", name="Ann", metadata={"k": {"n": 1}}),
    UserMessage(parts=(TextPart("look: "), PICTURE, TextPart("there"), ImagePart(url="https://x/y.png"))),
    UserMessage(parts=(AudioPart(data="aGk=", media_type="audio/wav"), FilePart(file_id="f1", name="a.pdf"))),
    UserMessage(parts=(FilePart(url="https://x/a.pdf", media_type="application/pdf"),)),
    UserMessage(parts=(TextPart("a"), ProviderPart({"x": 1}, "p"), PICTURE)),
    AssistantMessage("a"),
    AssistantMessage("a", reasoning="r", metadata={"k": 1}),
    AssistantMessage(tool_calls=(ToolCall("c1", "f", {"a": {"b": [1]}}), ToolCall("c2", "g"))),
    AssistantMessage(tool_calls=(ToolCall("c1", "f", BROKEN),)),
    AssistantMessage(tool_calls=(ToolCall("c1", "f", {}, idempotency_key="k", edited_by="Ann"),)),
    AssistantMessage(parts=(ReasoningPart("r", "sig"), TextPart("a"), ToolCall("c1", "f"), TextPart("b"))),
    AssistantMessage(parts=(ProviderPart({"x": 1}, "p"), ReasoningPart("", "sig"), ToolCall("c1", "f", BROKEN))),
    ToolMessage("r", "c1"),
    ToolMessage("no", "c1", is_error=True, name="f", metadata={"k": 1}),
    ToolMessage("", "c1", is_error=True),
    ToolMessage(tool_call_id="c1", parts=(TextPart("see"), PICTURE), name="f"),
]
each_message = pytest.mark.parametrize(
    "message", MESSAGES, ids=[f"{index}-{type(message).__name__}" for index, message in enumerate(MESSAGES)]
)


@each_message
def test_a_message_comes_back_from_the_wire_as_it_was(message: Message) -> None:
    (wire,) = messages_to_wire([message])
    assert messages_from_wire([json.loads(json.dumps(wire))]) == (message,)


@each_message
def test_a_message_is_one_of_the_protocols(message: Message) -> None:
    (wire,) = messages_to_wire([message])
    read = ag_message.validate_python(wire)
    assert (read.id, read.role) == (message.id, message.role)
    assert set(wire) <= {info.alias for info in type(read).model_fields.values()}
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True) == wire


@each_message
def test_a_client_that_echoes_a_message_changes_nothing(message: Message) -> None:
    (wire,) = messages_to_wire([message])
    echoed = ag_message.validate_python(wire).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert messages_from_wire([echoed]) == (message,)


def test_the_client_sees_pictures_calls_and_errors() -> None:
    picture, asked, failed = messages_to_wire(
        [
            UserMessage(parts=(TextPart("look"), PICTURE)),
            AssistantMessage("Let me see.", tool_calls=(ToolCall("c1", "f", {"a": 1}),)),
            ToolMessage("no", "c1", is_error=True),
        ]
    )
    source = {"type": "data", "value": "aGk=", "mimeType": "image/png"}
    assert picture["content"] == [{"type": "text", "text": "look"}, {"type": "image", "source": source}]
    assert asked["content"] == "Let me see."
    function = {"name": "f", "arguments": '{"a":1}'}
    assert asked["toolCalls"] == [{"id": "c1", "type": "function", "function": function}]
    assert (failed["toolCallId"], failed["error"]) == ("c1", "no")


def test_a_thread_keeps_ids_order_and_its_open_call() -> None:
    answer = AssistantMessage(parts=(TextPart("I will."), ToolCall("c1", "f"), TextPart("Wait.")), id="m2")
    thread = (UserMessage("hi", id="m1"), answer)
    snapshot = ours.MessagesSnapshotEvent(messages=messages_to_wire(thread))
    read = ag_event.validate_json(snapshot.to_json())
    echoed = [message.model_dump(mode="json", by_alias=True, exclude_none=True) for message in read.messages]
    assert messages_from_wire(echoed) == thread
    assert thread[1].tool_calls[0].id == "c1"


def test_messages_that_no_model_reads_are_left_out() -> None:
    wire: list[dict[str, Any]] = [
        {"id": "1", "role": "reasoning", "content": "hm"},
        {"id": "2", "role": "activity", "activityType": "x", "content": {}},
        {"id": "3", "role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    assert messages_from_wire(wire) == (UserMessage(parts=(TextPart("hi"),), id="3"),)


@pytest.mark.parametrize(
    "wire",
    [
        {"role": "robot", "content": "x"},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "image"}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "carrier pigeon", "value": "x"}}]},
        {"role": "user", "content": [3]},
        {"role": "assistant", "toolCalls": [{"id": "c1"}]},
    ],
    ids=str,
)
def test_a_malformed_message_raises_value_error(wire: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        messages_from_wire([wire])
