"""Events: what a consumer sees while a run goes on. Names and JSON are those of AG-UI 1.0.

Attributes are snake_case in Python and camelCase on the wire. Optional fields without a value are left out, never null.
Source: the schema of AG-UI 1.0, read 2026-11.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import msgspec
from msgspec import field

from interpose.inputs import as_messages
from interpose.messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    Value,
)
from interpose.text import to_json, to_jsonable

PROTOCOL_VERSION = "1.0"


class Event(Value, frozen=True, tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """The fields that every event has.

    *seq* counts the events of a run from 0, as its reader gets them; it is no part of the JSON. *timestamp* is in
    milliseconds since 1970, UTC.
    """

    type: ClassVar[str] = ""
    seq: int | None = None
    timestamp: int | None = None
    raw_event: Any = None
    metadata: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the event as it stands on the wire."""
        data: dict[str, Any] = to_jsonable(self)
        data.pop("seq", None)
        return data

    def to_json(self) -> str:
        """Return the event as one line of JSON."""
        return to_json(self if self.seq is None else msgspec.structs.replace(self, seq=None))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with *changes*."""
        return msgspec.structs.replace(self, **changes)


class RunStartedEvent(Event, frozen=True, tag="RUN_STARTED"):
    """The first event of a run."""

    type: ClassVar[str] = "RUN_STARTED"
    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    protocol_version: str | None = field(default_factory=lambda: PROTOCOL_VERSION)  # a plain default would be left out


class RunFinishedEvent(Event, frozen=True, tag="RUN_FINISHED"):
    """The last event of a run that ended in good order; *outcome* says whether it finished or is paused."""

    type: ClassVar[str] = "RUN_FINISHED"
    thread_id: str
    run_id: str
    outcome: Mapping[str, Any] | None = None
    result: Any = None
    usage: tuple[Mapping[str, Any], ...] | None = None


class RunErrorEvent(Event, frozen=True, tag="RUN_ERROR"):
    """The last event of a run that failed or was aborted (code `aborted`)."""

    type: ClassVar[str] = "RUN_ERROR"
    message: str
    code: str | None = None
    usage: tuple[Mapping[str, Any], ...] | None = None


class StepStartedEvent(Event, frozen=True, tag="STEP_STARTED"):
    """A step begins; its name is `step-` and its number."""

    type: ClassVar[str] = "STEP_STARTED"
    step_name: str


class StepFinishedEvent(Event, frozen=True, tag="STEP_FINISHED"):
    """A step is over."""

    type: ClassVar[str] = "STEP_FINISHED"
    step_name: str


class TextMessageStartEvent(Event, frozen=True, tag="TEXT_MESSAGE_START"):
    """A text message begins."""

    type: ClassVar[str] = "TEXT_MESSAGE_START"
    message_id: str
    role: str | None = None
    name: str | None = None


class TextMessageContentEvent(Event, frozen=True, tag="TEXT_MESSAGE_CONTENT"):
    """A piece of a text message."""

    type: ClassVar[str] = "TEXT_MESSAGE_CONTENT"
    message_id: str
    delta: str


class TextMessageEndEvent(Event, frozen=True, tag="TEXT_MESSAGE_END"):
    """A text message is whole."""

    type: ClassVar[str] = "TEXT_MESSAGE_END"
    message_id: str


class ReasoningStartEvent(Event, frozen=True, tag="REASONING_START"):
    """The model begins to reason."""

    type: ClassVar[str] = "REASONING_START"
    message_id: str


class ReasoningMessageStartEvent(Event, frozen=True, tag="REASONING_MESSAGE_START"):
    """A reasoning message begins."""

    type: ClassVar[str] = "REASONING_MESSAGE_START"
    message_id: str
    role: str | None = None


class ReasoningMessageContentEvent(Event, frozen=True, tag="REASONING_MESSAGE_CONTENT"):
    """A piece of a reasoning message."""

    type: ClassVar[str] = "REASONING_MESSAGE_CONTENT"
    message_id: str
    delta: str


class ReasoningMessageEndEvent(Event, frozen=True, tag="REASONING_MESSAGE_END"):
    """A reasoning message is whole."""

    type: ClassVar[str] = "REASONING_MESSAGE_END"
    message_id: str


class ReasoningEndEvent(Event, frozen=True, tag="REASONING_END"):
    """The model has reasoned."""

    type: ClassVar[str] = "REASONING_END"
    message_id: str


class ToolCallStartEvent(Event, frozen=True, tag="TOOL_CALL_START"):
    """The model asks for a tool call."""

    type: ClassVar[str] = "TOOL_CALL_START"
    tool_call_id: str
    tool_call_name: str
    parent_message_id: str | None = None


class ToolCallArgsEvent(Event, frozen=True, tag="TOOL_CALL_ARGS"):
    """A piece of the arguments, which join to JSON text."""

    type: ClassVar[str] = "TOOL_CALL_ARGS"
    tool_call_id: str
    delta: str


class ToolCallEndEvent(Event, frozen=True, tag="TOOL_CALL_END"):
    """The call is whole; it has not run yet."""

    type: ClassVar[str] = "TOOL_CALL_END"
    tool_call_id: str


class ToolCallResultEvent(Event, frozen=True, tag="TOOL_CALL_RESULT"):
    """The result of a call, as the model reads it."""

    type: ClassVar[str] = "TOOL_CALL_RESULT"
    message_id: str
    tool_call_id: str
    content: Any
    role: str | None = None


class StateSnapshotEvent(Event, frozen=True, tag="STATE_SNAPSHOT"):
    """The whole shared state."""

    type: ClassVar[str] = "STATE_SNAPSHOT"
    snapshot: Any


class StateDeltaEvent(Event, frozen=True, tag="STATE_DELTA"):
    """A change of the shared state, as JSON Patch operations (RFC 6902)."""

    type: ClassVar[str] = "STATE_DELTA"
    delta: tuple[Mapping[str, Any], ...]


class MessagesSnapshotEvent(Event, frozen=True, tag="MESSAGES_SNAPSHOT"):
    """All messages of the thread, in AG-UI's shape."""

    type: ClassVar[str] = "MESSAGES_SNAPSHOT"
    messages: tuple[Mapping[str, Any], ...]


class CustomEvent(Event, frozen=True, tag="CUSTOM"):
    """Something of an application's, or of this library's (names that begin with `interpose.`)."""

    type: ClassVar[str] = "CUSTOM"
    name: str
    value: Any


AnyEvent = (
    RunStartedEvent
    | RunFinishedEvent
    | RunErrorEvent
    | StepStartedEvent
    | StepFinishedEvent
    | TextMessageStartEvent
    | TextMessageContentEvent
    | TextMessageEndEvent
    | ReasoningStartEvent
    | ReasoningMessageStartEvent
    | ReasoningMessageContentEvent
    | ReasoningMessageEndEvent
    | ReasoningEndEvent
    | ToolCallStartEvent
    | ToolCallArgsEvent
    | ToolCallEndEvent
    | ToolCallResultEvent
    | StateSnapshotEvent
    | StateDeltaEvent
    | MessagesSnapshotEvent
    | CustomEvent
)


def event_from_dict(data: Mapping[str, Any]) -> AnyEvent:
    """Return the event that stands on the wire as *data*.

    Raises:
        ValueError: its type is unknown or a field is wrong.
    """
    try:
        return msgspec.convert(dict(data), AnyEvent)  # type: ignore[no-any-return]  # a union of structs
    except msgspec.ValidationError as error:
        raise ValueError(f"this is no event: {error}") from error


def messages_to_wire(messages: Iterable[Message]) -> tuple[dict[str, Any], ...]:
    """Return *messages* in AG-UI's shape, ids and order kept.

    What AG-UI has no field for (reasoning, text between calls, a provider's own parts, a tool's name, who edited a
    call) stands under `metadata` in the key `interpose`, from which `messages_from_wire` makes the same messages again.
    """
    return tuple([_message_to_wire(message) for message in messages])


def _message_to_wire(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"id": message.id, "role": message.role, "content": message.text}
    own: dict[str, Any] = {}
    match message:
        case UserMessage():
            _parts_to_wire(message.parts, wire, own)
            if message.name:
                wire["name"] = message.name
        case AssistantMessage():
            if message.tool_calls:
                wire["toolCalls"] = [_call_to_wire(call) for call in message.tool_calls]
            if message.parts:
                own["parts"] = to_jsonable(message.parts)
            elif message.reasoning:
                own["reasoning"] = message.reasoning
        case ToolMessage():
            wire["toolCallId"] = message.tool_call_id
            _parts_to_wire(message.parts, wire, own)
            if message.is_error:
                wire["error"] = message.text
            if message.name:
                own["name"] = message.name
    metadata = {**(message.metadata or {}), **({"interpose": own} if own else {})}
    if metadata:
        wire["metadata"] = metadata
    return wire


def _call_to_wire(call: ToolCall) -> dict[str, Any]:
    wire: dict[str, Any] = {"id": call.id, "type": "function"}
    wire["function"] = {"name": call.name, "arguments": call.args_json}
    own = {"idempotency_key": call.idempotency_key, "edited_by": call.edited_by}
    if kept := {key: value for key, value in own.items() if value}:
        wire["metadata"] = {"interpose": kept}
    return wire


def _parts_to_wire(parts: tuple[Any, ...], wire: dict[str, Any], own: dict[str, Any]) -> None:
    """Put *parts* where AG-UI has a place for them, and the whole list aside where one of them has none."""
    if not parts:
        return
    wire["content"] = [part_to_wire(part) for part in parts if not isinstance(part, ProviderPart)]
    if len(wire["content"]) != len(parts):
        own["parts"] = to_jsonable(parts)


def part_to_wire(part: TextPart | ImagePart | AudioPart | FilePart) -> dict[str, Any]:
    """Return one part of a message's content in AG-UI's shape."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kind, value = next((kind, value) for kind in _SOURCES if (value := getattr(part, _SOURCES[kind])) is not None)
    source = {"type": kind, "value": value, **({"mimeType": part.media_type} if part.media_type else {})}
    if isinstance(part, FilePart):
        named = {"metadata": {"name": part.name}} if part.name else {}
        return {"type": "document", "source": source, **named}
    return {"type": "image" if isinstance(part, ImagePart) else "audio", "source": source}


_SOURCES = {"url": "url", "data": "data", "file": "file_id"}
"""AG-UI's kinds of source, and the attribute that holds each here."""


def messages_from_wire(wire: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return messages from AG-UI's shape; activity and reasoning messages, which no model reads, are left out.

    Raises:
        ValueError: a message has an unknown role or lacks what its role needs.
    """
    try:
        return as_messages([_openai_shape(m) for m in wire if m.get("role") not in ("activity", "reasoning")])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"these are no messages in AG-UI's shape: {error!r}") from error


def _openai_shape(wire: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(wire.get("metadata") or {})
    own = metadata.pop("interpose", None) or {}
    common = {"id": wire.get("id"), "role": wire.get("role"), "metadata": metadata or None, "name": wire.get("name")}
    if wire.get("role") == "tool":
        error = wire.get("error") is not None
        common |= {"tool_call_id": wire.get("toolCallId"), "is_error": error, "name": own.get("name")}
    if "parts" in own:
        return {key: value for key, value in {**common, "parts": own["parts"]}.items() if value is not None}
    return {
        **common,
        "content": _openai_content(wire.get("content")),
        "reasoning": own.get("reasoning"),
        "tool_calls": [_call_from_wire(call) for call in wire.get("toolCalls") or ()],
    }


def _call_from_wire(wire: Mapping[str, Any]) -> dict[str, Any]:
    own = (wire.get("metadata") or {}).get("interpose") or {}
    return {**own, "id": wire["id"], "function": wire["function"]}


def _openai_content(content: Any) -> Any:
    return [_own_part(part) for part in content] if isinstance(content, list) else content


def _own_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return {"type": "text", "text": part["text"]}
    source = part["source"]
    kind = {"document": "file", "video": "file"}.get(part["type"], part["type"])
    own = {"type": kind, _SOURCES[source["type"]]: source["value"], "media_type": source.get("mimeType")}
    if kind == "file" and isinstance(part.get("metadata"), Mapping):
        own["name"] = part["metadata"].get("name")
    return {key: value for key, value in own.items() if value is not None}
