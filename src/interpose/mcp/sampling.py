"""A server's own model calls: it asks for one while one of its tools runs, and the run makes it."""

from __future__ import annotations

import asyncio
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


class Call:
    """A call that is under way: its context, and the model calls that the server made for it."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        self.asked: set[asyncio.Task[Any]] = set()


@contextmanager
def calling(connection: Connection, ctx: Any) -> Iterator[None]:
    """Note that a call is under way; model calls that were made for it do not outlive it."""
    call = Call(ctx)
    token = _caller.set(call)
    connection.calls.append(call)
    try:
        yield
    finally:
        connection.calls.remove(call)
        _caller.reset(token)
        for task in call.asked:
            task.cancel()


async def sample(connection: Connection, params: Any) -> Any:
    """Return what the model of the run says to *params*, or why it is not asked.

    Over stdio a request does not say for which call it comes; it is answered where only one is under way.
    """
    call = _caller.get() or (connection.calls[0] if len(connection.calls) == 1 else None)
    if call is None:
        many = f"{len(connection.calls)} calls are under way, and the request does not say for which it comes"
        return _refuse(many if connection.calls else "no call is under way")
    if params.tools:
        return _refuse("tools are not offered to the model of a server")
    # A task of its own, since what steers the run is raised here too and must not reach the SDK.
    task = asyncio.create_task(_generate(call.ctx, params))
    call.asked.add(task)
    try:
        await asyncio.wait([task])
    finally:
        call.asked.discard(task)
        task.cancel()
    if task.cancelled():
        return _refuse("the call that it was for has ended")
    if (error := task.exception()) is not None:
        return _refuse(f"it failed: {error}" if isinstance(error, Exception) else "the run has ended")
    response = task.result()
    return types.CreateMessageResult(
        role="assistant",
        content=types.TextContent(type="text", text=response.text),
        model=response.model or call.ctx.model,
        stop_reason=_STOPS.get(response.finish_reason, response.finish_reason),
    )


async def _generate(ctx: Any, params: Any) -> Any:
    stop = tuple(params.stop_sequences) if params.stop_sequences else None
    settings = ModelSettings(max_tokens=params.max_tokens, temperature=params.temperature, stop=stop)
    messages = [_message(one) for one in params.messages]
    return await ctx.generate(messages, instructions=params.system_prompt, settings=settings, call_class="mcp_sampling")


def _message(one: Any) -> Any:
    blocks = one.content if isinstance(one.content, list) else [one.content]
    parts = tuple(part for block in blocks for part in parts_of(block))
    if one.role == "assistant":
        return AssistantMessage(parts=parts)
    return UserMessage(parts=parts)


def _refuse(text: str) -> Any:
    return types.ErrorData(code=types.INVALID_REQUEST, message=f"no model call was made: {text}")
