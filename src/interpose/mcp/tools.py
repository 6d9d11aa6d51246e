"""`MCPTools`: the tools of a tool server, in the runs of agents."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from interpose.errors import ConfigurationError
from interpose.info import RunConfig
from interpose.mcp.calls import call_tool
from interpose.mcp.connection import Connection, Connections
from interpose.mcp.errors import ToolServerError
from interpose.mcp.http import Headers
from interpose.mcp.offers import Ask, Effect, Offering
from interpose.mcp.sampling import sample
from interpose.mcp.target import DEFAULT_MAX_BYTES, Target
from interpose.middleware import Middleware
from interpose.tools import Tool

logger = logging.getLogger("interpose.mcp")


class MCPTools(Middleware[Any]):
    """Brings the tools of an MCP server into an agent. Needs the extra: `pip install 'interpose[mcp]'`.

    *server* is a command (a list of words, or `StdioServerParameters`), the URL of a streamable-HTTP endpoint, or a
    server object or a function that returns a transport, both of the SDK. *headers*, a mapping or a function that
    returns one at each connection and after each 401, are for a URL; *env* and *cwd* for a command.

    *prefix* is put before the names of the tools. *include* and *exclude* list names or patterns ("read_*") of the
    server. *approval* asks a person: True, "write" (all that are not marked as reading), "destructive" (of those, all
    that are not marked as harmless), a callable(ctx, call), or a mapping from names to these. *effect* says what a
    repeated call does where the server's marks are not to be trusted; without it, they decide.

    *timeout_s* limits a call, *connect_timeout_s* the opening. A message of more than *max_message_bytes* cuts the
    connection. *sampling* lets the server call the run's model, at the run's cost, while one of its tools runs. With
    *required* false, runs go on without the tools of a server that cannot be reached. *mode* "legacy" spares servers
    that answer nothing to a protocol newer than theirs a wait of 10 s.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
    """

    def __init__(
        self,
        server: Any,
        *,
        name: str = "",
        headers: Headers | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        prefix: str = "",
        include: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        approval: Ask | Mapping[str, Ask] = False,
        effect: Effect | Mapping[str, Effect] | None = None,
        timeout_s: float | None = 60.0,
        connect_timeout_s: float = 30.0,
        max_message_bytes: int = DEFAULT_MAX_BYTES,
        sampling: bool = False,
        required: bool = True,
        mode: str = "auto",
    ) -> None:
        for what, value in (("connect_timeout_s", connect_timeout_s), ("max_message_bytes", max_message_bytes)):
            if not value > 0:
                raise ConfigurationError(f"{what} must be above 0; got {value!r}")
        if mode not in ("auto", "legacy"):
            raise ConfigurationError(f"mode must be 'auto' or 'legacy'; got {mode!r}")
        silence_s = timeout_s + 30 if timeout_s else 0.0
        target = Target(server, headers=headers, env=env, cwd=cwd, max_bytes=max_message_bytes, silence_s=silence_s)
        offering = Offering(prefix, include, exclude, approval, effect, timeout_s)
        target.label = name or target.label
        self.name = f"MCPTools({target.label})"
        self._required = required
        self._users = 0
        self._mark = object()
        wiring = Wiring(target, offering, self.name, self._mark, connect_timeout_s, mode, sampling)
        # What a connection's task holds does not lead back here, so that one that nobody uses any more can be noticed.
        self._connections = Connections(partial(connect, wiring))
        weakref.finalize(self, self._connections.abandon).atexit = False

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def brings(self) -> tuple[Tool, ...]:
        """The tools as they are now, by name; none before it was opened."""
        return self._connections.newest()

    async def open(self, agent: Any) -> None:
        """Connect, and list the tools."""
        try:
            connection = await self._connections.live()
        except ToolServerError as error:
            if self._required:
                raise
            logger.warning("%s; runs go on without its tools", error)
        else:
            self._check_clashes(agent.tools, connection.tools)
        self._users += 1

    async def close(self) -> None:
        """Disconnect, where nobody else has it open."""
        self._users = max(self._users - 1, 0)
        if self._users == 0:
            await self._connections.close()

    async def on_config(self, ctx: Any, config: RunConfig) -> RunConfig | None:
        """Offer the tools: to the run as it begins, and to each step as the list stands then."""
        if ctx.phase == "init":
            tools = await self._current()
            self._check_clashes(config.tools, tools)
            ctx.private(self)["given"] = tools
            return config.replace(tools=_with(config.tools, tools))
        if ctx.phase != "before_model":
            return None
        connection = self._connections.here()
        given = ctx.private(self).get("given", ())
        if connection is None or not connection.is_usable:
            return None  # a call connects anew
        await connection.freshened()
        if connection.tools is given or connection.client is None:
            return None
        return config.replace(tools=_renewed(config.tools, given, connection.tools))

    async def _current(self) -> tuple[Any, ...]:
        """Return the tools as they are now.

        Raises:
            ToolServerError: the server is required and cannot be reached.
        """
        try:
            connection = await self._connections.live()
            await connection.freshened()
        except ToolServerError as error:
            if self._required:
                raise
            logger.warning("%s; the run goes on without its tools", error)
            return ()
        return connection.tools

    def _check_clashes(self, others: Sequence[Any], own: Sequence[Any]) -> None:
        names = {tool.name for tool in own}
        for other in others:
            if other.name in names and getattr(other.function, "brought_by", None) is not self._mark:
                raise ConfigurationError(
                    f"two tools are called {other.name!r}: one of {other.origin or 'a hook'}, one of {self.name}; "
                    f"give MCPTools a prefix='...', or leave the tool out with exclude=[{other.name!r}]"
                )


@dataclass(frozen=True)
class Wiring:
    """What a connection is made with; *owner* is the name of the middleware, and *mark* marks its tools."""

    target: Target
    offering: Offering
    owner: str
    mark: object
    timeout_s: float
    mode: str
    sampling: bool


def connect(wiring: Wiring, connections: Connections) -> Connection:
    """Return a connection that has begun, and that turns what the server lists into tools."""
    call = partial(call_tool, connections)

    def take(connection: Connection, listed: list[Any]) -> None:
        if connection.client is None:
            wiring.offering.check_names(wiring.target.label, [one.name for one in listed])
        connection.tools = wiring.offering.tools(listed, wiring.owner, call)
        for one in connection.tools:
            one.function.__dict__["brought_by"] = wiring.mark

    return Connection(
        wiring.target,
        listed=take,
        connect_timeout_s=wiring.timeout_s,
        mode=wiring.mode,
        sample=sample if wiring.sampling else None,
    )


def _with(there: tuple[Any, ...], tools: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*there, *(tool for tool in tools if tool not in there))


def _renewed(there: tuple[Any, ...], given: tuple[Any, ...], now: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tools of a step by the newest list: what others took away at the start of the run stays away."""
    by_name = {tool.name: tool for tool in now}
    known = {tool.name for tool in given}
    kept = [by_name.pop(tool.name, None) if tool in given else tool for tool in there]
    new = [tool for name, tool in by_name.items() if name not in known]
    names = {tool.name for tool in kept if tool is not None}
    return (*(tool for tool in kept if tool is not None), *(tool for tool in new if tool.name not in names))
