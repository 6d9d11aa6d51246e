"""Opening and closing: a middleware is opened by the first agent that uses it and closed by the last."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interpose._engine.ending import close_middleware
from interpose._engine.plan import Hook, call_hook, name_of
from interpose.errors import ConfigurationError

if TYPE_CHECKING:
    from interpose.middleware import Middleware

_users: dict[int, tuple[weakref.ref[Any], int]] = {}
_users_lock = threading.Lock()


def _count(one: Middleware[Any], change: int) -> int:
    """Change by how many agents *one* is used, and return it; by identity, and only while it lives."""
    key = id(one)
    with _users_lock:
        ref, users = _users.get(key, (None, 0))
        if ref is None or ref() is not one:
            ref, users = weakref.ref(one, lambda _: _users.pop(key, None)), 0
        users += change
        if users > 0:
            _users[key] = (ref, users)
        else:
            _users.pop(key, None)
        return users


class Openings:
    """What one agent has opened. Works from several threads and loops at once."""

    def __init__(self) -> None:
        self.ready = False
        self.ran = False
        self.opened: list[Middleware[Any]] = []
        self._busy = False
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._lock = threading.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until nobody else opens, in any thread."""
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
        if _count(one, 1) == 1:
            try:
                await call_hook(Hook(one, "open", one.open), agent)
            except BaseException as error:
                _count(one, -1)
                if not isinstance(error, Exception):
                    raise
                raise ConfigurationError(f"{name_of(one)} could not be opened: {error}") from error
        self.opened.append(one)

    async def close_all(self) -> None:
        """Close what was opened here, last first, where no other agent uses it; a second time does nothing."""
        opened, self.opened = self.opened, []
        self.ready = False
        for one in reversed(opened):
            if _count(one, -1) == 0:
                await close_middleware(one)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
