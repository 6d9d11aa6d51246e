"""Events: what a consumer sees while a run goes on. Names and JSON are those of AG-UI 1.0.

Attributes are snake_case in Python and camelCase on the wire. Optional fields without a value are left out, never null.
Source: the schema of AG-UI 1.0, read 2026-11.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import msgspec

from interpose.messages import Message, Value
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
    protocol_version: str | None = PROTOCOL_VERSION


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

    What AG-UI has no field for (the order of several parts, a provider's own parts) stands under `metadata` in the
    key `interpose`, from which `messages_from_wire` makes the same messages again.
    """
    return tuple([_message_to_wire(message) for message in messages])


def _message_to_wire(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"id": message.id, "role": message.role, "content": message.text}
    if message.metadata:
        wire["metadata"] = dict(message.metadata)
    if message.tool_calls:
        wire["toolCalls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.args_json}}
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["toolCallId"] = message.tool_call_id
        if getattr(message, "is_error", False):
            wire["error"] = message.text
    own: dict[str, Any] = {}
    if getattr(message, "parts", ()):
        own["parts"] = to_jsonable(message.parts)  # type: ignore[union-attr]  # system messages have none
    elif getattr(message, "reasoning", None):
        own["reasoning"] = message.reasoning  # type: ignore[union-attr]  # assistant messages alone have it
    if getattr(message, "name", None):
        wire["name" if message.role == "user" else "toolName"] = message.name  # type: ignore[union-attr]  # as above
    if own:
        wire["metadata"] = {**wire.get("metadata", {}), "interpose": own}
    return wire


def messages_from_wire(wire: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return messages from AG-UI's shape; activity and reasoning messages, which no model reads, are left out.

    Raises:
        ValueError: a message has an unknown role or lacks what its role needs.
    """
    from interpose.messages import as_messages

    return as_messages([_openai_shape(m) for m in wire if m.get("role") not in ("activity", "reasoning")])


def _openai_shape(wire: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(wire.get("metadata") or {})
    own = metadata.pop("interpose", None)
    common = {"id": wire.get("id"), "role": wire.get("role"), "metadata": metadata or None, "name": wire.get("name")}
    if wire.get("role") == "tool":
        common |= {"tool_call_id": wire.get("toolCallId"), "is_error": bool(wire.get("error"))}
        common["name"] = wire.get("toolName")
    if own and "parts" in own:
        return {k: v for k, v in {**common, "text": "", "parts": own["parts"]}.items() if v is not None}
    return {
        **common,
        "content": _openai_content(wire.get("content")),
        "reasoning": (own or {}).get("reasoning"),
        "tool_calls": wire.get("toolCalls") or (),
    }


def _openai_content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_own_part(part) for part in content]


def _own_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return {"type": "text", "text": part["text"]}
    source = part["source"]
    kind = {"document": "file", "video": "file"}.get(part["type"], part["type"])
    field = {"url": "url", "data": "data", "file": "file_id"}[source["type"]]
    own = {"type": kind, field: source["value"], "media_type": source.get("mimeType")}
    return {key: value for key, value in own.items() if value is not None}
