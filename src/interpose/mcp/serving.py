"""Serving agents to MCP clients: over stdin and stdout, or as a streamable-HTTP endpoint."""

from __future__ import annotations

import asyncio
import hmac
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, redirect_stdout
from typing import Any

from uvicorn import Config, Server

from interpose.agent import Agent
from interpose.errors import ConfigurationError
from interpose.mcp.offering_agents import agent_server, named
from interpose.mcp.sdk import stdio_server
from interpose.mcp.stdin import StdinLines, taken_stdin

Agents = Agent[Any] | Sequence[Agent[Any]] | Mapping[str, Agent[Any]]
PATH = "/mcp"
CLOSE_S = 2
"""How long open answers are given to end when the server goes."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def serve_stdio(agents: Agents, **options: Any) -> None:
    """Serve one client over stdin and stdout until it closes stdin. Takes the options of `agent_server`.

    What the agents print goes to stderr meanwhile.
    """
    server = agent_server(agents, **options)
    with taken_stdin() as fd:
        lines: Any = StdinLines(fd)
        async with stdio_server(stdin=lines) as (read, write), _opened(agents):
            with redirect_stdout(sys.stderr):  # what stands in its buffer at the end must not reach the client either
                await server.run(read, write, server.create_initialization_options())


async def serve_http(
    agents: Agents,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    started: Callable[[str], None] | None = None,
    **options: Any,
) -> None:
    """Serve any number of clients at `http://host:port/mcp` until it is cancelled; *started* is told the address.

    With a *token*, a client has to send `Authorization: Bearer <token>`; other hosts than this one are served only so.

    Raises:
        ConfigurationError: the port is in use, or others may reach the server and there is no token.
    """
    if host not in LOOPBACK and not token:
        raise ConfigurationError(f"whoever reaches {host} could run the agents: give token='...', or serve 127.0.0.1")
    server = agent_server(agents, **options)
    app: Any = server.streamable_http_app(streamable_http_path=PATH, host=host)
    if token:
        app = Guarded(app, token)
    async with _opened(agents):
        await _listen(app, host, port, started)


async def _listen(app: Any, host: str, port: int, started: Callable[[str], None] | None) -> None:
    sock = _bind(host, port)
    server = QuietServer(Config(app, log_config=None, ws="none", timeout_graceful_shutdown=CLOSE_S))
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        if started is not None:
            started(f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}{PATH}")
        await asyncio.shield(task)
    finally:
        server.should_exit = True
        await asyncio.wait([task])
        sock.close()


class QuietServer(Server):
    """Leaves signals to whoever runs the loop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound.

    Raises:
        ConfigurationError: the port is in use or may not be used, or the host is not known.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(2048)
    except (OSError, OverflowError) as error:
        sock.close()
        raise ConfigurationError(f"{host}:{port} cannot be served ({error}); choose another port or host") from error
    return sock


class Guarded:
    """An app that answers only those who know the token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 401, or hand the request on."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"a bearer token is needed"})
                return
        await self._app(scope, receive, send)


@asynccontextmanager
async def _opened(agents: Agents) -> AsyncIterator[None]:
    """Close the agents at the end; runs in flight are aborted then."""
    async with AsyncExitStack() as stack:
        for agent in named(agents).values():
            await stack.enter_async_context(agent)
        yield
