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

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def up(self) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", self.port))
        self.port = sock.getsockname()[1]
        config = Config(self.app, ws="none", lifespan="off", log_config=None, access_log=False)
        config.load()
        self._server = Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup([sock])

    async def down(self) -> None:
        """Close the port and cut every connection; the runs of the app go on."""
        assert self._server is not None
        for one in self._server.servers:
            one.close()
        self.cut()
        while self._server.server_state.tasks:
            await asyncio.wait(set(self._server.server_state.tasks))

    def cut(self) -> None:
        """Cut every connection, and go on serving."""
        assert self._server is not None
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()


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
