"""Postgres: a few connections for each event loop, opened when they are needed and mended when they break."""

import asyncio
import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interpose.errors import ConfigurationError, InterposeError, StoreError
from interpose.stores.operations import Many, Operation
from interpose.stores.schema import POSTGRES, Steps, migrate, translate

try:
    import psycopg
except ImportError as missing:
    raise ConfigurationError("a store on Postgres needs psycopg: pip install 'interpose[postgres]'") from missing

if TYPE_CHECKING:
    Connection = psycopg.AsyncConnection[tuple[Any, ...]]

MAX_CONNECTIONS = 5
"""For each event loop; a run needs one for the moment of a write."""


MIGRATION_S = 60.0
"""How long tables may take to be made, or to be brought to this release, at least."""


class _Pool:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: list[Connection] = []
        self.free = asyncio.Semaphore(MAX_CONNECTIONS)

    def finish(self) -> None:
        """Close what is open; needs no event loop."""
        for connection in self.idle:
            connection.pgconn.finish()
        self.idle.clear()


class PostgresDriver:
    """Runs operations on a Postgres database; one that is away, or hangs, is waited for, *timeout_s* at most."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._lock = threading.Lock()
        self._migrated = False

    async def run(self, operation: Operation) -> Any:
        """Run one operation and return what it returns.

        Raises:
            StoreError: the database is out of reach for too long, or refuses.
        """
        pool = self._pool()
        async with pool.free:
            deadline = time.monotonic() + self._timeout_s
            wait_s = 0.05
            while True:
                try:
                    return await self._attempt(pool, operation)
                except psycopg.OperationalError as error:
                    pool.finish()  # what broke one connection has likely broken those that lie idle
                    if time.monotonic() + wait_s > deadline:
                        what = error if time.monotonic() < deadline else "it did not answer"
                        raise StoreError(
                            f"Postgres was out of reach, or refused, for timeout_s={self._timeout_s:g}: {what}"
                        ) from error
                except (psycopg.Error, UnicodeEncodeError) as error:
                    raise StoreError(f"Postgres refused: {error}") from error
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, 1.0)

    async def _attempt(self, pool: _Pool, operation: Operation) -> Any:
        connection = pool.idle.pop() if pool.idle else await self._connect()
        is_whole = False
        alarm = _cut_after(self._timeout_s, connection)
        try:
            if operation.is_one:
                answer = await _run(connection, operation.steps())
            else:
                async with connection.transaction():
                    answer = await _run(connection, operation.steps())
            is_whole = True
            return answer
        except (InterposeError, LookupError):
            is_whole = True  # a refusal, and rolled back
            raise
        finally:
            alarm.cancel()
            if is_whole and not connection.broken:
                pool.idle.append(connection)
            else:
                connection.pgconn.finish()  # cut in the middle: it may be in any state

    async def _connect(self) -> "Connection":
        connection = await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=max(int(self._timeout_s), 2)
        )
        alarm = _cut_after(max(self._timeout_s, MIGRATION_S), connection)
        try:
            if not self._migrated:
                async with connection.transaction():
                    await _run(connection, migrate(POSTGRES))
                self._migrated = True
        except BaseException:
            connection.pgconn.finish()
            raise
        finally:
            alarm.cancel()
        return connection

    def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            with self._lock:
                for other in [one for one in self._pools if one.is_closed()]:
                    self._pools.pop(other).finish()
                pool = self._pools[loop] = _Pool()
        return pool

    async def aclose(self) -> None:
        """Close the connections; the next operation opens one again."""
        with self._lock:
            while self._pools:
                self._pools.popitem()[1].finish()


def _cut_after(wait_s: float, connection: "Connection") -> asyncio.TimerHandle:
    """Cut *connection* then: a server that hangs, on a machine that does not, would be waited for for ever."""
    return asyncio.get_running_loop().call_later(wait_s, _cut, connection)


def _cut(connection: "Connection") -> None:
    """End what a connection waits for: whoever waits sees that it broke.

    It is not closed, for that would free the number of a file that is still waited for.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as end:
        end.shutdown(socket.SHUT_RDWR)


async def _run(connection: "Connection", steps: Steps) -> Any:
    """Run the statements of an operation, and return what it returns."""
    async with connection.cursor() as cursor:
        try:
            asked = next(steps)
            while True:
                if isinstance(asked, Many):
                    await cursor.executemany(_sql(asked.sql), asked.rows)
                    asked = steps.send(())
                else:
                    await cursor.execute(_sql(asked[0]), asked[1])
                    asked = steps.send(await cursor.fetchall() if cursor.description else cursor.rowcount)
        except StopIteration as done:
            return done.value


def _sql(text: str) -> Any:
    return translate(text, POSTGRES).encode()  # bytes: texts are taken for literals only, which these are not to mypy
