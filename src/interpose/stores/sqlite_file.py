"""A connection to a SQLite file: opened when it is needed, made ready, and opened anew where the file was replaced."""

import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from interpose.errors import StoreError
from interpose.stores.operations import Many, Operation
from interpose.stores.schema import SQLITE, Steps, migrate, translate

MEMORY = ":memory:"
COPY_EVERY = 300
"""Transactions between two copies of the log into the database: some 1,000 pages, SQLite's own measure."""

SMALLEST = 512
"""The size of the smallest database: one page, of the smallest size that there is."""
LOOK_EVERY_S = 0.1
"""How often to look whether the file is still the one that is open."""


class Log:
    """SQLite's log of a file. It is copied into the database in a thread, as that waits for the disk."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._commits = 0
        self._copying: threading.Thread | None = None

    def committed(self) -> None:
        """Count a transaction, and begin to copy where it is time."""
        self._commits += 1
        if self._commits < COPY_EVERY or self._path == MEMORY:
            return
        if self._copying is None or not self._copying.is_alive():
            self._commits = 0
            self._copying = threading.Thread(target=_copy, args=(self._path,), name="interpose-log", daemon=True)
            self._copying.start()

    def join(self) -> None:
        """Wait until what is being copied is copied."""
        if self._copying is not None:
            self._copying.join()


def _copy(path: str) -> None:
    try:
        connection = sqlite3.connect(path, timeout=1, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            # Whoever writes next begins the log anew and waits for the disk once: better this thread than a run.
            connection.execute("UPDATE interpose_schema SET version = version")
        finally:
            connection.close()
    except sqlite3.Error:
        pass  # the log is whole without it, and the next one copies it


class Connection:
    """One connection, used by one thread at a time; *timeout_s* is how long it waits for others who write."""

    def __init__(self, path: str, timeout_s: float, log: Log) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._log = log
        self._open: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._look_at = 0.0

    def transaction(self, operations: Sequence[Operation]) -> list[Any]:
        """Run operations in one transaction, and return what each returns; where one raises, none is done."""
        connection = self._connection()
        writes = any(one.writes for one in operations)
        if len(operations) == 1 and operations[0].is_one:
            answers = [_run(connection, operations[0].steps())]
        else:
            answers = _in_transaction(connection, [one.steps() for one in operations], writes)
        if writes:
            self._log.committed()
        return answers

    def close(self) -> None:
        """Close what is open; the next transaction opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connection(self) -> sqlite3.Connection:
        if self._open is not None:
            now = time.monotonic()
            if now < self._look_at or self._file is None:
                return self._open
            self._look_at = now + LOOK_EVERY_S
            if self._file == _identity(self._path):
                return self._open
            self.close()  # the file was moved or replaced: what is written to it now would be lost
        _refuse_other_files(self._path)
        connection = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._open = connection
        self._file = None if self._path == MEMORY else _identity(self._path)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:  # of two processes that turn the log on at once, SQLite refuses one without waiting
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {COPY_EVERY * 40}")
        _in_transaction(connection, [migrate(SQLITE)], writes=True)


def _in_transaction(connection: sqlite3.Connection, operations: Sequence[Steps], writes: bool) -> list[Any]:
    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        answers = [_run(connection, steps) for steps in operations]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answers


def _run(connection: sqlite3.Connection, steps: Steps) -> Any:
    """Run the statements of an operation, and return what it returns."""
    try:
        asked = next(steps)
        while True:
            if isinstance(asked, Many):
                connection.executemany(translate(asked.sql, SQLITE), asked.rows)
                asked = steps.send(())
            else:
                cursor = connection.execute(translate(asked[0], SQLITE), asked[1])
                asked = steps.send(cursor.rowcount if cursor.description is None else cursor.fetchall())
    except StopIteration as done:
        return done.value


def _refuse_other_files(path: str) -> None:
    """Refuse a file that is too short for a database, which SQLite would take for an empty one and write over.

    The file is not opened to look at it: closing it again would cancel the locks that this process has on it.
    """
    with suppress(OSError):
        if 0 < os.stat(path).st_size < SMALLEST:
            raise sqlite3.DatabaseError("file is not a database")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


HINTS = (
    ("unable to open", "; the folder must be there, and writable"),
    ("not a database", "; the file is something else, or damaged: it was left as it is"),
    ("malformed", "; the file is damaged: it was left as it is, put a copy of it in its place"),
    ("full", "; nothing was stored: make room, and ask again"),
    ("disk I/O", "; nothing was stored: is there room, and is the disk there?"),
    ("readonly", "; the file, or its folder, may not be written to"),
)


def told(error: Exception, path: str, timeout_s: float) -> StoreError:
    """Return *error* as users are told it."""
    if isinstance(error, StoreError):
        return error
    text = str(error)
    hint = next((hint for sign, hint in HINTS if sign in text), "")
    if "locked" in text:
        hint = f"; another program held it for longer than timeout_s={timeout_s:g}"
    said = StoreError(f"SQLite could not use {path!r}: {text}{hint}")
    said.__cause__ = error
    return said
