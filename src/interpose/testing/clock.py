"""A clock that a test turns by hand."""

import asyncio
import heapq
import itertools
from collections.abc import Callable

from interpose.clock import Clock

SETTLE_TURNS = 50
"""How often the loop goes round after each timer, so that what was woken gets to its next wait."""


class _Alarm:
    """A ring that is due at some time."""

    def __init__(self, ring: Callable[[], object]) -> None:
        self.ring = ring
        self.cancelled = False

    def cancel(self) -> None:
        """Do not ring."""
        self.cancelled = True


class FakeClock(Clock):
    """Starts at 0.0 and stands still until `advance`; with *auto*, every sleep moves it on at once.

    `sleeps` lists every sleep that was asked for, in seconds.
    """

    def __init__(self, auto: bool = False) -> None:
        self.auto = auto
        self.sleeps: list[float] = []
        self._time = 0.0
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Return the time in seconds."""
        return self._time

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self._time

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced by *seconds*; with *auto*, advance it and let others run once."""
        self.sleeps.append(seconds)
        if self.auto:
            self._pass(self._time + max(seconds, 0.0))
        if self.auto or seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        alarm = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            alarm.cancel()

    def call_later(self, seconds: float, ring: Callable[[], object]) -> _Alarm:
        """Call *ring* on the running loop once the clock was advanced by *seconds*."""
        alarm = _Alarm(ring)
        heapq.heappush(self._alarms, (self._time + max(seconds, 0.0), next(self._order), alarm))
        return alarm

    async def advance(self, seconds: float) -> None:
        """Move on by *seconds*: what falls due rings in the order of time, and what that wakes runs before the next."""
        if seconds < 0:
            raise ValueError(f"a clock goes forwards only, got {seconds} seconds")
        end = self._time + seconds
        await _settle()
        while self._ring_next(end):
            await _settle()
        self._time = max(self._time, end)
        await _settle()

    def _pass(self, end: float) -> None:
        while self._ring_next(end):
            pass
        self._time = end

    def _ring_next(self, end: float) -> bool:
        """Ring the first alarm that is due by *end*, at its time; return whether there was one."""
        while self._alarms and self._alarms[0][0] <= end:
            due, _, alarm = heapq.heappop(self._alarms)
            if not alarm.cancelled:
                self._time = max(self._time, due)
                asyncio.get_running_loop().call_soon(alarm.ring)
                return True
        return False


async def _settle() -> None:
    for _ in range(SETTLE_TURNS):
        await asyncio.sleep(0)
