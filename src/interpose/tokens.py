"""Estimates of how many tokens texts, messages, tools and requests take; one rule for all that cut history."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from interpose.messages import AudioPart, FilePart, ImagePart, Message
from interpose.request import ModelRequest
from interpose.text import to_json, to_jsonable
from interpose.tools import Tool, is_async

CHARS_PER_TOKEN = 4
"""How many characters a token is taken to have. English prose has about that many; code and other scripts fewer."""

MEDIA_TOKENS = 1500
"""What a picture, a sound or a file counts, whatever its size; their base64 is never counted as text."""

CountTokens = Callable[[str], int]
"""Counts the tokens of a text. One with a method `media(part)` also prices pictures, sounds and files."""


@runtime_checkable
class CountMedia(Protocol):
    """A counter of texts that prices pictures, sounds and files too."""

    def __call__(self, text: str, /) -> int:
        """Return the tokens of *text*."""
        ...

    def media(self, part: ImagePart | AudioPart | FilePart, /) -> int:
        """Return the tokens of *part*."""
        ...


def tokens(text: str) -> int:
    """Return a quarter of the characters of *text*, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def check_counter(count_tokens: object) -> CountTokens:
    """Return *count_tokens* as it is.

    Raises:
        TypeError: it cannot be called, or is async: it is called for every message, between two steps.
    """
    if not callable(count_tokens) or is_async(count_tokens):
        raise TypeError(
            f"count_tokens must be a plain function of a text that returns an int, got {count_tokens!r:.80}"
        )
    return count_tokens


def plain_json(value: Any) -> str:
    """Return *value* as compact JSON whose strings are as they are, without escapes: text to count, not to parse."""
    text = to_json(value)
    return text if "\\" not in text else _plain(to_jsonable(value))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{" + ",".join([f'"{key}":{_plain(item)}' for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([_plain(item) for item in value]) + "]"
    return to_json(value)


def count_message(message: Message, count_tokens: CountTokens = tokens) -> int:
    """Return the tokens of a message: its text and its tool calls, names and arguments, in one string; and its media.

    Reasoning is not counted: providers drop it from all but the newest step.
    """
    text = message.text
    if message.tool_calls:
        text += "".join([call.name + (call.raw or plain_json(call.args)) for call in message.tool_calls])
    media = [part for part in getattr(message, "parts", ()) if isinstance(part, ImagePart | AudioPart | FilePart)]
    return count_tokens(text) + sum([count_media(part, count_tokens) for part in media])


def count_media(part: ImagePart | AudioPart | FilePart, count_tokens: CountTokens) -> int:
    """Return what *count_tokens* prices *part* at, or the fixed price."""
    return count_tokens.media(part) if isinstance(count_tokens, CountMedia) else MEDIA_TOKENS


def count_tool(tool: Tool, count_tokens: CountTokens = tokens) -> int:
    """Return the tokens of a tool: name, description and parameters, in one string."""
    return count_tokens(tool.name + tool.description + plain_json(tool.parameters))


class Growing:
    """A sum over a history that mostly grows at its end: what was summed before is not looked at again."""

    __slots__ = ("_count", "_seen", "_total")

    def __init__(self, count: Callable[[Any], int]) -> None:
        self._count = count
        self._seen: tuple[Any, ...] = ()
        self._total = 0

    def sum(self, items: tuple[Any, ...]) -> int:
        """Return the sum of what *count* gives for each of *items*."""
        seen = self._seen
        if items[: len(seen)] != seen:  # fast: an item that is the same object is not looked into
            seen, self._total = (), 0
        self._total += sum(map(self._count, items[len(seen) :]))
        self._seen = items
        return self._total


class Tally:
    """Counts what a run sends again and again, each message and tool once.

    It keeps what it counted, since an object's id is its own only while it lives; what is not met any more is let go.
    """

    def __init__(self, count_tokens: CountTokens = tokens) -> None:
        self._count_tokens = count_tokens
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []
        self._messages = Growing(self._message)
        self._tools = Growing(partial(count_tool, count_tokens=count_tokens))

    def request(self, request: ModelRequest) -> int:
        """Return the tokens of a whole request: messages, tools and instructions."""
        tools = self._tools.sum(request.tools) if request.tools else 0
        return self.messages(request.messages) + tools + self._count_tokens(request.instructions)

    def messages(self, messages: Iterable[Message]) -> int:
        """Return the tokens of *messages*."""
        given = tuple(messages)
        if len(self._kept) > 2 * len(given) + 1000:
            self._known.clear()
            self._kept.clear()
        return self._messages.sum(given)

    def _message(self, message: Message) -> int:
        size = self._known.get(id(message))
        if size is None:
            size = self._known[id(message)] = count_message(message, self._count_tokens)
            self._kept.append(message)
        return size
