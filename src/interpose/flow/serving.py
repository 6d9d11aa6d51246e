"""An HTTP server in the loop of the app: uvicorn's protocol on a socket of ours. The one file that knows uvicorn.

uvicorn's own way to serve takes over signal handlers and loggers, and ends the process where a port is busy; here it
may do none of that, since the app is somebody else's.
"""

import asyncio
import errno
import logging
import os
import socket
import sys
from contextlib import suppress
from contextvars import Context
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from interpose.errors import ConfigurationError

CLOSE_S = 1.0
"""How long pages that are open are given to hear that the server goes."""


class _WithoutCuts(logging.Logger):
    """Passes on what uvicorn says, but for requests that were cut: a loop that ends cuts those that are open."""

    def handle(self, record: logging.LogRecord) -> None:
        """Hand *record* to the log of the app."""
        if not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)):
            logging.getLogger(self.name).handle(record)


class QuietProtocol(H11Protocol):
    """Does not write requests into the access log of an app that is served by uvicorn itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.access_log = False
        self.logger = _WithoutCuts("uvicorn.error", logging.WARNING)


class Serving:
    """A server that goes on until `close`, or until its loop ends."""

    def __init__(self, app: Any, sock: socket.socket) -> None:
        self.loop = asyncio.get_running_loop()
        self.port: int = sock.getsockname()[1]
        self._sock = sock
        self._ended = False
        self._server = Server(
            Config(
                app,
                http=QuietProtocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                proxy_headers=False,
                server_header=False,
                date_header=False,
            )
        )
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, app: Any, sock: socket.socket) -> "Serving":
        """Return a server of *app* that listens at *sock*, which is its own from now on."""
        serving = cls(app, sock)
        ready = serving.loop.create_future()
        # The context of whoever opened it (a run, perhaps) is not that of the requests.
        serving._task = serving.loop.create_task(serving._serve(ready), context=Context())
        try:
            await asyncio.shield(ready)
        except BaseException:  # whoever waits was cancelled, or it failed
            serving._task.cancel()
            raise
        return serving

    @property
    def is_alive(self) -> bool:
        """Whether requests are answered, as far as can be seen from here."""
        return not self._ended and not self.loop.is_closed()

    async def close(self) -> None:
        """Stop listening, let open answers end, and cut those that do not. May be called in another loop."""
        if asyncio.get_running_loop() is self.loop:
            await self._close()
        elif self.loop.is_running():
            with suppress(asyncio.CancelledError, RuntimeError):  # that loop may end meanwhile, which closes too
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._close(), self.loop))
        else:
            self.drop()

    def drop(self) -> None:
        """Give the port free at once; what is open is cut."""
        self._ended = True
        for server in getattr(self._server, "servers", ()):
            with suppress(RuntimeError):  # its loop is closed
                server.close()
        self._sock.close()
        for connection in tuple(self._server.server_state.connections):
            with suppress(RuntimeError):
                connection.transport.abort()

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        try:
            config = self._server.config
            config.load()
            self._server.lifespan = config.lifespan_class(config)
            await self._server.startup(sockets=[self._sock])
            ready.set_result(None)
            await asyncio.Event().wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            else:
                raise
        finally:
            self.drop()

    async def _close(self) -> None:
        self._ended = True
        for server in self._server.servers:
            server.close()
        for connection in tuple(self._server.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while self._server.server_state.connections:  # noqa: ASYNC110  # nobody tells when the last one goes
                    await asyncio.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.sleep(0)  # for the transports that were cut


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to *host* and *port*; to a free port where that is 0.

    Raises:
        ConfigurationError: that cannot be; it says what to do.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigurationError(
            f"host {host!r} is not known here ({error}); expected for instance 127.0.0.1"
        ) from error
    found.sort(key=lambda info: info[0] != socket.AF_INET)  # browsers try that of "localhost" too
    family, _, _, _, address = found[0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix" and sys.platform != "cygwin":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConfigurationError(_why_not(host, port, error)) from error
    return sock


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use; give another port ({port + 1 if port < 65535 else 4100}, or 0 for any "
            "that is free), or end the program that listens there"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {host} may not be used by this user; give a port above 1023, for instance 4100"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"host {host!r} is not an address of this machine; expected for instance 127.0.0.1"
    return f"cannot listen at port {port} on {host}: {error}"
