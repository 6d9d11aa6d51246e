"""The page of one history, listening: socket, site and bell together."""

from __future__ import annotations

import asyncio

from interpose.flow.history import Runs
from interpose.flow.serving import Serving, bind
from interpose.flow.site import site
from interpose.flow.stream import Bell


class FlowServer:
    """Serves a history until `close`. Belongs to the loop in which it was started; `close` and `ring` to any."""

    def __init__(self, serving: Serving, bell: Bell) -> None:
        self._serving = serving
        self._bell = bell
        self.port = serving.port

    @classmethod
    async def start(
        cls, runs: Runs, *, host: str, port: int, token: str | None = None, stored: str | None = None
    ) -> FlowServer:
        """Listen at *host* and *port* and return the server.

        Raises:
            ConfigurationError: the port is in use or may not be used, or the host is not known.
        """
        bell = Bell()
        app = site(runs, bell, host=host, token=token, stored=stored)
        return cls(await Serving.start(app, bind(host, port)), bell)

    @property
    def is_alive(self) -> bool:
        """Whether pages are answered, as far as can be seen from here."""
        return self._serving.is_alive

    def ring(self) -> None:
        """Tell the pages that there is something new."""
        self._bell.ring()

    async def close(self) -> None:
        """Let the pages hear that it is over, and give the port free."""
        if asyncio.get_running_loop() is self._serving.loop:
            self._bell.close()
        elif self._serving.loop.is_running():
            self._serving.loop.call_soon_threadsafe(self._bell.close)
        await self._serving.close()

    def drop(self) -> None:
        """Give the port free at once."""
        self._serving.drop()
