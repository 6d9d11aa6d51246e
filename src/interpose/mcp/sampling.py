"""A server's own model calls: it asks for one while one of its tools runs, and the run makes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from interpose.mcp.connection import Connection
from interpose.mcp.content import parts_of
from interpose.mcp.sdk import types
from interpose.messages import AssistantMessage, UserMessage
from interpose.request import ModelSettings

_caller: ContextVar[Any] = ContextVar("interpose_mcp_caller", default=None)
_STOPS = {"stop": "endTurn", "length": "maxTokens"}


@contextmanager
def calling(connection: Connection, ctx: Any) -> Iterator[None]:
    """Note which call of which run is under way."""
    token = _caller.set(ctx)
    connection.calls.append(ctx)
    try:
        yield
    finally:
        connection.calls.remove(ctx)
        _caller.reset(token)


async def sample(connection: Connection, params: Any) -> Any:
    """Return what the model of the run says to *params*, or why it is not asked.

    Over stdio a request does not say for which call it comes; it is answered where only one is under way.
    """
    ctx = _caller.get() or (connection.calls[0] if len(connection.calls) == 1 else None)
    if ctx is None:
        many = f"{len(connection.calls)} calls are under way, and the request does not say for which it comes"
        return _refuse(many if connection.calls else "no call is under way")
    if params.tools:
        return _refuse("tools are not offered to the model of a server")
    stop = tuple(params.stop_sequences) if params.stop_sequences else None
    settings = ModelSettings(max_tokens=params.max_tokens, temperature=params.temperature, stop=stop)
    messages = [_message(one) for one in params.messages]
    try:
        response = await ctx.generate(
            messages, instructions=params.system_prompt, settings=settings, call_class="mcp_sampling"
        )
    except Exception as error:
        return _refuse(f"the model call failed: {error}")
    return types.CreateMessageResult(
        role="assistant",
        content=types.TextContent(type="text", text=response.text),
        model=response.model or ctx.model,
        stop_reason=_STOPS.get(response.finish_reason, response.finish_reason),
    )


def _message(one: Any) -> Any:
    blocks = one.content if isinstance(one.content, list) else [one.content]
    parts = tuple(part for block in blocks for part in parts_of(block))
    if one.role == "assistant":
        return AssistantMessage(parts=parts)
    return UserMessage(parts=parts)


def _refuse(text: str) -> Any:
    return types.ErrorData(code=types.INVALID_REQUEST, message=f"no model call was made: {text}")
