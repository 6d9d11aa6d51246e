"""What callers hand in, as messages: texts, messages and dicts, with half characters replaced where text enters."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from interpose.message_dicts import message_from_dict
from interpose.messages import (
    MESSAGE_TYPES,
    AssistantMessage,
    Message,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserMessage,
)
from interpose.text import clean, clean_value

MessageT = TypeVar("MessageT", bound=Message)


def as_messages(given: object) -> tuple[Message, ...]:
    """Return *given* as messages: None, a string, one message, or an iterable of messages and dicts.

    A dict is either our own JSON (`to_dict`) or a message in OpenAI's Chat Completions shape.

    Raises:
        TypeError: something is neither.
        ValueError: a dict lacks what its role needs.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        return (UserMessage(clean(given)),)
    if isinstance(given, MESSAGE_TYPES):
        return (clean_message(given),)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"expected a prompt or a list of messages, got {type(given).__name__}; write [{{...}}] for one")
    items = tuple(given)
    if _KINDS.issuperset(map(type, items)) and _is_clean(items):  # a long history is looked at as a whole
        return items
    return tuple([clean_message(_as_message(item)) for item in items])


def _as_message(given: Any) -> Message:
    if isinstance(given, MESSAGE_TYPES):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"a message must be of our message types or a dict, got {type(given).__name__}: {given!r:.80}")
    return message_from_dict(given)


def clean_message(message: MessageT) -> MessageT:
    """Return *message* with half characters replaced in all that a model reads; itself where there are none."""
    return message if _is_clean(message) else _replace_half_characters(message)


_KINDS = frozenset(MESSAGE_TYPES)
_probe = msgspec.json.Encoder(enc_hook=str)


def _is_clean(value: Any) -> bool:
    """Whether *value* holds no half characters: what does, cannot be encoded."""
    try:
        _probe.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def _replace_half_characters(message: MessageT) -> MessageT:
    changes: dict[str, Any] = {"text": clean(message.text)}
    parts: Any = getattr(message, "parts", ())
    if parts:
        changes = {"text": "", "parts": tuple([_clean_part(part) for part in parts])}
    elif isinstance(message, AssistantMessage):
        changes["reasoning"] = clean(message.reasoning) if message.reasoning else message.reasoning
        changes["tool_calls"] = tuple([_clean_part(call) for call in message.tool_calls])
    return msgspec.structs.replace(message, **changes)


def _clean_part(part: Any) -> Any:
    if isinstance(part, TextPart | ReasoningPart):
        return part.replace(text=clean(part.text))
    if isinstance(part, ToolCall):
        return msgspec.structs.replace(part, name=clean(part.name), args=clean_value(dict(part.args)))
    return part
