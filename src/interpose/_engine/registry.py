"""The runs of one agent that are going on, and those of `start` that ended lately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.buffer import Log, LogReader

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose.result import RunResult

ENDED_RUNS_KEPT = 32
"""How many ended runs of `start` can still be attached to."""


class EndedRun:
    """What is left of a run that its agent owned: its events and its result."""

    def __init__(self, run: Run) -> None:
        self.run_id = run.run_id
        self.thread_id = run.thread_id
        self.buffer = run.buffer
        self._result = run.result
        self._failure = run.failure

    def reader(self, after: int) -> LogReader:
        """Return a reader of the run's events."""
        return LogReader(self.buffer, after)  # type: ignore[arg-type]  # runs of `start` have a log

    def abort(self, reason: str = "") -> None:
        """Do nothing: the run is over."""

    def raise_failure(self) -> None:
        """Raise what failed the run, if anything did."""
        if self._failure is not None:
            raise self._failure

    async def wait(self) -> RunResult:
        """Return the result, or raise what failed the run."""
        self.raise_failure()
        return self._result  # type: ignore[return-value]  # without a failure there is one


class Registry:
    """Runs by their ids, while there is something to read of them."""

    def __init__(self) -> None:
        self.runs: set[Run] = set()
        self._ended: dict[str, EndedRun] = {}

    def ended(self, run: Run) -> None:
        """Take account of the end of *run*."""
        self.runs.discard(run)
        if run.buffer.__class__ is Log:
            self._ended[run.run_id] = EndedRun(run)
            while len(self._ended) > ENDED_RUNS_KEPT:
                del self._ended[next(iter(self._ended))]

    def find(self, run_id: str) -> Any:
        """Return the run of `start` with this id.

        Raises:
            KeyError: there is none.
        """
        run = next((one for one in tuple(self.runs) if one.run_id == run_id), None) or self._ended.get(run_id)
        if run is None or run.buffer.__class__ is not Log:
            raise KeyError(f"no run {run_id!r} that was begun with start() is going on or has ended lately")
        return run
