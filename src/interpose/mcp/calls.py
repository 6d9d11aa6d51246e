"""One call of a server's tool: sent, followed, answered; tried again where that is safe."""

from __future__ import annotations

from typing import Any

from interpose.mcp.connection import Connection, Connections
from interpose.mcp.content import result_of
from interpose.mcp.errors import ToolServerError, reason_of, unfit
from interpose.mcp.sampling import calling
from interpose.mcp.sdk import MCPError, types
from interpose.messages import ToolResult

MAX_PROGRESS = 1000
"""How many progress events a call may send; a server that tells more floods the reader."""
_BY_STATUS = "Server returned an error response"
"""What the SDK says where it knows the status of an answer alone."""
_CUT = ("Connection closed", "SSE stream")


class Interrupted(Exception):
    """The connection was lost; *sent* says whether the server may have begun."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


async def call_tool(connections: Connections, name: str, effect: str, ctx: Any, arguments: dict[str, Any]) -> Any:
    """Return the result of the server's tool *name*.

    Where the connection is lost the call is made once more over a new one, unless it may have taken effect.
    """
    label = ""
    for attempt in (1, 2):
        try:
            connection = await connections.live()
        except ToolServerError as error:
            return _error(error.brief)
        label = connection.target.label
        try:
            return await _send(connection, name, ctx, arguments)
        except Interrupted as lost:
            if not lost.sent or (effect != "write" and attempt == 1):
                if attempt == 1:
                    continue
                return _error(f"{name} was not executed: the connection to {label} was lost ({lost})")
            return _error(f"the connection to {label} was lost while {name} ran ({lost}): it may have taken effect")
    raise AssertionError("unreachable: the second attempt returns")


async def _send(connection: Connection, name: str, ctx: Any, arguments: dict[str, Any]) -> ToolResult:
    label = connection.target.label
    told = 0

    async def progress(done: float, total: float | None, message: str | None) -> None:
        nonlocal told
        told += 1
        if told <= MAX_PROGRESS:
            value = {"toolCallId": ctx.tool_call_id, "toolName": name, "server": label, "progress": done}
            more = {"total": total, "message": message}
            ctx.emit("mcp.progress", value | {key: one for key, one in more.items() if one is not None})

    try:
        with calling(connection, ctx):
            answer = await connection.call(connection.client.call_tool(name, arguments, progress_callback=progress))
        return result_of(answer)
    except MCPError as error:
        if error.code == types.CONNECTION_CLOSED and error.message.startswith(_CUT):
            await connection.settled()
        return _error(_refusal(connection, name, error))
    except (ValueError, RuntimeError) as error:
        # Of the SDK: what came does not fit the protocol, or the tool's own schema of what it gives.
        return _error(f"{label} answered {name} with something that is no result of it: {unfit(error)}")


def _refusal(connection: Connection, name: str, error: MCPError) -> str:
    """Return what the server, or the SDK in its place, refused the call with.

    Raises:
        Interrupted: the connection is lost, or its session is.
    """
    label, text = connection.target.label, " ".join(error.message.split())
    if error.code == types.CONNECTION_CLOSED and text.startswith(_CUT):
        never_sent = connection.over and not connection.calls and _unreachable(connection.failure)
        raise Interrupted(connection.why or text, sent=not never_sent)
    problem = getattr(connection.transport, "problem", "") if text.startswith(_BY_STATUS) else ""
    if connection.target.is_http and "session" in (problem or text).lower():
        connection.end("the server has forgotten the session")
        raise Interrupted("the server has forgotten the session", sent=False)
    if error.code == types.INVALID_REQUEST and text.endswith("not supported"):
        return f"{name} needs something that is not offered to {label}: {text}"
    return f"{label} refused {name}: {problem or text}"


def _unreachable(failure: BaseException | None) -> bool:
    return failure is not None and reason_of(failure).startswith("nothing answers there")


def _error(text: str) -> ToolResult:
    return ToolResult(tool_call_id="-", data=text, is_error=True)
