"""Postgres: connections that wait for a server that is away, and locks that vanish with their process."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from interpose.durable.executors import Lock
from interpose.errors import ConfigurationError

TIMEOUT_S = 10


def connector(url: str) -> Callable[[], Any]:
    """Return what makes connections to *url*.

    A server that is away is told as DBOS expects, which then waits for it: it looks for "connection failed" in the
    error, and psycopg says so of most ways to fail, but not of a socket that is not there.
    """
    parsed = sa.make_url(url).set(drivername="postgresql+psycopg")
    dialect = parsed.get_dialect()()
    driver: Any = dialect.import_dbapi()
    _, options = dialect.create_connect_args(parsed)

    def connect() -> Any:
        try:
            return driver.connect(**{"connect_timeout": TIMEOUT_S, "application_name": "interpose", **options})
        except driver.OperationalError as error:
            if "connection failed" in str(error):
                raise
            raise driver.OperationalError(f"connection failed: {error}") from error

    return connect


class PostgresLocks:
    """Advisory locks of a Postgres database, each held by a connection of its own."""

    def __init__(self, url: str, schema: str) -> None:
        self._engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=connector(url),
            poolclass=sa.pool.NullPool,
            isolation_level="AUTOCOMMIT",
        )
        self._schema = schema

    def take(self, executor: str) -> Lock | None:
        """Return the lock, or None where another process has it."""
        try:
            connection = self.connect(executor)
        except sa.exc.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise ConfigurationError(f"the database cannot be reached: {reason}; check database_url=") from error
        return None if connection is None else _PostgresLock(self, executor, connection)

    def connect(self, executor: str) -> Any:
        """Return a connection that holds the lock, or None where another has it."""
        connection = self._engine.connect()
        try:
            query = sa.text("SELECT pg_try_advisory_lock(hashtextextended(:name, 0))")
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
            connection.execute(sa.text("SELECT 1"))
        except sa.exc.SQLAlchemyError:
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
            with suppress(sa.exc.SQLAlchemyError):  # the database is away; the next look tries again
                self._connection = self._locks.connect(self._executor)
            return self._connection is not None

    def release(self) -> None:
        with self._turn:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sa.exc.SQLAlchemyError):  # it may be broken already
                connection.close()
