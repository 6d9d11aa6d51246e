"""Deadlines: a time limit on one piece of work, by the agent's clock, that is told apart from a cancellation."""

from __future__ import annotations

from asyncio import CancelledError, Task, current_task
from types import TracebackType

from interpose.clock import Clock, Timer


class Expired(TimeoutError):
    """A deadline has passed; a `TimeoutError` of the work itself is another."""


class Deadline:
    """Cancels what runs inside `with` after *seconds* and raises `Expired` then; no limit where that is None.

    What the work gives after that, because it swallowed the cancellation, is thrown away.
    """

    __slots__ = ("before", "clock", "fired", "restarted", "seconds", "task", "timer")

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self.clock = clock
        self.seconds = seconds
        self.timer: Timer | None = None
        self.fired = self.restarted = False
        self.task: Task[object] | None = None
        self.before = 0

    def _ring(self) -> None:
        self.fired = True
        if self.task is not None:
            self.task.cancel()

    def restart(self) -> None:
        """Begin to count anew."""
        self.restarted = True
        if self.timer is not None and self.seconds is not None and not self.fired:
            self.timer.cancel()
            self.timer = self.clock.call_later(self.seconds, self._ring)

    def __enter__(self) -> Deadline:
        if self.seconds is not None:
            self.task = current_task()
            self.before = self.task.cancelling() if self.task is not None else 0
            self.timer = self.clock.call_later(self.seconds, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.timer is None:
            return
        self.timer.cancel()
        self.timer = None
        task, self.task = self.task, None
        mine = self.fired and task is not None and task.uncancel() <= self.before
        if mine and (error is None or isinstance(error, CancelledError)):
            raise Expired from error
