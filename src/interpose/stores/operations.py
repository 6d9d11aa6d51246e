"""What a store does in SQL: each operation once, for every database, as the statements of one transaction.

An operation yields `(statement, parameters)`, or `Many`, and is sent the rows that came back, or of a statement that
gives none, how many it changed. It may be run again after a failure, and then changes nothing if it was done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from interpose.checkpoint import Checkpoint
from interpose.stores import refusals
from interpose.stores.schema import Steps


@dataclass(frozen=True)
class Many:
    """One statement, run for each of *rows*."""

    sql: str
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Operation:
    """What is to be done in one transaction; calling *steps* begins it anew."""

    steps: Callable[[], Steps]
    writes: bool = True
    is_short: bool = False
    """Whether it is done in microseconds, however much is stored."""
    is_one: bool = False
    """Whether one statement does it, so that no transaction need be made for it."""


ALL = 1 << 62
"""A limit that is none; databases differ in how they say so."""

LENGTH = "SELECT length FROM interpose_threads WHERE thread_id = ?"
MESSAGES = "{messages}"
ADD_THREAD = "INSERT INTO interpose_threads (thread_id, length) VALUES (?, 0) ON CONFLICT DO NOTHING"
GROW = "UPDATE interpose_threads SET length = length + ? WHERE thread_id = ? RETURNING length"
ADD_COMMIT = "INSERT INTO interpose_commits VALUES (?, ?) ON CONFLICT DO NOTHING"
ADD_MESSAGE = "INSERT INTO interpose_messages VALUES (?, ?, ?, ?)"
PLACE = "SELECT min(place) FROM interpose_messages WHERE thread_id = ? AND message_id = ?"
FORK_THREAD = """INSERT INTO interpose_threads (thread_id, length, state)
    SELECT CAST(? AS TEXT), CAST(? AS BIGINT), state FROM interpose_threads WHERE thread_id = ?
    ON CONFLICT DO NOTHING"""
FORK_MESSAGES = """INSERT INTO interpose_messages
    SELECT CAST(? AS TEXT), place, message_id, data FROM interpose_messages WHERE thread_id = ? AND place <= ?"""
STATE = "SELECT state FROM interpose_threads WHERE thread_id = ?"
SET_STATE = """INSERT INTO interpose_threads (thread_id, length, state) VALUES (?, 0, ?)
    ON CONFLICT (thread_id) DO UPDATE SET state = excluded.state"""

ADD_RUN = (
    "INSERT INTO interpose_runs (run_id, thread_id, status, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
ADD_PART = """INSERT INTO interpose_parts
    SELECT CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT) WHERE EXISTS
    (SELECT 1 FROM interpose_runs WHERE run_id = ?) ON CONFLICT DO NOTHING"""
SET_STATUS = "UPDATE interpose_runs SET status = ? WHERE run_id = ?"
PART = "SELECT data FROM interpose_parts WHERE run_id = ? AND part = ?"
PARTS = "SELECT data FROM interpose_parts WHERE run_id = ? ORDER BY part"
DROP = "DELETE FROM interpose_runs WHERE run_id = ?"
CLAIM = """UPDATE interpose_runs SET claimed_until = {now} + ?, claimed_by = ?
    WHERE run_id = ? AND (claimed_until IS NULL OR claimed_until <= {now} OR claimed_by = ?)"""
RELEASE = """UPDATE interpose_runs SET claimed_until = NULL, claimed_by = NULL
    WHERE run_id = ? AND substr(claimed_by, 1, ?) = ?"""
DROP_PARTS = "DELETE FROM interpose_parts WHERE run_id = ?"
LAST_PART = "SELECT max(part) FROM interpose_parts WHERE run_id = ?"
SUCCESSOR = "SELECT run_id FROM interpose_successors WHERE old_run_id = ?"
PASS_ON = "UPDATE interpose_successors SET run_id = ? WHERE run_id = ?"
ADD_SUCCESSOR = """INSERT INTO interpose_successors VALUES (?, ?)
    ON CONFLICT (old_run_id) DO UPDATE SET run_id = excluded.run_id"""
PAUSED = """SELECT r.run_id, p.data FROM interpose_runs r JOIN interpose_parts p ON p.run_id = r.run_id
    WHERE r.status = 'paused' ORDER BY r.created_at, r.run_id, p.part"""
PAUSED_ON = PAUSED.replace("ORDER", "AND r.thread_id = ? ORDER")
UNFINISHED = PAUSED.replace("paused", "running")
UNFINISHED_ON = PAUSED_ON.replace("paused", "running")

ADD_KEY = "INSERT INTO interpose_keys VALUES ('seal', ?) ON CONFLICT DO NOTHING"
KEY = "SELECT value FROM interpose_keys WHERE name = 'seal'"


def load(thread_id: str, after: int, limit: int | None) -> Steps:
    """Return the texts of messages, one by one or with commas between them."""
    if after < 0:
        rows = yield LENGTH, (thread_id,)
        after = max(rows[0][0] + after, 0) if rows else 0
    rows = yield MESSAGES, (thread_id, after, ALL if limit is None else limit)
    return [row[0] for row in rows if row[0] is not None]


def commit(
    thread_id: str,
    run_id: str,
    messages: Sequence[tuple[str, str]],
    expected: int | None,
    checkpoint: tuple[Checkpoint, str] | None,
    replaces: str | None,
    state: str | None,
) -> Steps:
    """Append *messages*, pairs of id and text, and end the run's checkpoint."""
    if not (yield ADD_COMMIT, (thread_id, run_id)):
        return
    yield ADD_THREAD, (thread_id,)
    ((length,),) = yield GROW, (len(messages), thread_id)
    base = length - len(messages)
    if expected is not None and base != expected:
        raise refusals.conflict(thread_id, expected, base)
    if replaces is not None and not (yield DROP, (replaces,)):
        raise refusals.used_up(replaces)
    if messages:
        yield Many(ADD_MESSAGE, [(thread_id, base + n, id, text) for n, (id, text) in enumerate(messages)])
    if state is not None:
        yield SET_STATE, (thread_id, state)
    if checkpoint is None:
        yield DROP, (run_id,)
        return
    yield DROP_PARTS, (run_id,)  # and not the run: others may be known to have been followed by it
    yield SET_STATUS, (checkpoint[0].status, run_id)
    yield from _begin(*checkpoint)


def fork(thread_id: str, message_id: str, new_id: str) -> Steps:
    """Copy a thread up to and including a message."""
    ((place,),) = yield PLACE, (thread_id, message_id)
    if place is None:
        raise refusals.no_message(thread_id, message_id)
    if (yield FORK_THREAD, (new_id, place + 1, thread_id)):
        yield FORK_MESSAGES, (new_id, thread_id, place)


def load_state(thread_id: str) -> Steps:
    """Return the text of a thread's state, if it has one."""
    rows = yield STATE, (thread_id,)
    return rows[0][0] if rows else None


def save_state(thread_id: str, text: str) -> Steps:
    """Keep the state of a thread."""
    yield SET_STATE, (thread_id, text)


def put(checkpoint: Checkpoint, text: str, replaces: str | None, at: int | None) -> Steps:
    """Append a part of a checkpoint."""
    run_id, part = checkpoint.run_id, checkpoint.part
    if part == 0:
        if (yield from _is_there(run_id, part, text)):
            return
        if replaces is None:
            yield from _begin(checkpoint, text)
            return
        ((last,),) = yield LAST_PART, (replaces,)
        if at is not None and last is not None and last > at:
            raise refusals.went_on(replaces)
        yield from _begin(checkpoint, text)
        yield PASS_ON, (run_id, replaces)
        yield ADD_SUCCESSOR, (replaces, run_id)
        if not (yield DROP, (replaces,)):
            raise refusals.used_up(replaces)
    elif (yield ADD_PART, (run_id, part, text, run_id)):
        if checkpoint.status != "running":
            yield SET_STATUS, (checkpoint.status, run_id)
    elif not (yield from _is_there(run_id, part, text)):
        raise refusals.lost(run_id)


def _begin(checkpoint: Checkpoint, text: str) -> Steps:
    run_id, part = checkpoint.run_id, checkpoint.part
    yield ADD_RUN, (run_id, checkpoint.thread_id, checkpoint.status, checkpoint.created_at)
    if not (yield ADD_PART, (run_id, part, text, run_id)) and not (yield from _is_there(run_id, part, text)):
        raise refusals.lost(run_id)


def _is_there(run_id: str, part: int, text: str) -> Any:
    """Whether this part is there, as it is; with other content, another run writes under the id."""
    rows = yield PART, (run_id, part)
    if rows and rows[0][0] != text:
        raise refusals.in_use(run_id, part)
    return bool(rows)


def get(run_id: str) -> Steps:
    """Return the texts of a checkpoint's parts."""
    rows = yield PARTS, (run_id,)
    if not rows and (found := (yield SUCCESSOR, (run_id,))):
        rows = yield PARTS, (found[0][0],)
    return [row[0] for row in rows]


def claim(run_id: str, ttl_s: float, mark: str) -> Steps:
    """Take a checkpoint; *mark*, which no other claim has, tells that it was this very one that took it before."""
    return bool((yield CLAIM, (ttl_s, mark, run_id, mark)))


def release(run_id: str, owner: str) -> Steps:
    """Give back a claim whose mark begins with *owner*."""
    yield RELEASE, (run_id, len(owner), owner)


def drop(run_id: str) -> Steps:
    """Forget a checkpoint."""
    yield DROP, (run_id,)


def paused(thread_id: str | None) -> Steps:
    """Return (run id, text of a part) of the checkpoints that wait, those of a run next to each other."""
    rows = yield (PAUSED, ()) if thread_id is None else (PAUSED_ON, (thread_id,))
    return rows


def unfinished(thread_id: str | None) -> Steps:
    """Return (run id, text of a part) of the checkpoints that wait for nothing, those of a run next to each other."""
    rows = yield (UNFINISHED, ()) if thread_id is None else (UNFINISHED_ON, (thread_id,))
    return rows


def key(fresh: str) -> Steps:
    """Return the key; *fresh* becomes it where there is none."""
    rows = yield KEY, ()
    if not rows:
        yield ADD_KEY, (fresh,)
        rows = yield KEY, ()
    return rows[0][0]
