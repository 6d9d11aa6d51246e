"""One client of the SDK an event loop, closed when that loop is shut down."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, Protocol, TypeVar

from interpose.prices import read_ahead


class Closable(Protocol):
    """A client that holds connections."""

    async def close(self) -> None:
        """Close the connections."""


ClientT = TypeVar("ClientT", bound=Closable)


class ClientPerLoop(Generic[ClientT]):
    """Clients made with *make* when they are first wanted, one for each running event loop.

    A connection belongs to the loop that opened it. Each client is held by an asynchronous generator, since those are
    what a loop closes when it is shut down (`asyncio.run` and `asyncio.Runner` do so): nobody has to close a model.
    """

    def __init__(self, make: Callable[[], ClientT]) -> None:
        self._make = make
        self._held: dict[asyncio.AbstractEventLoop, tuple[ClientT, AsyncGenerator[None, None]]] = {}

    async def get(self) -> ClientT:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is not None:
            return held[0]
        for closed in [other for other in tuple(self._held) if other.is_closed()]:
            self._held.pop(closed, None)  # one that was closed without being shut down
        read_ahead()
        client = self._make()
        lifetime = _lifetime(loop, client, self._held)
        self._held[loop] = (client, lifetime)
        await anext(lifetime)
        return client


async def _lifetime(
    loop: asyncio.AbstractEventLoop, client: Closable, held: dict[asyncio.AbstractEventLoop, Any]
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        held.pop(loop, None)
        await client.close()
