"""What was seen of the latest runs, in bounded memory.

Events of one outermost run, those of its nested runs among them, have a `seq` from 0. Beside that everything that a
page may have to be told (an event, a changed run, a run that is gone) counts up one number, the cursor: a page that
says how far it got is told the rest.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from interpose.flow.runlog import RunLog
from interpose.flow.wire import Wire, wire_of
from interpose.info import Node
from interpose.text import to_json

MAX_STORED_BYTES = 12_000_000
"""For the packed bodies of all runs together; beyond it the oldest are given up, those of ended runs first."""
RECENT = 8_192
"""How many changes a page may be behind before it is told everything anew."""
GONE_KEPT = 4_096
"""How many ids of evicted runs are remembered, so that a late event does not bring one back."""

Change = tuple[str, RunLog, int]


class Runs(Protocol):
    """What a page is made from: runs that are going on, or stored ones."""

    boot: str
    """Tells this source from others: cursors of one mean nothing to another."""

    @property
    def total(self) -> int:
        """The cursor of the newest change."""
        ...

    def find(self, run: str, /) -> RunLog | None:
        """Return a run by its id."""
        ...

    def runs_json(self) -> bytes:
        """Return the summaries of the runs as a JSON list, newest first."""
        ...

    def snapshot(self) -> tuple["Frame", str | None]:
        """Return everything as a frame, and the id of the run that it tells whole."""
        ...

    def since(self, cursor: int, limit: int, without: str | None = None) -> tuple[list["Frame"], int] | None:
        """Return the frames after *cursor*, and the cursor after them."""
        ...


class Frame(NamedTuple):
    """One server-sent event: the cursor after it, its name and its data."""

    cursor: int
    name: str
    data: bytes


class History:
    """The latest *max_runs* runs, and any that are going on; never a running one is given up for another.

    `add` may be called from several threads at once. *on_change* is called after each change, in that thread.
    """

    def __init__(
        self,
        max_runs: int,
        on_change: Callable[[], None] = lambda: None,
        *,
        max_stored_bytes: int = MAX_STORED_BYTES,
    ) -> None:
        self.boot = os.urandom(4).hex()
        self.total = 0
        self._max_runs = max_runs
        self._on_change = on_change
        self._max_stored_bytes = max_stored_bytes
        self._runs: dict[str, RunLog] = {}
        self._homes: dict[str, RunLog] = {}
        self._gone: dict[str, None] = {}
        self._recent: deque[Change] = deque(maxlen=RECENT)
        self._stored_bytes = 0
        self._lock = threading.Lock()

    def add(self, node: Node | Mapping[str, Any]) -> None:
        """Take one event of a run's record."""
        wire = wire_of(node)
        with self._lock:
            log = self._home_of(wire)
            if log is None:
                return
            before = log.state
            size = log.stored_bytes
            seq = log.add(wire)
            self._stored_bytes += log.stored_bytes - size
            if seq is not None:
                self._changed("event", log, seq)
            if log.state != before:
                self._changed("run", log)
                self._evict()
            self._give_up_bodies()
        self._on_change()

    def settle(self) -> None:
        """Take the runs that are still going on for lost: nobody will tell of their end."""
        with self._lock:
            for log in self._runs.values():
                if log.status == "running":
                    log.lose()
                    self._changed("run", log)
            self._evict()
        self._on_change()

    def forget(self, run: str) -> None:
        """Give up a run, where it is there."""
        with self._lock:
            if log := self._runs.get(run):
                self._drop(log)
        self._on_change()

    def find(self, run: str) -> RunLog | None:
        """Return the run with this id, or the one in which the nested run with this id stands."""
        return self._runs.get(run) or self._homes.get(run)

    def current(self) -> RunLog | None:
        """Return the newest run that is going on, else the newest."""
        logs = self.newest()
        return next((log for log in logs if log.status == "running"), logs[0] if logs else None)

    def newest(self) -> list[RunLog]:
        """Return the runs, the one that was seen last first."""
        with self._lock:
            return list(reversed(self._runs.values()))

    def runs_json(self) -> bytes:
        """Return the summaries of the runs as a JSON list, newest first."""
        return b"[" + b",".join(to_json(log.summary()).encode() for log in self.newest()) + b"]"

    def snapshot(self) -> tuple[Frame, str | None]:
        """Return all runs and the events of the current one as a frame, and the id of that run."""
        current = self.current()
        with self._lock:
            cursor = self.total
            events = current.lights() if current else []
        runs = self.runs_json()  # may already know what comes after the cursor: it is only told twice
        run = current.id if current else None
        return snapshot_frame(cursor, runs, run, events), run

    def since(self, cursor: int, limit: int = 500, without: str | None = None) -> tuple[list[Frame], int] | None:
        """Return the frames of the next changes after *cursor*, *limit* at most, and the cursor after them.

        Events of the run *without* are left out. None where what changed is not known any more, or never was: the page
        has to be given a snapshot.
        """
        with self._lock:
            first = self.total - len(self._recent)
            if not first <= cursor <= self.total:
                return None
            upto = min(cursor + limit, self.total)
            changes = [(number + 1, self._recent[number - first]) for number in range(cursor, upto)]
            return [
                Frame(number, *_told(what, log, seq))
                for number, (what, log, seq) in changes
                if what != "event" or log.id != without
            ], upto

    def _home_of(self, wire: Wire) -> RunLog | None:
        """Return the log that the event belongs to; a new one for a run that is new, None for one that is gone."""
        head = wire.head
        run_id, parent_id = head["run_id"], head["parent_id"]
        log = self._runs.get(run_id) or self._homes.get(run_id)
        if log is not None or run_id in self._gone:
            return log
        if head["kind"] == "run" and parent_id is not None:
            log = next((one for one in self._runs.values() if parent_id in one.open), None)
            if log is not None:
                log.nested.add(run_id)
                self._homes[run_id] = log
                return log
        log = self._runs[run_id] = RunLog(run_id, wire)
        self._changed("run", log)
        self._evict()
        return log

    def _changed(self, what: str, log: RunLog, seq: int = 0) -> None:
        self._recent.append((what, log, seq))
        self.total += 1

    def _evict(self) -> None:
        """Give up the oldest ended runs, until there are no more than asked for, or all are going on."""
        surplus = len(self._runs) - self._max_runs
        if surplus > 0:
            ended = [log for log in self._runs.values() if log.status != "running"]
            for log in ended[:surplus]:
                self._drop(log)

    def _drop(self, log: RunLog) -> None:
        del self._runs[log.id]
        for run_id in (log.id, *log.nested):
            self._homes.pop(run_id, None)
            self._gone[run_id] = None
        while len(self._gone) > GONE_KEPT:
            del self._gone[next(iter(self._gone))]
        self._stored_bytes -= log.stored_bytes
        log.clear()
        self._changed("gone", log)

    def _give_up_bodies(self) -> None:
        while self._stored_bytes > self._max_stored_bytes:
            ended = (log for log in self._runs.values() if log.status != "running" and log.stored_bytes)
            log = next(ended, None) or next(one for one in self._runs.values() if one.stored_bytes)
            self._stored_bytes -= log.give_up(self._stored_bytes - self._max_stored_bytes)


def snapshot_frame(cursor: int, runs: bytes, run: str | None, events: Sequence[bytes]) -> Frame:
    """Return the frame that a page begins with: the list of runs as JSON, and the events of the one to show."""
    data = b'{"runs":' + runs + b',"current":' + to_json(run).encode() + b',"events":[' + b",".join(events) + b"]}"
    return Frame(cursor, "snapshot", data)


def _told(what: str, log: RunLog, seq: int) -> tuple[str, bytes]:
    if what == "event":
        found = log.lights(seq, seq + 1)
        return ("event", found[0]) if found else ("gone", to_json({"id": log.id}).encode())
    return what, to_json(log.summary() if what == "run" else {"id": log.id}).encode()
