"""What a process of a fleet is told, checked before anything is connected."""

import math
import re
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from interpose.agent import Agent
from interpose.durable.executors import FileLocks, Locks
from interpose.errors import ConfigurationError

OWN_CONFIG = ("name", "system_database_url", "executor_id", "application_version", "dbos_system_schema", "serializer")
"""What of DBOS' configuration is set here, and not by `options=`."""
NEEDED_SQLITE = (3, 42)
"""What DBOS 3 needs on Python 3.12 and newer, where its tables tell times by `unixepoch('subsec')`."""


@dataclass(frozen=True)
class Options:
    """The options of `DBOSAgents`."""

    database_url: str | None
    queue: str
    worker_concurrency: int
    concurrency: int | None
    worker: bool
    executor: str | None
    app: str
    version: str
    schema: str
    poll_s: float
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The URL of the database; SQLite in the working folder where none was given."""
        return self.database_url or f"sqlite:///{self.app.replace('-', '_')}.sqlite"

    def checked(self, agents: Mapping[str, Any]) -> Self:
        """Return these options.

        Raises:
            ConfigurationError: one does not fit, or *agents* are none.
        """
        _check_agents(agents)
        problem = self._problem()
        if problem is not None:
            raise ConfigurationError(f"DBOSAgents: {problem}")
        return self

    def _problem(self) -> str | None:
        scheme = self.url.partition("://")[0].partition("+")[0]
        if scheme not in ("sqlite", "postgresql", "postgres"):
            return f"database_url={self.url!r}: expected 'postgresql://user@host/database' or 'sqlite:///file.db'"
        if scheme == "sqlite" and not _path(self.url):
            return f"database_url={self.url!r} is in memory, and nothing there outlives the process; name a file"
        if not re.fullmatch(r"[a-z0-9_-]{3,256}", self.app):
            return f"app={self.app!r}: expected 3 to 256 lower-case letters, digits, '-' and '_'"
        version: Any = self.version
        if not isinstance(version, str) or not version:
            return f"version={self.version!r}: expected a text, such as '1'"
        if not self.queue or self.queue.startswith("_dbos_"):
            return f"queue={self.queue!r}: expected a name that does not begin with '_dbos_'"
        if self.executor is not None and not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", self.executor):
            return f"executor={self.executor!r}: expected letters, digits, '-', '_' and '.', or None"
        counts: dict[str, Any] = {"worker_concurrency": self.worker_concurrency}
        if self.concurrency is not None:
            counts["concurrency"] = self.concurrency
        for name, value in counts.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                return f"{name}={value!r}: expected a whole number of runs, 1 or more"
        if self.concurrency is not None and self.concurrency < self.worker_concurrency:
            return (
                f"concurrency={self.concurrency} is below worker_concurrency={self.worker_concurrency}: a worker alone "
                "would take more than the whole fleet may"
            )
        poll_s: Any = self.poll_s
        if not isinstance(poll_s, int | float) or not (math.isfinite(poll_s) and poll_s > 0):
            return f"poll_s={self.poll_s!r}: expected seconds, above 0"
        if taken := [name for name in OWN_CONFIG if name in self.more]:
            return f"options={{{taken[0]!r}: ...}} is set by an argument of its own"
        if scheme == "sqlite" and (old := old_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info[:2])):
            return f"database_url={self.url!r}: {old}"
        return None

    def config(self, executor: str) -> dict[str, Any]:
        """Return DBOS' configuration: executor and version pinned, since both decide who takes a cut run over."""
        more = dict(self.more)
        if not _path(self.url):
            from interpose.durable.postgres import connector

            more["db_engine_kwargs"] = {"creator": connector(self.url), **more.get("db_engine_kwargs", {})}
        return {
            "log_level": "ERROR",
            **more,
            "name": self.app,
            "system_database_url": self.url,
            "executor_id": executor,
            "application_version": self.version,
            "dbos_system_schema": self.schema,
        }

    def limits(self) -> dict[str, int | None]:
        """Return the limits of the queue."""
        return {"worker_concurrency": self.worker_concurrency, "global_concurrency": self.concurrency}

    def locks(self) -> Locks:
        """Return the locks of the fleet's executors; a SQLite file is put into WAL mode, which takes a sync a write.

        Raises:
            ConfigurationError: the SQLite file cannot be opened.
        """
        path = _path(self.url)
        if not path:
            from interpose.durable.postgres import PostgresLocks

            return PostgresLocks(self.url, f"{self.schema}:{self.app}")
        try:
            with closing(sqlite3.connect(path, timeout=30)) as database:
                database.execute("PRAGMA journal_mode=WAL")
        except sqlite3.Error as error:
            raise ConfigurationError(f"database_url={self.url!r}: the file cannot be used: {error}") from error
        return FileLocks(Path(path))


def old_sqlite(python: tuple[int, ...], sqlite: tuple[int, ...]) -> str | None:
    """Return what is wrong with the version of *sqlite* for DBOS on this *python*, or None."""
    if python < (3, 12) or sqlite >= NEEDED_SQLITE:
        return None
    there, needed = (".".join(map(str, version)) for version in (sqlite, NEEDED_SQLITE))
    return f"DBOS needs SQLite {needed} on Python 3.12 and newer, and here is {there}; use postgresql:// or Python 3.11"


def _path(url: str) -> str:
    """Return the file of a SQLite URL; empty where it names none."""
    scheme, _, rest = url.partition("://")
    return unquote(rest.partition("?")[0].removeprefix("/")) if scheme.startswith("sqlite") else ""


def _check_agents(agents: Any) -> None:
    expected = "DBOSAgents takes agents by name, such as {'researcher': Agent(...)}"
    if not isinstance(agents, Mapping):
        raise ConfigurationError(f"{expected}; got {type(agents).__name__}")
    if not agents:
        raise ConfigurationError(f"{expected}; got none")
    for name, agent in agents.items():
        if not isinstance(name, str) or not name or not isinstance(agent, Agent):
            raise ConfigurationError(f"{expected}; got {name!r}: {type(agent).__name__}")
