"""Serving an app until the process is asked to end, and ending in good order. The one file that knows uvicorn."""

import asyncio
import logging
import socket
from types import FrameType
from typing import Any

from interpose.errors import ConfigurationError

try:
    from uvicorn import Config, Server
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"serving needs {error.name}; install the extra: pip install 'interpose[server]'"
    ) from error

CUT_S = 5
"""How long connections may take to end when all runs have ended."""


class RunServer(Server):
    """A server that lets runs end before it closes connections, while those who ask for new ones are told to go."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(Config(app, timeout_graceful_shutdown=CUT_S, ws="none", server_header=False, **options))
        self._runs = app.state.runs

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second signal, of whichever kind, ends at once."""
        if self.should_exit:
            self.force_exit = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End runs, then connections, then the app."""
        ending = asyncio.ensure_future(self._runs.close())
        while not ending.done() and not self.force_exit:
            await asyncio.wait([ending], timeout=0.1)
        ending.cancel()
        if self.force_exit:  # each request that is cut would be told with a traceback
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at *host* and *port*, at a free port where that is 0.

    Raises:
        ConfigurationError: that cannot be; it says why.
    """
    if not 0 <= port <= 65535:
        raise ConfigurationError(
            f"cannot listen at port {port}: there are those from 1 to 65535, and 0 for any free one"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigurationError(
            f"host {host!r} is not known here ({error}); expected for instance 127.0.0.1"
        ) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(2048)
        sock.setblocking(False)
    except (OSError, OverflowError) as error:
        sock.close()
        raise ConfigurationError(
            f"cannot listen at port {port} of {host}: {error}; give another, or 0 for any that is free"
        ) from error
    return sock


def serve(app: Any, sock: socket.socket, *, log_level: str = "warning") -> None:
    """Serve *app* at *sock* until SIGINT or SIGTERM; a second one ends at once."""
    RunServer(app, log_level=log_level).run(sockets=[sock])
