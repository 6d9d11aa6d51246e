"""One node of the record while it is open, and what is said of how it ended."""

from __future__ import annotations

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from interpose._engine.signals import LimitHit, Rank, Signal
from interpose.errors import RunAborted
from interpose.request import Usage

if TYPE_CHECKING:
    from interpose._engine.provenance import Passed
    from interpose._engine.shown import Content

Kind = Literal["run", "step", "model", "tool"]
Outcome = Literal["finished", "interrupted", "aborted", "failed"]


class OpenNode(Struct, eq=False):  # not a class of Python's: made in C, at a tenth of the cost
    """A node while it is open, and what its end will tell; `meta` is what `ctx.meta` wrote on it."""

    kind: Kind
    name: str
    id: str
    parent_id: str | None
    step: int | None
    started_at: float
    started: float
    content: Content | None = None
    provider: str | None = None
    call_class: str | None = None
    tool_call_id: str | None = None
    resumed_from: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    usage: Usage | None = None
    attempts: int | None = None
    outcome: Outcome | None = None
    finish_reason: str | None = None
    failed: str | None = None
    failures: tuple[BaseException, ...] = ()
    superseded: int = 0
    made_by: str | None = None
    passed: tuple[Passed, ...] = ()


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
