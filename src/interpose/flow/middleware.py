"""`Flow`: the middleware that collects what runs do, and serves the page that shows it."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import interpose.redaction  # noqa: F401  # its expressions take 40 ms to make: now, rather than in the first run
from interpose.errors import ConfigurationError
from interpose.flow.guard import WILDCARDS
from interpose.flow.history import History
from interpose.middleware import Middleware

if TYPE_CHECKING:
    from interpose.agent import Agent
    from interpose.context import RunContext
    from interpose.flow.server import FlowServer
    from interpose.info import Node

NEEDED = ("starlette", "uvicorn")
logger = logging.getLogger("interpose")


class Flow(Middleware[Any]):
    """A live local page of what runs do, at `http://127.0.0.1:4100/`; it only looks on.

    It keeps the latest *max_runs* runs, and never gives up one that is going on. One object may serve several agents.
    The page is served by the app's own event loop from `open` to `close`. Where it cannot be (the port is in use), the
    log says so once, runs go on, and each new run tries again. With *token*, who looks must know it: the page is
    opened once as `/?token=…`. Needs the extra: `pip install 'interpose[flow]'`.

    Raises:
        ConfigurationError: an argument is of the wrong kind, or the extra is not installed.
    """

    def __init__(
        self, port: int = 4100, host: str = "127.0.0.1", max_runs: int = 20, *, token: str | None = None
    ) -> None:
        _check(port, host, max_runs, token)
        self._wanted_port = port
        self._host = host
        self._token = token
        self._history = History(max_runs, self._ring)
        self._server: FlowServer | None = None
        self._users = 0
        self._is_starting = False
        self._said: set[str] = set()
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port that the page is served at; the one asked for, while it is not."""
        server = self._server
        return server.port if server is not None else self._wanted_port

    @property
    def url(self) -> str:
        """The address of the page, without the token."""
        return page_url(self._host, self.port)

    @property
    def is_serving(self) -> bool:
        """Whether the page can be opened now."""
        return self._server is not None and self._server.is_alive

    async def open(self, agent: Agent[Any]) -> None:  # noqa: ARG002  # the page is the same for all agents
        """Serve the page, unless this object does already."""
        with self._lock:
            self._users += 1
        try:
            await self._serve()
        except BaseException:  # cancelled: nobody will close what was not opened
            with self._lock:
                self._users -= 1
            raise

    async def close(self) -> None:
        """Stop serving, where nobody else uses this object. What was seen is kept for the next `open`."""
        with self._lock:
            self._users = max(0, self._users - 1)
        if not self._users:
            await self._stop()

    def on_node(self, ctx: RunContext[Any], node: Node) -> Awaitable[None] | None:  # noqa: ARG002  # the node says all
        """Keep the event, and tell the pages."""
        try:
            self._history.add(node)
        except Exception as error:
            self._say_once("a node could not be kept", error)
        if node.kind == "run" and node.phase == "start" and self._users and not self.is_serving:
            return self._serve()  # the port was busy, or the loop that served is over
        return None

    async def _serve(self) -> None:
        with self._lock:
            if self._is_starting or self.is_serving:
                return
            self._is_starting = True
            old, self._server = self._server, None
        try:
            if old is not None:
                old.drop()
            from interpose.flow.server import FlowServer

            self._server = await FlowServer.start(
                self._history, host=self._host, port=self._wanted_port, token=self._token
            )
            logger.info("Flow: %s", self.url)
            if not self._users:  # closed meanwhile
                await self._stop()
        except Exception as error:
            self._say_once("the page cannot be served; runs go on without it", error)
        finally:
            self._is_starting = False

    async def _stop(self) -> None:
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            self._history.settle()
            await server.close()

    def _ring(self) -> None:
        server = self._server
        if server is not None:
            server.ring()

    def _say_once(self, what: str, error: Exception) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.error("Flow: %s: %s", what, error, exc_info=None if isinstance(error, ConfigurationError) else error)


def page_url(host: str, port: int) -> str:
    """Return the address at which a browser on this machine finds what listens at *host* and *port*."""
    name = "127.0.0.1" if host in WILDCARDS else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"


def _check(port: Any, host: Any, max_runs: Any, token: Any) -> None:
    """Refuse arguments of the wrong kind, and say where a page would be open to a whole network."""
    if type(port) is not int or not 0 <= port <= 65535:
        raise ConfigurationError(f"Flow(port={port!r}): expected a whole number from 0 (any free port) to 65535")
    if not isinstance(host, str) or host != host.strip():
        raise ConfigurationError(f"Flow(host={host!r}): expected the name or address to listen at, as in '127.0.0.1'")
    if type(max_runs) is not int or max_runs < 1:
        raise ConfigurationError(f"Flow(max_runs={max_runs!r}): expected how many runs to keep, 1 or more")
    if token is not None and (
        not isinstance(token, str) or not token or not token.isascii() or not token.isprintable()
    ):
        raise ConfigurationError("Flow(token=...): expected a text of plain letters, or None for no token")
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"Flow needs {' and '.join(missing)}; install the extra: pip install 'interpose[flow]'"
        )
    if token is None and not _is_loopback(host):
        logger.warning("Flow(host=%r) without a token: whoever reaches this machine can read all runs", host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
