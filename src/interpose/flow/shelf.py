"""Runs that were stored, in the place of a `History`: the same page shows them. One is read when it is looked at."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interpose.errors import InterposeError
from interpose.flow.history import Frame, snapshot_frame
from interpose.flow.runlog import RunLog
from interpose.flow.wire import wire_of
from interpose.text import to_json

OPEN_RUNS = 6
"""How many runs are kept in memory; others are read again."""
SUMMARY = ("thread_id", "status", "outcome", "finish_reason", "started_at", "duration_ms", "nodes", "steps", "usage")
logger = logging.getLogger("interpose")


class Shelf:
    """Stored runs: *list_runs* gives their summaries, newest first, and *read_nodes* the nodes of the run with an id.

    A node is a mapping with the fields of `Node`, and `in` and `out` in the place of `content`.
    """

    def __init__(
        self,
        list_runs: Callable[[], Sequence[Mapping[str, Any]]],
        read_nodes: Callable[[str], Sequence[Mapping[str, Any]]],
    ) -> None:
        self.boot = os.urandom(4).hex()
        self._list_runs = list_runs
        self._read_nodes = read_nodes
        self._summaries: dict[str, bytes] = {}
        self._changes: list[bytes] = []
        self._logs: dict[str, RunLog] = {}

    @property
    def total(self) -> int:
        """How many changes there were."""
        return len(self._changes)

    def refresh(self) -> bool:
        """Look for what was stored meanwhile, and return whether there was anything."""
        found = {str(run["id"]): to_json(_summary(run)).encode() for run in self._list_runs()}
        changed = [data for run, data in reversed(found.items()) if self._summaries.get(run) != data]
        for run in found:
            if self._summaries.get(run) != found[run]:
                self._logs.pop(run, None)
        self._summaries = found
        self._changes += changed
        return bool(changed)

    def find(self, run: str) -> RunLog | None:
        """Return the run with this id, where it is there and can be read."""
        if run not in self._summaries:
            return None
        log = self._logs.pop(run, None)
        if log is None:
            try:
                log = _log_of(run, self._read_nodes(run))
            except InterposeError as error:
                logger.warning("Flow: %s", error)
                return None
        self._logs[run] = log
        while len(self._logs) > OPEN_RUNS:
            del self._logs[next(iter(self._logs))]
        return log

    def runs_json(self) -> bytes:
        """Return the summaries of the runs as a JSON list, newest first."""
        return b"[" + b",".join(self._summaries.values()) + b"]"

    def snapshot(self) -> tuple[Frame, str | None]:
        """Return all runs and the events of the newest as a frame, and the id of that run."""
        newest = next(iter(self._summaries), None)
        log = self.find(newest) if newest is not None else None
        return snapshot_frame(self.total, self.runs_json(), newest, log.lights() if log else []), newest

    def since(self, cursor: int, limit: int = 500, without: str | None = None) -> tuple[list[Frame], int] | None:
        """Return the frames of what changed after *cursor*, and the cursor after them; None where that never was."""
        del without  # stored runs do not go on, so no events are told
        if not 0 <= cursor <= self.total:
            return None
        changes = self._changes[cursor : cursor + limit]
        frames = [Frame(number, "run", data) for number, data in enumerate(changes, cursor + 1)]
        return frames, cursor + len(frames)


def _summary(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a list of runs says; how many events there are shows once the run is read."""
    given = {name: run.get(name) for name in SUMMARY}
    ended = given["status"] is not None
    more = {"status": given["status"] or "error", "outcome": given["outcome"] if ended else "lost"}
    return {"id": run["id"], "name": run.get("name", ""), **given, **more} | {
        "usage": given["usage"] or {},
        "started_at": given["started_at"] or 0,
        "nodes": given["nodes"] or 0,
        "errors": run.get("errors") or 0,
        "left_out": 0,
        "events": 0,
    }


def _log_of(run: str, nodes: Sequence[Mapping[str, Any]]) -> RunLog:
    wires = [wire_of(_event(node)) for node in nodes]
    if not wires:
        raise InterposeError(f"the report of run {run!r} has no nodes")
    log = RunLog(run, wires[0])
    for wire in wires:
        log.add(wire)
    if log.status == "running":
        log.lose()
    return log


def _event(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored node as the event that ends it; as its start where no end was seen."""
    content = {name: node[name] for name in ("in", "out") if name in node}
    return {**node, "phase": "end" if node.get("status") else "start", "content": content or None}
