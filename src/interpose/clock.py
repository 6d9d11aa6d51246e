"""Time: one object that tells it, waits, and rings, so that tests can stand in for it."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """What `Clock.call_later` gives back."""

    def cancel(self) -> None:
        """Do not ring; harmless after it rang."""
        ...


class Clock:
    """The real clock. A clock of one's own overrides all four methods, as `interpose.testing.FakeClock` does."""

    def now(self) -> float:
        """Return the time in seconds since 1970, UTC."""
        return time.time()

    monotonic = staticmethod(time.perf_counter)
    """Return seconds that never go back, for durations; a method in clocks of one's own."""

    async def sleep(self, seconds: float) -> None:
        """Wait for *seconds*."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, ring: Callable[[], None]) -> Timer:
        """Call *ring* on the running loop after *seconds*, unless the returned timer is cancelled before."""
        return asyncio.get_running_loop().call_later(seconds, ring)


REAL_CLOCK = Clock()
