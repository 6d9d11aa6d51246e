"""Databases for durable runs, and processes that are killed; Postgres as for the tests of stores."""

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("dbos", reason="needs DBOS: pip install 'interpose[dbos]'")

from tests.stores.conftest import postgres_server  # noqa: F401  # a fixture

from interpose.durable.dbos import DBOSAgents
from interpose.durable.options import old_sqlite

CHILD = Path(__file__).parent / "child.py"
KILLED = -9
_schemas = count()


class Place(NamedTuple):
    """A database, and a schema in it that is this test's own."""

    url: str
    schema: str


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    if old := old_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info[:2]):
        pytest.skip(old)
    return Place(f"sqlite:///{tmp_path}/durable.db", "dbos")


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[Place]:
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs psycopg: pip install 'psycopg[binary]'")
    import psycopg

    url = os.environ.get("INTERPOSE_TEST_POSTGRES") or request.getfixturevalue("postgres_server").url
    schema = f"durable_{os.getpid()}_{next(_schemas)}"
    yield Place(url, schema)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def launch(sqlite: Place) -> AsyncIterator[Callable[..., Any]]:
    """Makes and launches agents on a SQLite file, which are closed after the test."""
    made: list[DBOSAgents] = []

    async def begin(agents: dict[str, Any], **options: Any) -> DBOSAgents:
        made.append(DBOSAgents(agents, database_url=sqlite.url, **{"poll_s": 0.02, **options}))
        await made[-1].launch()
        return made[-1]

    yield begin
    for one in reversed(made):
        await one.aclose()


class Cut:
    """A run whose process is killed at a moment, and gone on with by another."""

    def __init__(self, place: Place, folder: Path, moment: str, effect: str) -> None:
        self._command = [sys.executable, str(CHILD), *place, str(folder), moment, effect]
        self._log = folder / "log"

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command, capture_output=True, text=True, timeout=50, check=False)

    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def said(self, what: str) -> Counter[str]:
        """How often each thing of a kind was done, by its number."""
        return Counter(line.split()[1] for line in self.lines() if line.startswith(what))

    def come_to(self) -> Any:
        """Kill it, go on with it, and return what it printed."""
        first = self.run()
        assert first.returncode == KILLED, first.stderr
        second = self.run()
        assert second.returncode == 0, second.stderr
        return json.loads(second.stdout)


@pytest.fixture
def cut(place: Place, tmp_path: Path) -> Callable[..., Cut]:
    return lambda moment, effect="write", folder="log": Cut(place, _made(tmp_path / folder), moment, effect)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
