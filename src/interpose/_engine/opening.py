"""Opening and closing: a middleware is opened by the first agent that uses it and closed by the last."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from interpose._engine.ending import close_middleware
from interpose._engine.plan import Hook, call_hook, name_of
from interpose.errors import ConfigurationError

if TYPE_CHECKING:
    from interpose.middleware import Middleware


class Turn:
    """A lock for coroutines of any thread and event loop."""

    def __init__(self) -> None:
        self._busy = False
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._lock = threading.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait until nobody else has the turn, and have it."""
        while True:
            with self._lock:
                if not self._busy:
                    self._busy = True
                    break
                loop = asyncio.get_running_loop()
                waiter = loop.create_future()
                self._waiters.append((loop, waiter))
            await waiter
        try:
            yield
        finally:
            with self._lock:
                self._busy = False
                waiters, self._waiters = self._waiters, []
            for loop, waiter in waiters:
                loop.call_soon_threadsafe(_wake, waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Use:
    """By how many agents a middleware is used, and whose turn it is to open or close it."""

    def __init__(self, one: Middleware[Any], gone: Any) -> None:
        self.ref = weakref.ref(one, gone)
        self.agents = 0
        self.turn = Turn()


_uses: dict[int, Use] = {}
_uses_lock = threading.Lock()
_turns: ContextVar[tuple[Use, ...]] = ContextVar("_turns", default=())
"""The turns that what runs here has already: an `open` may run an agent with the same middleware."""


def use_of(one: Middleware[Any]) -> Use:
    """Return the use of *one*: by identity, and only while it lives."""
    key = id(one)
    with _uses_lock:
        use = _uses.get(key)
        if use is None or use.ref() is not one:
            use = _uses[key] = Use(one, lambda _: _uses.pop(key, None))
        return use


@asynccontextmanager
async def turn_of(one: Middleware[Any]) -> AsyncIterator[Use]:
    """Wait until no other agent opens or closes *one*."""
    use = use_of(one)
    if use in _turns.get():
        yield use
        return
    async with use.turn.taken():
        token = _turns.set((*_turns.get(), use))
        try:
            yield use
        finally:
            _turns.reset(token)


class Openings:
    """What one agent has opened. Works from several threads and loops at once."""

    def __init__(self) -> None:
        self.ready = False
        self.ran = False
        self.opened: list[Middleware[Any]] = []
        self.turn = Turn().taken

    async def open_all(self, middleware: Sequence[Middleware[Any]], agent: Any) -> None:
        """Open what is not open yet, in order."""
        for one in middleware:
            if not any(one is other for other in self.opened):
                await self.open_one(one, agent)

    async def open_one(self, one: Middleware[Any], agent: Any) -> None:
        """Open one middleware, unless another agent has it open.

        Raises:
            ConfigurationError: its `open` failed; that is the cause.
        """
        async with turn_of(one) as use:
            use.agents += 1
            if use.agents == 1:
                try:
                    await call_hook(Hook(one, "open", one.open), agent)
                except BaseException as error:
                    use.agents -= 1
                    if not isinstance(error, Exception):
                        raise
                    raise ConfigurationError(f"{name_of(one)} could not be opened: {error}") from error
        self.opened.append(one)

    async def close_all(self) -> None:
        """Close what was opened here, last first, where no other agent uses it; a second time does nothing."""
        opened, self.opened = self.opened, []
        self.ready = False
        for one in reversed(opened):
            async with turn_of(one) as use:
                use.agents -= 1
                if use.agents == 0:
                    await close_middleware(one)
