"""Tools that ask to be alone."""

from __future__ import annotations

import asyncio


class Alone:
    """Lets a tool that asks to be alone run when no other of the step runs, and no other while it runs."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._running = 0
        self._taken = False

    def turn(self, alone: bool) -> _Turn:
        """Return a context manager for one execution."""
        return _Turn(self, alone)

    async def enter(self, alone: bool) -> None:
        """Wait for the turn of an execution."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._taken and (not alone or self._running == 0))
            self._running += 1
            self._taken = alone

    async def leave(self, alone: bool) -> None:
        """End it."""
        async with self._changed:
            self._running -= 1
            if alone:
                self._taken = False
            self._changed.notify_all()


class _Turn:
    __slots__ = ("_alone", "_owner")

    def __init__(self, owner: Alone, alone: bool) -> None:
        self._owner = owner
        self._alone = alone

    async def __aenter__(self) -> None:
        await self._owner.enter(self._alone)

    async def __aexit__(self, *_: object) -> None:
        await self._owner.leave(self._alone)
