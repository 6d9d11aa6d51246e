"""A store in a database: SQLite or Postgres."""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import unquote

from interpose.checkpoint import Checkpoint
from interpose.errors import ConfigurationError
from interpose.ids import random_id
from interpose.messages import Message
from interpose.stores import operations
from interpose.stores.encoding import read_checkpoint, read_messages, read_runs, read_state, write_state
from interpose.stores.operations import Operation
from interpose.stores.schema import Steps
from interpose.stores.sql_events import SQLEventLog
from interpose.text import to_json

SHORT_CHARS = 100_000
"""A checkpoint's part up to this length is a short write."""


class Driver(Protocol):
    """Runs operations on one database."""

    async def run(self, operation: Operation, /) -> Any:
        """Run one operation in one transaction, and return what it returns."""
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...


class SQLStore:
    """Keeps threads and checkpoints in a database, which it makes ready at first use.

    *url* is `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://` (in memory) or what libpq takes:
    `postgresql://user@host/database`. *timeout_s* is how long an operation waits for a database that is locked, is
    away, or hangs. May be used from several event loops, and by several processes at once.

    Raises:
        ConfigurationError: *url* is none of these, or psycopg is not installed.
    """

    def __init__(self, url: str = "sqlite:///interpose.db", *, timeout_s: float = 5.0) -> None:
        self.url = url
        self._driver = _driver(url, timeout_s)
        self.events = SQLEventLog(self._driver)
        """The events of runs that are served, for `interpose.server`."""
        self._owner = f"{random_id('store')}/"
        self._claims = count()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the store may be used again, and then opens new ones."""
        await self._driver.aclose()

    async def load(self, thread_id: str, /, *, after: int = 0, limit: int | None = None) -> Sequence[Message]:
        """Return the messages of a thread, oldest first."""
        texts = await self._read(lambda: operations.load(thread_id, after, limit), is_one=after >= 0)
        return read_messages(thread_id, texts)

    async def commit(
        self,
        thread_id: str,
        run_id: str,
        messages: Sequence[Message],
        /,
        *,
        expected: int | None = None,
        checkpoint: Checkpoint | None = None,
        replaces: str | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Append the messages of a run; the same run twice changes nothing."""
        texts = [(message.id, to_json(message)) for message in messages]
        kept = None if checkpoint is None else (checkpoint, checkpoint.to_json())
        text = None if state is None else write_state(state)
        await self._write(lambda: operations.commit(thread_id, run_id, texts, expected, kept, replaces, text))

    async def fork(self, thread_id: str, message_id: str, /) -> str:
        """Return the id of a new thread that ends with a message of this one."""
        new_id = random_id("thread")
        await self._write(lambda: operations.fork(thread_id, message_id, new_id))
        return new_id

    async def load_state(self, thread_id: str, /) -> dict[str, Any]:
        """Return the state of a thread."""
        return read_state(thread_id, await self._read(lambda: operations.load_state(thread_id)))

    async def save_state(self, thread_id: str, state: Mapping[str, Any], /) -> None:
        """Keep *state* for a thread."""
        text = write_state(state)
        await self._write(lambda: operations.save_state(thread_id, text))

    async def put(self, checkpoint: Checkpoint, /, *, replaces: str | None = None, at: int | None = None) -> None:
        """Append a part of a run's checkpoint; the same part twice changes nothing."""
        text = checkpoint.to_json()
        await self._write(
            lambda: operations.put(checkpoint, text, replaces, at),
            is_short=len(text) < SHORT_CHARS,
            is_one=checkpoint.part > 0 and checkpoint.status == "running",
        )

    async def get(self, run_id: str, /) -> Checkpoint | None:
        """Return all parts of a run's checkpoint as one; None where there is none."""
        return read_checkpoint(run_id, await self._read(lambda: operations.get(run_id), is_one=False))

    async def claim(self, run_id: str, ttl_s: float, /) -> bool:
        """Take a run's checkpoint for oneself, for *ttl_s* seconds; False where it is taken, or not there."""
        mark = f"{self._owner}{os.getpid()}/{next(self._claims)}"  # after a fork there are two of this store
        return bool(await self._write(lambda: operations.claim(run_id, ttl_s, mark), is_short=True, is_one=True))

    async def release(self, run_id: str, /) -> None:
        """Give back a claim that was made through this store object."""
        await self._write(lambda: operations.release(run_id, self._owner), is_short=True, is_one=True)

    async def drop(self, run_id: str, /) -> None:
        """Forget a run's checkpoint and the claim on it."""
        await self._write(lambda: operations.drop(run_id))

    async def paused(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for answers, by `created_at`."""
        return read_runs(await self._read(lambda: operations.paused(thread_id)), thread_id)

    async def unfinished(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for nothing, by `created_at`."""
        return read_runs(await self._read(lambda: operations.unfinished(thread_id)), thread_id)

    async def key(self) -> bytes:
        """Return 32 random bytes, the same for all who use this database."""
        fresh = secrets.token_hex(32)
        return bytes.fromhex(await self._write(lambda: operations.key(fresh)))

    async def _read(self, steps: Callable[[], Steps], *, is_one: bool = True) -> Any:
        return await self._driver.run(Operation(steps, writes=False, is_one=is_one))

    async def _write(self, steps: Callable[[], Steps], *, is_short: bool = False, is_one: bool = False) -> Any:
        return await self._driver.run(Operation(steps, is_short=is_short, is_one=is_one))


def _driver(url: str, timeout_s: float) -> Driver:
    scheme, sign, rest = url.partition("://")
    if not sign or scheme not in ("sqlite", "postgres", "postgresql"):
        raise ConfigurationError(
            f"SQLStore({url!r}): expected 'sqlite:///file.db' or 'postgresql://user@host/database'; "
            "a file in another folder has four slashes: 'sqlite:////var/lib/app/file.db'"
        )
    if not timeout_s > 0:
        raise ConfigurationError(f"SQLStore(timeout_s={timeout_s!r}): expected seconds, above 0")
    if scheme == "sqlite":
        from interpose.stores.sqlite import SQLiteDriver

        host, _, path = rest.partition("/")
        if host:
            raise ConfigurationError(f"SQLStore({url!r}): a file is named after three slashes: 'sqlite:///{rest}'")
        return SQLiteDriver(unquote(path) or ":memory:", timeout_s)
    from interpose.stores.postgres import PostgresDriver

    return PostgresDriver(url, timeout_s)
