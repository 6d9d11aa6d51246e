"""Where events wait for their reader: a bounded buffer for a run that is read, a log for one that an agent owns."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from msgspec.structs import force_setattr

from interpose.events import Event

BUFFER_SIZE = 64
"""How many events a run may be ahead of its reader."""
HALF = BUFFER_SIZE // 2


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _numbered(event: Event, seq: int) -> Event:
    """Return *event* with its place in the run; a hook may have handed out one object twice."""
    if event.seq is not None:
        return event.replace(seq=seq)
    force_setattr(event, "seq", seq)
    return event


class Buffer:
    """Events of a run with one reader, who is its consumer; also its own reader.

    The producer appends and, when `len(items)` has reached `BUFFER_SIZE`, waits for room; no task switch an event.
    """

    __slots__ = ("closed", "discarding", "getter", "items", "last", "putter", "seq", "taken")

    def __init__(self) -> None:
        self.items: deque[Event] = deque()
        self.seq = 0
        self.getter: asyncio.Future[None] | None = None
        self.putter: asyncio.Future[None] | None = None
        self.discarding = False
        self.closed = False
        self.last = False
        self.taken: asyncio.Future[None] | None = None

    def append(self, event: Event) -> None:
        """Add *event*."""
        seq = self.seq
        self.seq = seq + 1
        if event.seq is None:
            force_setattr(event, "seq", seq)
        else:
            event = event.replace(seq=seq)
        if self.discarding:
            return
        self.items.append(event)
        if self.getter is not None:
            _wake(self.getter)
            self.getter = None

    async def room(self) -> None:
        """Wait until the reader has taken half of what waits."""
        while len(self.items) >= BUFFER_SIZE:
            self.putter = asyncio.get_running_loop().create_future()
            try:
                await self.putter
            finally:
                self.putter = None

    def take_back(self) -> None:
        """Take the last event back, if it is in and nobody has read it: the run ends otherwise after all."""
        if self.last and self.items:
            self.items.pop()
            self.seq -= 1
        self.last = False

    async def last_taken(self) -> None:
        """Say that the last event is in, and wait until the reader has taken it."""
        self.last = True
        if self.items and not self.discarding:
            self.taken = asyncio.get_running_loop().create_future()
            try:
                await self.taken
            finally:
                self.taken = None

    @property
    def read_out(self) -> bool:
        """Whether the reader has taken the last event."""
        return self.last and not self.items

    def close(self) -> None:
        """Say that the run is over: a reader who waits gets nothing more."""
        self.closed = True
        _wake(self.getter)

    def take(self) -> Event | None:
        """Return the next event, or None where there is none yet."""
        items = self.items
        if not items:
            return None
        event = items.popleft()
        if self.putter is not None and len(items) <= HALF:
            _wake(self.putter)
            self.putter = None
        if self.taken is not None and not items:
            _wake(self.taken)
        return event

    async def wait(self) -> Event | None:
        """Return the next event, or None where the run is over."""
        while not self.items:
            if self.closed:
                return None
            self.getter = asyncio.get_running_loop().create_future()
            try:
                await self.getter
            finally:
                self.getter = None
        return self.take()

    def discard(self) -> None:
        """Read on and throw away."""
        self.discarding = True
        self.items.clear()
        _wake(self.putter)
        _wake(self.taken)


class Log:
    """All events of a run that its agent owns; any number of readers, who come and go."""

    __slots__ = ("closed", "events", "last", "waiters")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.waiters: set[asyncio.Future[None]] = set()
        self.closed = False
        self.last = False

    items: tuple[Event, ...] = ()
    """Never full: nobody's reading holds the run up."""

    def append(self, event: Event) -> None:
        """Add *event*."""
        self.events.append(_numbered(event, len(self.events)))
        self._wake_all()

    def _wake_all(self) -> None:
        if self.waiters:
            for waiter in self.waiters:
                loop = waiter.get_loop()
                if loop is asyncio.get_running_loop():
                    _wake(waiter)
                else:
                    loop.call_soon_threadsafe(_wake, waiter)
            self.waiters.clear()

    def take_back(self) -> None:
        """Do nothing: a run that its agent owns is over when its last event is in."""

    async def room(self) -> None:
        """Return at once."""

    async def last_taken(self) -> None:
        """Return at once: the run is its agent's and waits for no reader."""
        self.last = True

    @property
    def read_out(self) -> bool:
        """Whether the last event is in."""
        return self.last

    def close(self) -> None:
        """Say that the run is over."""
        self.closed = True
        self._wake_all()

    def discard(self) -> None:
        """Do nothing: readers discard for themselves."""


class LogReader:
    """One reader of a `Log`, from the event after *after* on."""

    __slots__ = ("log", "next")

    def __init__(self, log: Log, after: int) -> None:
        self.log = log
        self.next = max(after + 1, 0)

    def take(self) -> Event | None:
        """Return the next event, or None where there is none yet."""
        if self.next >= len(self.log.events):
            return None
        self.next += 1
        return self.log.events[self.next - 1]

    async def wait(self) -> Event | None:
        """Return the next event, or None where the run is over."""
        while self.next >= len(self.log.events):
            if self.log.closed:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self.log.waiters.add(waiter)
            try:
                await waiter
            finally:
                self.log.waiters.discard(waiter)
        return self.take()

    def discard(self) -> None:
        """Skip what is there."""
        self.next = len(self.log.events)

    def close(self) -> None:
        """Read no more; the run goes on."""


AnyBuffer = Buffer | Log
Reader: Any = Buffer | LogReader
