"""Turns: what a scripted model plays, one for each model call."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct

from interpose.ids import create_id
from interpose.messages import ToolCall
from interpose.models.base import Finish, ModelChunk, ReasoningDelta, TextDelta, ToolCallDelta
from interpose.request import ModelRequest, Usage


class Turn(Struct, frozen=True, kw_only=True):
    """Chunks to play, and what follows them: the end of the stream, an *error*, or silence until cancelled."""

    chunks: tuple[ModelChunk, ...] = ()
    error: BaseException | type[BaseException] | None = None
    hangs: bool = False


AnyTurn = Turn | str | Callable[[ModelRequest], "AnyTurn | Awaitable[AnyTurn]"]
"""A turn, a string (a text turn), or a function of the request that returns either; the function may be async."""


def text(
    text: str = "",
    *,
    chunks: Iterable[str] | None = None,
    reasoning: str | None = None,
    usage: Usage | None = None,
    finish_reason: str = "stop",
) -> Turn:
    """Return a turn that says *text*, in one piece or in those of *chunks*, after *reasoning* if there is any.

    Without text and chunks only the finish is played.

    Raises:
        ValueError: *chunks* do not join to *text*. Text may be left out where chunks are given.
    """
    pieces = ((text,) if text else ()) if chunks is None else tuple(chunks)
    if text and "".join(pieces) != text:
        raise ValueError(f"the chunks must join to the text {text[:80]!r}, they make {''.join(pieces)[:80]!r}")
    thought = (ReasoningDelta(reasoning),) if reasoning is not None else ()
    return Turn(chunks=(*thought, *[TextDelta(piece) for piece in pieces], Finish(finish_reason, usage)))


def calls(
    *items: ToolCall | tuple[Any, ...] | str,
    text: str = "",
    usage: Usage | None = None,
    finish_reason: str = "tool_calls",
) -> Turn:
    """Return a turn that asks for tool calls, after *text* if there is any.

    An item is `(name, arguments)`, a name alone, or a `ToolCall` where the id matters. Arguments given as a string are
    played as they are, so that broken JSON can be.

    Raises:
        TypeError: an item is none of these.
    """
    said = (TextDelta(text),) if text else ()
    asked = [_call_delta(index, item) for index, item in enumerate(items)]
    return Turn(chunks=(*said, *asked, Finish(finish_reason, usage)))


def _call_delta(index: int, item: Any) -> ToolCallDelta:
    match item:
        case (str(name), str(raw)):
            return ToolCallDelta(index, create_id("call"), name, raw)
        case (str(name), None):
            return ToolCallDelta(index, create_id("call"), name)
    call = as_call(item)
    return ToolCallDelta(index, call.id, call.name, call.args_json)


def as_call(item: Any) -> ToolCall:
    """Return `(name, arguments)`, a name alone, or a `ToolCall` as a `ToolCall`."""
    match item:
        case ToolCall():
            return item
        case str(name) | (str(name),):
            return ToolCall(create_id("call"), name)
        case (str(name), args):
            return ToolCall(create_id("call"), name, args)
    raise TypeError(f"a call must be (name, arguments), a name or a ToolCall, got {item!r:.80}")


def chunks(*model_chunks: ModelChunk) -> Turn:
    """Return a turn that plays *model_chunks* as they are; without a `Finish` among them the stream is cut off."""
    return Turn(chunks=model_chunks)


def fail(exception: BaseException | type[BaseException], after: Iterable[str | ModelChunk] = ()) -> Turn:
    """Return a turn that raises *exception*, after the pieces of text (or chunks) in *after*."""
    return Turn(chunks=_said(after), error=exception)


def hang(after: Iterable[str | ModelChunk] = ()) -> Turn:
    """Return a turn that waits until it is cancelled, after the pieces of text (or chunks) in *after*."""
    return Turn(chunks=_said(after), hangs=True)


def _said(after: Iterable[str | ModelChunk]) -> tuple[ModelChunk, ...]:
    pieces = (after,) if isinstance(after, str) else after
    return tuple([TextDelta(piece) if isinstance(piece, str) else piece for piece in pieces])
