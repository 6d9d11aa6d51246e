"""Executors: the processes of a fleet, each under an id that nobody else has while it lives.

An executor holds a lock that its database, or the file system, takes back when its process is gone, however it went:
so others can tell that it is dead, and take over its runs.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from interpose.errors import ConfigurationError

MAX_EXECUTORS = 1000


class Lock(Protocol):
    """A lock that is held until `release`, or until the process is gone."""

    def held(self) -> bool:
        """Whether it is still held; one that was lost is taken again where it is free."""
        ...

    def release(self) -> None:
        """Let it go."""
        ...


class Locks(Protocol):
    """Takes the locks of executors, by id."""

    def take(self, executor: str) -> Lock | None:
        """Return the lock, or None where another process has it."""
        ...


class FileLocks:
    """Locks beside a SQLite file: one small file an executor, in `<file>.executors/`."""

    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(f"{database.name}.executors")

    def take(self, executor: str) -> Lock | None:
        """Return the lock, or None where another process has it."""
        import fcntl

        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder / f"{executor}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return _FileLock(handle)


class _FileLock:
    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class PostgresLocks:
    """Advisory locks of a Postgres database, each held by a connection of its own."""

    def __init__(self, url: str, schema: str) -> None:
        import sqlalchemy as sa

        self._sql = sa
        self._engine = sa.create_engine(
            sa.make_url(url).set(drivername="postgresql+psycopg"),
            poolclass=sa.pool.NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": 10},
        )
        self._schema = schema

    def take(self, executor: str) -> Lock | None:
        """Return the lock, or None where another process has it."""
        try:
            connection = self.connect(executor)
        except self._sql.exc.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise ConfigurationError(f"the database cannot be reached: {reason}; check database_url=") from error
        return None if connection is None else _PostgresLock(self, executor, connection)

    def connect(self, executor: str) -> Any:
        """Return a connection that holds the lock, or None where another has it."""
        connection = self._engine.connect()
        try:
            query = self._sql.text("SELECT pg_try_advisory_lock(hashtextextended(:name, 0))")
            if connection.execute(query, {"name": f"interpose:{self._schema}:{executor}"}).scalar():
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def is_alive(self, connection: Any) -> bool:
        """Whether *connection* still works, and so still holds its lock."""
        try:
            connection.execute(self._sql.text("SELECT 1"))
        except self._sql.exc.SQLAlchemyError:
            return False
        return True


class _PostgresLock:
    def __init__(self, locks: PostgresLocks, executor: str, connection: Any) -> None:
        self._locks = locks
        self._executor = executor
        self._connection = connection
        self._turn = threading.Lock()

    def held(self) -> bool:
        with self._turn:
            if self._connection is not None and self._locks.is_alive(self._connection):
                return True
            self._close()
            with suppress(self._locks._sql.exc.SQLAlchemyError):  # the database is away; the next look tries again
                self._connection = self._locks.connect(self._executor)
            return self._connection is not None

    def release(self) -> None:
        with self._turn:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._locks._sql.exc.SQLAlchemyError):  # it may be broken already
                connection.close()


def take_id(locks: Locks, wanted: str | None) -> tuple[str, Lock]:
    """Return an id and its lock: *wanted*, or the first of `worker-0`, `worker-1` … that is free.

    Raises:
        ConfigurationError: another process has it.
    """
    if wanted is not None:
        lock = locks.take(wanted)
        if lock is None:
            raise ConfigurationError(
                f"another process runs as executor {wanted!r}: two of one id would each take the other's runs for "
                "crashed ones; give each process its own executor=, or none, and a free one is taken"
            )
        return wanted, lock
    for number in range(MAX_EXECUTORS):
        lock = locks.take(f"worker-{number}")
        if lock is not None:
            return f"worker-{number}", lock
    raise ConfigurationError(f"all of {MAX_EXECUTORS} executors are taken; give this one an executor= of its own")
