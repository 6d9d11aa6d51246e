"""Server-sent events: what changes, told to each page that listens, as fast as it reads.

No page has a queue. Each has a cursor into what the history keeps anyway, so that a slow one costs nothing, a dead one
is left, and one that comes back says how far it got.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from interpose.flow.history import Frame, Runs

HEARTBEAT_S = 15.0
GATHER_S = 0.03
"""Between two chunks, so that a busy run is told in few of them."""
MAX_FRAMES = 500
RETRY = b"retry: 1000\n"
HEARTBEAT = b": still here\n\n"


class Bell:
    """Wakes those who wait in one loop; may be rung from any thread."""

    def __init__(self) -> None:
        self.is_closed = False
        self.listeners = 0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._event = asyncio.Event()
        self._is_rung = False

    def ring(self) -> None:
        """Wake all who wait now."""
        if not self.listeners or self._is_rung:
            return
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            self._is_rung = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the bell; without this nobody is taken to wait."""
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    def close(self) -> None:
        """Tell all who listen that there will be no more. To be called in the loop."""
        self.is_closed = True
        self._wake()

    async def wait(self, seconds: float) -> bool:
        """Wait for the next ring; False where there was none for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._is_rung = False
        self._event.set()
        self._event.clear()


async def changes(
    runs: Runs, bell: Bell, last_id: str | None, *, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """Yield a snapshot, then what changes, until the bell is closed.

    *last_id* is that of the last frame which the page got before its connection broke. The snapshot holds the current
    run whole; after it comes what was missed of the others. Until that is told, frames have no id: if the connection
    breaks again, the page still says how far it really got.
    """
    with bell.listening():
        known = cursor_of(runs, last_id)
        snapshot, run = runs.snapshot()
        cursor = snapshot.cursor
        yield RETRY + encoded(snapshot, runs if known is None else None)
        while known is not None and known < cursor:
            missed = runs.since(known, min(MAX_FRAMES, cursor - known), without=run)
            if missed is None:
                break
            frames, known = missed
            yield b"".join(encoded(frame, None) for frame in frames)
        if known is not None:
            yield _id_line(runs, cursor) + b"\n"  # no event, but from here on the page is whole
        while not bell.is_closed:
            if cursor == runs.total:
                if not await bell.wait(heartbeat_s):
                    yield HEARTBEAT
                continue
            found = runs.since(cursor, MAX_FRAMES)
            if found is None:
                snapshot, _ = runs.snapshot()
                cursor = snapshot.cursor
                yield encoded(snapshot, runs)
            else:
                frames, cursor = found
                yield b"".join(encoded(frame, runs) for frame in frames)
            await asyncio.sleep(GATHER_S)


def encoded(frame: Frame, runs: Runs | None) -> bytes:
    """Return one frame as it is sent; without *runs* it has no id, and the page keeps the one that it has."""
    number = b"" if runs is None else _id_line(runs, frame.cursor)
    return number + b"event: " + frame.name.encode() + b"\ndata: " + frame.data + b"\n\n"


def _id_line(runs: Runs, cursor: int) -> bytes:
    return f"id: {runs.boot}-{cursor}\n".encode()


def cursor_of(runs: Runs, last_id: str | None) -> int | None:
    """Return how far a page got; None for a new one, and for one that knew this app before it was started anew."""
    boot, _, number = (last_id or "").partition("-")
    return int(number) if boot == runs.boot and number.isdecimal() and number.isascii() else None
