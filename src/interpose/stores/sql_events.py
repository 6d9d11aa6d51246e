"""The events of served runs in a database."""

from collections.abc import Sequence
from typing import Any, Protocol

from interpose.event_log import LoggedEvents, ServedRun, ServedThread
from interpose.stores.operations import ALL, Many, Operation
from interpose.stores.schema import Steps

ADD = """INSERT INTO interpose_served (run_id, agent, owner, thread_id, title, worker, status, created_at, heard_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, {now}, {now}) ON CONFLICT DO NOTHING"""
ADD_THREAD = """INSERT INTO interpose_served_threads
    SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), t.now, t.now
    FROM (SELECT CASE WHEN max(updated_at) >= {now} THEN max(updated_at) + 0.000001 ELSE {now} END AS now
        FROM interpose_served_threads WHERE agent = ? AND owner = ?) AS t WHERE true
    ON CONFLICT (agent, owner, thread_id) DO UPDATE SET updated_at = excluded.updated_at"""
"""No two threads of an owner have one time, or pages of them would not fit together."""
ADD_EVENT = """INSERT INTO interpose_events SELECT CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT)
    WHERE EXISTS (SELECT 1 FROM interpose_served WHERE run_id = ? AND status = 'running') ON CONFLICT DO NOTHING"""
ENDED = "UPDATE interpose_served SET status = ?, heard_at = {now} WHERE run_id = ? AND status = 'running'"
EVENTS = "SELECT seq, data FROM interpose_events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
FIND = """SELECT run_id, agent, owner, thread_id, title, worker, status, created_at, {now} - heard_at
    FROM interpose_served WHERE run_id = ?"""
CANCEL = "UPDATE interpose_served SET is_cancelled = 1 WHERE run_id = ? AND status = 'running'"
BEAT = "UPDATE interpose_served SET heard_at = {now} WHERE worker = ? AND status = 'running'"
CANCELLED = "SELECT run_id FROM interpose_served WHERE worker = ? AND status = 'running' AND is_cancelled = 1"
THREADS = """SELECT thread_id, title, created_at, updated_at FROM interpose_served_threads
    WHERE agent = ? AND owner = ? AND updated_at < ? ORDER BY updated_at DESC LIMIT ?"""
DROP = "DELETE FROM interpose_served WHERE run_id = ?"
FORGET = """DELETE FROM interpose_served
    WHERE heard_at < {now} - ? AND (status <> 'running' OR heard_at < {now} - 86400)"""


SHORT_CHARS = 500_000
"""Events of up to this length together are a short write. It may be one of many rows, which a thread does far slower:
each row would wait until the event loop lets go of the interpreter."""


class Driver(Protocol):
    """Runs operations on one database."""

    async def run(self, operation: Operation, /) -> Any:
        """Run one operation in one transaction, and return what it returns."""
        ...


class SQLEventLog:
    """Keeps events in the tables of a store's database."""

    is_shared = True

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def begin(self, run: ServedRun, /) -> bool:
        """Note that a run begins; False where there is one of this id."""
        return bool(await self._driver.run(Operation(lambda: _begin(run), is_short=True)))

    async def drop(self, run_id: str, /) -> None:
        """Forget a run that did not begin after all."""
        await self._driver.run(Operation(lambda: _one(DROP, (run_id,)), is_one=True))

    async def append(self, logged: Sequence[LoggedEvents], /) -> None:
        """Append events, and note how their runs do."""
        rows = [(one.run_id, seq, data, one.run_id) for one in logged for seq, data in one.events]
        ended = [(one.status, one.run_id) for one in logged if one.status != "running"]
        is_short = sum([len(row[2]) for row in rows]) < SHORT_CHARS
        await self._driver.run(Operation(lambda: _append(rows, ended), is_short=is_short))

    async def read(self, run_id: str, after: int, limit: int, /) -> tuple[Sequence[tuple[int, str]], ServedRun | None]:
        """Return events, and the run as it was then."""
        found: tuple[Sequence[tuple[int, str]], ServedRun | None]
        found = await self._driver.run(Operation(lambda: _read(run_id, after, limit), writes=False))
        return found

    async def find(self, run_id: str, /) -> ServedRun | None:
        """Return a run."""
        return (await self.read(run_id, ALL, 0))[1]

    async def cancel(self, run_id: str, /) -> bool:
        """Ask the worker of a run to stop it."""
        return bool(await self._driver.run(Operation(lambda: _one(CANCEL, (run_id,)), is_one=True)))

    async def beat(self, worker: str, /) -> Sequence[str]:
        """Note that a worker lives, and return which of its runs are to be stopped."""
        found: Sequence[str] = await self._driver.run(Operation(lambda: _beat(worker), is_short=True))
        return found

    async def threads(self, agent: str, owner: str, limit: int, before: float | None, /) -> Sequence[ServedThread]:
        """Return an owner's threads with an agent, those used last first."""
        given = (agent, owner, 1e12 if before is None else before, limit)
        rows = await self._driver.run(Operation(lambda: _one(THREADS, given), writes=False, is_one=True))
        return [ServedThread(thread_id=id, title=title, created_at=at, updated_at=last) for id, title, at, last in rows]

    async def forget(self, older_s: float, /) -> None:
        """Forget runs that ended long ago, and those whose worker died a day ago."""
        await self._driver.run(Operation(lambda: _one(FORGET, (older_s,))))


def _one(sql: str, given: Sequence[Any]) -> Steps:
    return (yield sql, given)


def _begin(run: ServedRun) -> Steps:
    given = (run.run_id, run.agent, run.owner, run.thread_id, run.title, run.worker, run.status)
    if not (yield ADD, given):
        return False
    yield ADD_THREAD, (run.agent, run.owner, run.thread_id, run.title, run.agent, run.owner)
    return True


def _append(rows: Sequence[Sequence[Any]], ended: Sequence[Sequence[Any]]) -> Steps:
    if rows:
        yield Many(ADD_EVENT, rows)
    if ended:
        yield Many(ENDED, ended)


def _read(run_id: str, after: int, limit: int) -> Steps:
    found = yield FIND, (run_id,)
    if not found:
        return [], None
    events = (yield EVENTS, (run_id, after, limit)) if limit else []
    names = ("run_id", "agent", "owner", "thread_id", "title", "worker", "status", "created_at", "silent_s")
    return events, ServedRun(**dict(zip(names, found[0], strict=True)))


def _beat(worker: str) -> Steps:
    yield BEAT, (worker,)
    rows = yield CANCELLED, (worker,)
    return [row[0] for row in rows]
