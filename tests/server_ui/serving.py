"""A real server with the chat page, on a free port, in the loop of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from uvicorn import Config, Server

from interpose import Agent
from interpose.server import create_app


class Served:
    """Where the page is, and a way to take the server away for a while."""

    def __init__(self, app: Any, port: int = 0) -> None:
        self.app = app
        self.port = port
        self._server: Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def up(self) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", self.port))
        self.port = sock.getsockname()[1]
        self._server = Server(
            Config(self.app, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=0, access_log=False)
        )
        self._task = asyncio.ensure_future(self._server._serve([sock]))
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def down(self) -> None:
        """Close the port and cut every connection; the runs of the app go on."""
        assert self._server is not None
        assert self._task is not None
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()  # type: ignore[union-attr]  # a protocol that is connected has one
        self._server.should_exit = self._server.force_exit = True
        await self._task


@asynccontextmanager
async def served(agents: Mapping[str, Agent[Any]], **options: Any) -> AsyncIterator[Served]:
    """Yield the server of *agents*, with its chat page."""
    server = Served(create_app(agents, ui=True, **options))
    await server.up()
    try:
        yield server
    finally:
        await server.down()
        for agent in agents.values():
            await agent.aclose()
