"""One node of the record while it is open, and what is said of how it ended."""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Literal

from interpose._engine.signals import LimitHit, Rank, Signal
from interpose.errors import RunAborted
from interpose.ids import create_id
from interpose.info import Later
from interpose.request import Usage

if TYPE_CHECKING:
    from interpose._engine.provenance import Passed
    from interpose.clock import Clock

Kind = Literal["run", "step", "model", "tool"]
Outcome = Literal["finished", "interrupted", "aborted", "failed"]


class OpenNode:
    """A node while it is open, and what its end will tell; `meta` is what `ctx.meta` wrote on it."""

    __slots__ = (
        "attempts",
        "call_class",
        "failed",
        "failures",
        "finish_reason",
        "id",
        "kind",
        "made_by",
        "meta",
        "name",
        "out",
        "outcome",
        "parent_id",
        "passed",
        "provider",
        "shown",
        "started",
        "started_at",
        "step",
        "superseded",
        "tool_call_id",
        "usage",
    )

    def __init__(self, kind: Kind, name: str, parent_id: str | None, step: int | None, clock: Clock) -> None:
        self.kind: Kind = kind
        self.name = name
        self.id = create_id(kind)
        self.parent_id = parent_id
        self.step = step
        self.started_at = clock.now()
        self.started = clock.monotonic()
        self.meta: dict[str, Any] = {}
        self.passed: tuple[Passed, ...] = ()
        self.failures: tuple[BaseException, ...] = ()
        self.superseded = 0
        self.attempts: int | None = None
        self.usage: Usage | None = None
        self.outcome: Outcome | None = None
        self.failed = self.shown = self.out = None  # type: Any
        self.provider = self.call_class = self.tool_call_id = self.finish_reason = self.made_by = None  # type: str | None


def started(given: Later | None) -> dict[str, Any]:
    """Return the content of the start of a node."""
    return {"in": given and given()}


def ended(given: Later | None, out: Later | None) -> dict[str, Any]:
    """Return the content of its end."""
    return {"in": given and given(), "out": out and out()}


def ending(error: BaseException | None) -> tuple[str | None, Outcome]:
    """Return what *error* says, None where it is none, and how what it ended came out."""
    if error is None:
        return None, "finished"
    if isinstance(error, Signal):
        rank, value = error.note.rank, error.note.value
        if rank is Rank.END:
            return None, "finished"
        if rank is Rank.PAUSE:
            return None, "interrupted"
        if isinstance(value, LimitHit):
            return f"LimitExceeded: {value.message or f'{value.limit}={value.value} is reached'}", "failed"
        if rank is Rank.ERROR:
            return named(value), "failed"
        return f"aborted: {value}" if value else "aborted", "aborted"
    return named(error), "aborted" if isinstance(error, RunAborted | CancelledError) else "failed"


def named(error: BaseException) -> str:
    """Return the kind of *error* and what it says."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
