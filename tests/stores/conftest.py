"""Stores for tests: in memory, on a SQLite file, and on a Postgres that is started once for all tests.

Postgres is Debian's `postgresql`, or what `INTERPOSE_TEST_POSTGRES` names; without either, its tests are skipped.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from interpose.stores import MemoryStore, SQLStore, Store

pytest.register_assert_rewrite("interpose.testing.store_contract", "interpose.testing.store_threads")

Pair = tuple[Store, Store]
_schemas = count()


class Server:
    """A Postgres of our own, in a folder that goes with it; root, whom it refuses, runs it as the user `postgres`."""

    def __init__(self, binaries: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="interpose-pg-"))
        self._binaries = binaries
        self._user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(self.folder, **self._user)
        data = str(self.folder / "data")
        self._run("initdb", "-D", data, "-U", "interpose", "--auth=trust", "--no-sync", "--encoding=UTF8")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://interpose@/postgres?host={self.folder}"

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        self._control("start", "-l", str(self.folder / "log"), "-o", options)

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _control(self, what: str, *options: str) -> None:
        self._run("pg_ctl", what, "-D", str(self.folder / "data"), "-w", *options)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
            **self._user,
        )


def _binaries() -> Path | None:
    """Where Postgres is: on the path, or where Debian keeps its versions."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    binaries = _binaries()
    if binaries is None:
        pytest.skip("needs Postgres: apt-get install postgresql")
    server = Server(binaries)
    yield server
    server.remove()


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty schema in Postgres."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs psycopg: pip install 'psycopg[binary]'")
    import psycopg

    url = os.environ.get("INTERPOSE_TEST_POSTGRES") or request.getfixturevalue("postgres_server").url
    schema = f"interpose_{os.getpid()}_{next(_schemas)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The URL of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str | None:
    """The URL of an empty database; None for memory."""
    return None if request.param == "memory" else request.getfixturevalue(request.param)


@pytest.fixture
async def pair(place: str | None) -> AsyncIterator[Pair]:
    """Two store objects on the same data; in memory, one object twice."""
    if place is None:
        store = MemoryStore()
        yield store, store
        return
    async with SQLStore(place) as one, SQLStore(place) as two:
        yield one, two


@pytest.fixture
async def open_store() -> AsyncIterator[Callable[..., SQLStore]]:
    """Makes stores that are closed after the test."""
    made: list[SQLStore] = []

    def make(url: str, **options: Any) -> SQLStore:
        made.append(SQLStore(url, **options))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()
