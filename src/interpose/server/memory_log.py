"""The events of served runs in memory, for agents whose store keeps none: of runs that ended, for a while."""

import time
import zlib
from collections import OrderedDict
from collections.abc import Sequence

from interpose.event_log import LoggedEvents, ServedRun, ServedThread

MAX_BYTES = 32_000_000
"""How much is kept of runs that ended, about, compressed; the oldest go first."""
RUN_BYTES = 1000
"""What a run takes beside the text of its events."""
MAX_THREADS = 10_000


class _Kept:
    __slots__ = ("ended_at", "lines", "packed", "run")

    def __init__(self, run: ServedRun) -> None:
        self.run = run
        self.lines: list[str] = []
        self.packed = b""
        self.ended_at = 0.0

    @property
    def size(self) -> int:
        return RUN_BYTES + len(self.packed)

    def pack(self) -> None:
        """Take little room from now on."""
        self.packed = zlib.compress("\n".join(self.lines).encode(), 1)
        self.lines = []

    def events(self) -> list[tuple[int, str]]:
        lines = zlib.decompress(self.packed).decode().split("\n") if self.packed else self.lines
        return list(enumerate(lines))


class MemoryEventLog:
    """Keeps events of one process."""

    is_shared = False

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._running: dict[str, _Kept] = {}
        self._ended: OrderedDict[str, _Kept] = OrderedDict()
        self._threads: OrderedDict[tuple[str, str, str], ServedThread] = OrderedDict()
        self._size = 0
        self._last = 0.0

    async def begin(self, run: ServedRun, /) -> bool:
        """Note that a run begins; False where there is one of this id."""
        if self._kept(run.run_id) is not None:
            return False
        now = self._last = max(time.time(), self._last + 0.000001)  # no two at once, or pages would not fit together
        self._running[run.run_id] = _Kept(run.replace(created_at=now))
        key = (run.agent, run.owner, run.thread_id)
        known = self._threads.pop(key, None)
        fresh = ServedThread(thread_id=run.thread_id, title=run.title, created_at=now, updated_at=now)
        self._threads[key] = fresh if known is None else known.replace(updated_at=now)
        while len(self._threads) > MAX_THREADS:
            self._threads.popitem(last=False)
        return True

    async def drop(self, run_id: str, /) -> None:
        """Forget a run that did not begin after all."""
        self._running.pop(run_id, None)

    async def append(self, logged: Sequence[LoggedEvents], /) -> None:
        """Append events, and note how their runs do."""
        for run_id, events, status in logged:
            kept = self._running.get(run_id)
            if kept is None:
                continue
            kept.lines.extend([data for seq, data in events if seq >= len(kept.lines)])
            if status != "running":
                del self._running[run_id]
                kept.run = kept.run.replace(status=status)
                kept.ended_at = time.monotonic()
                kept.pack()
                self._ended[run_id] = kept
                self._size += kept.size
                while self._size > self._max_bytes:
                    self._drop_first()

    async def read(self, run_id: str, after: int, limit: int, /) -> tuple[Sequence[tuple[int, str]], ServedRun | None]:
        """Return events, and the run as it was then."""
        kept = self._kept(run_id)
        if kept is None:
            return [], None
        return kept.events()[after + 1 : after + 1 + limit], kept.run

    async def find(self, run_id: str, /) -> ServedRun | None:
        """Return a run."""
        kept = self._kept(run_id)
        return None if kept is None else kept.run

    async def cancel(self, run_id: str, /) -> bool:  # noqa: ARG002  # runs of this process are stopped directly
        """Return False: there is no other worker to ask."""
        return False

    async def beat(self, worker: str, /) -> Sequence[str]:  # noqa: ARG002  # as above
        """Return nothing: there is no other worker that could ask."""
        return ()

    async def threads(self, agent: str, owner: str, limit: int, before: float | None, /) -> Sequence[ServedThread]:
        """Return an owner's threads with an agent, those used last first."""
        found: list[ServedThread] = []
        for (of_agent, of_owner, _), thread in reversed(self._threads.items()):
            if len(found) == limit:
                break
            if (of_agent, of_owner) == (agent, owner) and (before is None or thread.updated_at < before):
                found.append(thread)
        return found

    async def forget(self, older_s: float, /) -> None:
        """Forget runs that ended long ago."""
        oldest = time.monotonic() - older_s
        while self._ended and next(iter(self._ended.values())).ended_at <= oldest:
            self._drop_first()

    def _kept(self, run_id: str) -> _Kept | None:
        return self._running.get(run_id) or self._ended.get(run_id)

    def _drop_first(self) -> None:
        _, kept = self._ended.popitem(last=False)
        self._size -= kept.size
