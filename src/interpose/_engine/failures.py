"""Which of the failures of several tool calls counts, and against what was noted."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from typing import TYPE_CHECKING

from interpose._engine.signals import Note, Rank
from interpose.outcomes import Pause

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose._engine.tool_phase import ToolPass


def pause_instead(run: Run, passes: list[ToolPass]) -> None:
    """Pause a run that is to end, where a call of the same step waits for a person: a pause is the stronger."""
    asked = [question for one in passes for question in one.asked]
    if asked:
        run.asked = (*run.asked, *asked)
        run.note(Rank.PAUSE, Pause(asked[0].reason))


def first_failure(tasks: list[asyncio.Task[None]]) -> BaseException | None:
    """Return what the first failed call raised; an error of a tool comes before a cancellation."""
    found: BaseException | None = None
    for task in tasks:
        if not task.done():
            continue
        if task.cancelled():
            found = found or CancelledError()
        elif (error := task.exception()) is not None:
            return error
    return found


def worst(tasks: list[asyncio.Task[None]], failure: BaseException) -> BaseException:
    """Return the failure that counts: an error, also one on the way out of a cancelled call, before anything else."""
    if isinstance(failure, Exception):
        return failure
    for task in tasks:
        if task.done() and not task.cancelled() and isinstance(error := task.exception(), Exception):
            return error
    return failure


def outranks(error: BaseException, noted: Note) -> bool:
    """Whether *error* is the run's ending rather than what was *noted*."""
    return isinstance(error, Exception) and noted.rank < Rank.ERROR
