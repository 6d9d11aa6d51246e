"""Messages: what is said in a thread, and the parts that a message is made of."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import msgspec
from msgspec import Struct, field

from interpose.ids import message_id
from interpose.text import clean, clean_value, is_clean, readable, to_json, to_jsonable


class Value(Struct, frozen=True):
    """A frozen value that crosses a seam: `replace` gives a changed copy, `to_dict` and `to_json` its JSON."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with *changes*; unknown field names raise `TypeError`."""
        return msgspec.structs.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the value as JSON-able dicts and lists."""
        return to_jsonable(self)  # type: ignore[no-any-return]  # a struct always becomes a dict

    def to_json(self) -> str:
        """Return the value as compact JSON."""
        return to_json(self)


class _Part(Value, frozen=True, tag_field="type", omit_defaults=True):
    pass


class TextPart(_Part, frozen=True, tag="text"):
    """A piece of text."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.isascii():
            _clean(self, "text")


class ReasoningPart(_Part, frozen=True, tag="reasoning"):
    """What the model thought before it spoke; *signature* is the vendor's proof, sent back untouched."""

    text: str
    signature: str | None = None

    def __post_init__(self) -> None:
        if not self.text.isascii():
            _clean(self, "text")


class _Media(_Part, frozen=True, kw_only=True):
    """Bytes for the model: exactly one of *url*, *data* (base64) and *file_id* (a handle of the provider) is given."""

    url: str | None = None
    data: str | None = None
    file_id: str | None = None
    media_type: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("url", "data", "file_id") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{type(self).__name__} takes exactly one of url, data and file_id; got {given or 'none'}")
        value: Any = getattr(self, given[0])
        if not isinstance(value, str):
            mend = "; for bytes give base64.b64encode(...).decode()" if isinstance(value, bytes | bytearray) else ""
            raise ValueError(f"{type(self).__name__} takes {given[0]} as text, got {type(value).__name__}{mend}")
        if self.data is not None and self.media_type is None:
            raise ValueError(f"{type(self).__name__} with data needs media_type, for instance 'image/png'")


class ImagePart(_Media, frozen=True, tag="image"):
    """A picture."""


class AudioPart(_Media, frozen=True, tag="audio"):
    """Sound."""


class FilePart(_Media, frozen=True, tag="file", kw_only=True):
    """A document, such as a PDF."""

    name: str | None = None


class ProviderPart(_Part, frozen=True, tag="provider"):
    """Something only its provider understands, kept and sent back to that provider untouched."""

    data: Any
    provider: str = ""


def _arguments(args: Any) -> tuple[Mapping[str, Any], str | None, str | None]:
    """Return arguments as (mapping, raw text if broken, what is wrong)."""
    if isinstance(args, Mapping):
        return args, None, None
    if args is None:
        return {}, None, None
    raw = args if isinstance(args, str) else to_json(args)
    if not raw.strip():
        return {}, None, None
    try:
        value = msgspec.json.decode(clean(raw))
    except (msgspec.DecodeError, RecursionError) as error:
        if "\\ud" in raw.lower() and (value := _with_lone_surrogates(raw)) is not None:
            return value, None, None
        return {}, clean(raw), f"the arguments are not valid JSON: {error}"
    if value is None:
        return {}, None, None
    if not isinstance(value, dict):
        return {}, clean(raw), f"the arguments must be a JSON object, not {raw[:80]}"
    return value, None, None


def _with_lone_surrogates(raw: str) -> dict[str, Any] | None:
    """Decode JSON whose escapes hold half a character, which becomes U+FFFD."""
    try:
        value = clean_value(json.loads(raw))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class ToolCall(_Part, frozen=True, tag="tool_call"):
    """A call that the model asks for.

    *args* may be given as JSON text: nothing, empty text and null become `{}`. Text that is no JSON object is kept in
    *raw*, with `args` empty and *error* saying what is wrong; the call is then answered with that error.
    """

    id: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    raw: str | None = None
    error: str | None = None
    idempotency_key: str = ""
    edited_by: str | None = None

    def __post_init__(self) -> None:
        if self.args.__class__ is not dict:
            args, raw, error = _arguments(self.args)
            set_field = msgspec.structs.force_setattr
            set_field(self, "args", args)
            if error is not None:
                set_field(self, "raw", raw)
                set_field(self, "error", error)

    @property
    def args_json(self) -> str:
        """The arguments as JSON text; the model's own text where it was broken."""
        return self.raw if self.raw is not None else to_json(self.args)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with *changes*; new arguments also clear `raw` and `error`."""
        if "args" in changes:
            changes = {"raw": None, "error": None, **changes}
        return msgspec.structs.replace(self, **changes)

    def answer(self, value: Any) -> "ToolResult":
        """Return *value* as the result of this call."""
        return ToolResult(tool_call_id=self.id, data=value)

    def refuse(self, text: str) -> "ToolResult":
        """Return an error result that the model reads and can work around."""
        return ToolResult(tool_call_id=self.id, data=text, is_error=True)


_PLAIN = frozenset((str, int, float, bool, dict, type(None)))


class ToolResult(Value, frozen=True, kw_only=True):
    """What a tool call came to. *data* is what the tool returned; `text` is how the model reads it."""

    tool_call_id: str
    data: Any = None
    is_error: bool = False
    duration_ms: float | None = None

    @property
    def text(self) -> str:
        """The data as the model reads it: a text as it is, parts by their text, anything else as compact JSON."""
        parts = self.parts
        return text_of_parts(parts) if parts else readable(self.data)

    @property
    def parts(self) -> tuple[Any, ...]:
        """The data as parts, where it is a part or a list of parts (text and pictures); else empty."""
        data = self.data
        if data.__class__ in _PLAIN:
            return ()
        if isinstance(data, _Part):
            return (data,)
        if isinstance(data, list | tuple) and data and all(isinstance(item, _Part) for item in data):
            return tuple(data)
        return ()

    def message(self, name: str | None = None) -> "ToolMessage":
        """Return the message that answers the call."""
        data = self.data
        if data.__class__ in _PLAIN:
            text = data if data.__class__ is str and data.isascii() else readable(data)
            return ToolMessage(text, self.tool_call_id, self.is_error, name)
        parts = self.parts
        return ToolMessage("" if parts else readable(data), self.tool_call_id, self.is_error, name, parts)


Part = TextPart | ReasoningPart | ImagePart | AudioPart | FilePart | ProviderPart | ToolCall


def text_of_parts(parts: Iterable[Part]) -> str:
    """Return the text parts, joined as they are."""
    return "".join([part.text for part in parts if part.__class__ is TextPart])


class _Message(Value, frozen=True, tag_field="role", omit_defaults=True):
    role: ClassVar[str] = ""
    tool_calls: ClassVar[tuple[ToolCall, ...]] = ()
    tool_call_id: ClassVar[str | None] = None


class SystemMessage(_Message, frozen=True, tag="system"):
    """Instructions inside the conversation; an agent's own instructions are no message."""

    role: ClassVar[str] = "system"
    text: str
    id: str = field(default_factory=message_id)
    metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.text.isascii():
            _clean(self, "text")


class UserMessage(_Message, frozen=True, tag="user"):
    """What a person said. With *parts*, those are the content in order and `text` is their text."""

    role: ClassVar[str] = "user"
    text: str = ""
    parts: tuple[TextPart | ImagePart | AudioPart | FilePart | ProviderPart, ...] = ()
    id: str = field(default_factory=message_id)
    name: str | None = None
    metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.parts:
            _text_from_parts(self)
        elif not self.text.isascii():
            _clean(self, "text")


class AssistantMessage(_Message, frozen=True, tag="assistant"):
    """What the model said: reasoning, text and the tool calls that it asks for.

    `parts` is there only where there is more than reasoning, text and calls in that order (signatures, text between
    calls, a provider's own parts); the other fields then repeat what it holds.
    """

    role: ClassVar[str] = "assistant"
    text: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()  # type: ignore[misc]  # a field here, an empty constant elsewhere
    parts: tuple[Part, ...] = ()
    id: str = field(default_factory=message_id)
    metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.parts:
            _assistant_from_parts(self)
            return
        if not self.text.isascii():
            _clean(self, "text")
        if self.reasoning and not self.reasoning.isascii():
            _clean(self, "reasoning")
        if self.tool_calls.__class__ is not tuple or (self.tool_calls and not is_clean(self.tool_calls)):
            msgspec.structs.force_setattr(self, "tool_calls", tuple([_clean_call(call) for call in self.tool_calls]))

    def content(self) -> tuple[Part, ...]:
        """Return everything in the message, in order, as parts."""
        if self.parts:
            return self.parts
        head: tuple[Part, ...] = (ReasoningPart(self.reasoning),) if self.reasoning else ()
        return (*head, *((TextPart(self.text),) if self.text else ()), *self.tool_calls)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with *changes*.

        On a message with `parts`, new text takes the place of its first text part, new calls that of its first call,
        new reasoning that of its first reasoning; a provider's own parts stay.
        """
        if self.parts and "parts" not in changes:
            parts = _merge(self.parts, changes)
            changes = {"text": "", "reasoning": None, "tool_calls": (), **changes, "parts": parts}
        return msgspec.structs.replace(self, **changes)


class ToolMessage(_Message, frozen=True, tag="tool"):
    """The answer to one tool call, as the model reads it. With *parts*, those are the content and `text` their text."""

    role: ClassVar[str] = "tool"
    text: str = ""
    tool_call_id: str = ""  # type: ignore[misc]  # a field here, None elsewhere
    is_error: bool = False
    name: str | None = None
    parts: tuple[TextPart | ImagePart | AudioPart | FilePart | ProviderPart, ...] = ()
    id: str = field(default_factory=message_id)
    metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.tool_call_id:
            raise ValueError("a ToolMessage needs tool_call_id: the id of the call that it answers")
        if self.parts:
            _text_from_parts(self)
        elif not self.text.isascii():
            _clean(self, "text")


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
MESSAGE_TYPES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


def _clean(value: Any, name: str) -> None:
    """Replace half characters in a text of *value*."""
    text = getattr(value, name)
    if (cleaned := clean(text)) is not text:
        msgspec.structs.force_setattr(value, name, cleaned)


def _clean_call(call: ToolCall) -> ToolCall:
    if is_clean(call):
        return call
    return msgspec.structs.replace(call, name=clean(call.name), args=clean_value(dict(call.args)))


def _text_from_parts(message: Any) -> None:
    """Keep text and parts in step: with new text the first text part holds it and the other text parts go."""
    text = text_of_parts(message.parts)
    if message.text and message.text != text:
        kept, placed = [], False
        for part in message.parts:
            if part.__class__ is TextPart:
                if not placed:
                    kept.append(TextPart(message.text))
                placed = True
            else:
                kept.append(part)
        parts = tuple(kept) if placed else (TextPart(message.text), *kept)
        msgspec.structs.force_setattr(message, "parts", parts)
    else:
        msgspec.structs.force_setattr(message, "parts", tuple(message.parts))
        msgspec.structs.force_setattr(message, "text", text)


def _assistant_from_parts(message: AssistantMessage) -> None:
    set_field = msgspec.structs.force_setattr
    parts = tuple([_clean_call(part) if part.__class__ is ToolCall else part for part in message.parts])
    set_field(message, "parts", parts)
    set_field(message, "text", text_of_parts(parts))
    reasoning = "".join([part.text for part in parts if part.__class__ is ReasoningPart])
    set_field(message, "reasoning", reasoning or None)
    set_field(message, "tool_calls", tuple([part for part in parts if part.__class__ is ToolCall]))


def _merge(parts: tuple[Part, ...], changes: dict[str, Any]) -> tuple[Part, ...]:
    """Return *parts* with new text, reasoning and calls in the places of the old ones."""
    new: dict[type, list[Part]] = {}
    if "text" in changes:
        new[TextPart] = [TextPart(changes["text"])] if changes["text"] else []
    if "reasoning" in changes:
        new[ReasoningPart] = [ReasoningPart(changes["reasoning"])] if changes["reasoning"] else []
    if "tool_calls" in changes:
        new[ToolCall] = list(changes["tool_calls"])
    merged: list[Part] = []
    for part in parts:
        if part.__class__ in new:
            merged.extend(new[part.__class__])
            new[part.__class__] = []
        else:
            merged.append(part)
    if new.get(ReasoningPart):
        merged[:0] = new[ReasoningPart]
    for kind in (TextPart, ToolCall):
        merged.extend(new.get(kind, ()))
    return tuple(merged)
