"""What steers a run from inside: outcomes as they are noted on the run and as they travel up.

An outcome, a reached limit, an abort or a cancellation is noted before it is raised, and holds: a layer that swallows
the exception changes nothing, since what was noted is looked at after each layer and in both cores.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class Rank(IntEnum):
    """Which of two endings that happen together is the run's."""

    END = 1
    PAUSE = 2
    LIMIT = 3
    ERROR = 4
    ABORT = 5
    CANCEL = 6


class Note:
    """One noted ending: *value* is the outcome, the `LimitHit`, the error or the reason."""

    __slots__ = ("rank", "value")

    def __init__(self, rank: Rank, value: Any) -> None:
        self.rank = rank
        self.value = value


class LimitHit:
    """A limit that was reached, and the run that owns it."""

    __slots__ = ("limit", "message", "run", "value")

    def __init__(self, run: Any, limit: str, value: Any, message: str | None = None) -> None:
        self.run = run
        self.limit = limit
        self.value = value
        self.message = message


class Signal(BaseException):
    """A noted ending on its way up; not an `Exception`, so that no layer's `except Exception` catches it."""

    def __init__(self, note: Note) -> None:
        super().__init__(note.rank.name)
        self.note = note


class PausedWithin(Signal):
    """A nested run that pauses, on its way up to the call that ran it: what it asks, and its *checkpoint*."""

    def __init__(self, note: Note, asked: tuple[Any, ...], checkpoint: Any) -> None:
        super().__init__(note)
        self.asked = asked
        self.checkpoint = checkpoint
