"""What callers hand in, as messages: texts, messages and dicts."""

from collections.abc import Iterable, Mapping
from typing import Any

from interpose.message_dicts import message_from_dict
from interpose.messages import (
    MESSAGE_TYPES,
    Message,
    UserMessage,
)

_KINDS = frozenset(MESSAGE_TYPES)


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
        return (UserMessage(given),)
    if isinstance(given, MESSAGE_TYPES):
        return (given,)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"expected a prompt or a list of messages, got {type(given).__name__}; write [{{...}}] for one")
    items = tuple(given)
    if _KINDS.issuperset(map(type, items)):
        return items
    return tuple([_as_message(item) for item in items])


def _as_message(given: Any) -> Message:
    if isinstance(given, MESSAGE_TYPES):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"a message must be of our message types or a dict, got {type(given).__name__}: {given!r:.80}")
    return message_from_dict(given)
