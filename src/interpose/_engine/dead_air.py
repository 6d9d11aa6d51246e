"""The dead-air guard: a model that says nothing for too long is cut, and what there is is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from interpose._engine.deadline import Deadline
from interpose.messages import AssistantMessage, ToolCall
from interpose.models.base import Assembly, ModelChunk, PendingCall, ReasoningDelta, TextDelta, ToolCallDelta
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from interpose._engine.run import Run


def heard(run: Run) -> Deadline | None:
    """Return the deadline of silence for one attempt, or None where there is no limit."""
    seconds = run.limits.dead_air_s
    return None if seconds is None else Deadline(run.clock, seconds)


async def listening(stream: AsyncIterator[ModelChunk], deadline: Deadline) -> AsyncIterator[ModelChunk]:
    """Yield the chunks of *stream*; each piece of content that is not empty starts the clock again."""
    try:
        async for chunk in stream:
            if _has_content(chunk):
                deadline.restart()
            yield chunk
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _has_content(chunk: Any) -> bool:
    match chunk:
        case TextDelta() | ReasoningDelta():
            return bool(chunk.text)
        case ToolCallDelta():
            return bool(chunk.args or chunk.name)
    return False


def silent_response(assembly: Assembly, request: ModelRequest) -> ModelResponse:
    """Return what had been said before the silence: unfinished calls are dropped."""
    assembly.items[:] = [item for item in assembly.items if not _is_unfinished(item)]
    message: AssistantMessage = assembly.message()
    return ModelResponse(message, "dead_air", assembly.usage, request.model, request.provider)


def _is_unfinished(item: Any) -> bool:
    if item.__class__ is not PendingCall:
        return False
    args = "".join(item.args)
    return not item.name or not args or ToolCall(item.id, item.name, args).error is not None  # type: ignore[arg-type]  # as JSON text
