"""Several processes on one database: the example of a fleet, and who takes over what."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.durable.conftest import Place

from interpose import Agent, ConfigurationError, Middleware, tool
from interpose.durable.dbos import DBOSAgents
from interpose.durable.executors import FileLocks, take_id
from interpose.durable.options import Options
from interpose.durable.postgres import PostgresLocks
from interpose.testing import ScriptedModel, calls, text

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(240)
def test_every_run_of_the_fleet_ends_once_though_a_worker_is_killed(postgres: Place) -> None:
    options = ["--runs", "24", "--url", postgres.url, "--schema", postgres.schema]
    command = [sys.executable, "-m", "examples.fleet.demo", *options]
    came = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=230, check=False)
    assert came.returncode == 0, came.stdout + came.stderr
    assert "runs ended: 24 of 24, each with one result (24 ids)" in came.stdout
    assert "tools called twice: 0" in came.stdout
    assert re.search(r"in the middle of \d+ tool calls", came.stdout)
    assert "executor worker-0 is gone; its runs are taken over" in came.stderr


def locks_of(place: Place) -> Any:
    given: Any = (place.url, "q", 1, None, True, None, "interpose", "1", place.schema, 0.1)
    return Options(*given).locks()


def test_executor_takes_the_first_id_that_is_free(place: Place) -> None:
    ids, held = zip(*[take_id(locks_of(place), None) for _ in range(3)], strict=True)
    assert ids == ("worker-0", "worker-1", "worker-2")
    held[1].release()
    again, lock = take_id(locks_of(place), None)
    assert again == "worker-1"
    for one in (held[0], held[2], lock):
        one.release()


def test_executor_id_is_for_one_process(place: Place) -> None:
    _, lock = take_id(locks_of(place), "here")
    with pytest.raises(ConfigurationError, match="another process runs as executor 'here'"):
        take_id(locks_of(place), "here")
    assert lock.held()
    lock.release()
    take_id(locks_of(place), "here")[1].release()


def test_lock_that_was_lost_is_taken_again(postgres: Place) -> None:
    import psycopg

    _, lock = take_id(locks_of(postgres), "here")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        query = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        connection.execute(query)
    assert lock.held()
    assert locks_of(postgres).take("here") is None
    lock.release()


def test_schemas_do_not_share_executors(postgres: Place) -> None:
    one = PostgresLocks(postgres.url, "a").take("here")
    other = PostgresLocks(postgres.url, "b").take("here")
    assert one is not None
    assert other is not None
    one.release()
    other.release()


def test_file_locks_are_let_go_with_their_process(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from interpose.durable.executors import FileLocks; "
    code += "lock = FileLocks(Path(sys.argv[1])).take('here'); print('taken', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path / "x.db")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "taken\n"
    assert FileLocks(tmp_path / "x.db").take("here") is None
    holder.kill()
    holder.communicate()
    lock = FileLocks(tmp_path / "x.db").take("here")
    assert lock is not None
    lock.release()


class Hanging(Middleware[Any]):
    """Holds a run at its start, the first time."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.times = 0

    async def on_start(self, ctx: Any) -> None:
        self.times += 1
        self.reached.set()
        if self.times == 1:
            await asyncio.Event().wait()


@pytest.fixture
def hanging(sqlite: Place) -> tuple[Hanging, Any]:
    layer = Hanging()
    agent = Agent(ScriptedModel(text("done")), middleware=[layer])

    def make(**options: Any) -> DBOSAgents:
        return DBOSAgents({"a": agent}, database_url=sqlite.url, poll_s=0.02, **options)

    return layer, make


async def test_run_in_flight_when_its_process_closes_is_gone_on_with(hanging: tuple[Hanging, Any]) -> None:
    layer, make = hanging
    async with make(executor="one") as agents:
        await agents.submit("a", "go", run_id="r1")
        await layer.reached.wait()
    async with make(executor="one") as agents:
        assert (await agents.handle("r1").result()).text == "done"
    assert layer.times == 2


async def test_run_of_a_process_that_is_gone_is_taken_over_by_another(hanging: tuple[Hanging, Any]) -> None:
    layer, make = hanging
    async with make(executor="one") as agents:
        await agents.submit("a", "go", run_id="r1")
        await layer.reached.wait()
    async with make(executor="two") as agents:
        assert (await agents.handle("r1").result()).text == "done"


async def test_run_of_another_version_is_left_alone(hanging: tuple[Hanging, Any]) -> None:
    layer, make = hanging
    async with make(executor="one") as agents:
        await agents.submit("a", "go", run_id="r1")
        await layer.reached.wait()
    async with make(executor="one", version="2") as agents:
        await asyncio.sleep(1.5)
        assert await agents.handle("r1").status() == "running"
    async with make(executor="one") as agents:
        assert (await agents.handle("r1").result()).text == "done"


async def test_run_waits_while_the_database_is_away(postgres: Place, request: pytest.FixtureRequest) -> None:
    if os.environ.get("INTERPOSE_TEST_POSTGRES"):
        pytest.skip("needs a Postgres of its own, to stop it")
    server = request.getfixturevalue("postgres_server")
    noted: list[int] = []

    @tool
    async def note(n: int) -> int:
        """Note a number."""
        noted.append(n)
        if n == 1:
            await asyncio.to_thread(server.stop)
            asyncio.get_running_loop().call_later(1.0, starting.set)
        return n

    starting = asyncio.Event()
    turns = [calls(("note", {"n": n})) for n in range(3)]
    agent = Agent(ScriptedModel(*turns, text("done")), tools=[note])
    async with DBOSAgents({"a": agent}, database_url=postgres.url, schema=postgres.schema) as agents:
        handle = await agents.submit("a", "go")
        await starting.wait()
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(40):
            assert (await handle.result()).text == "done"
    assert noted == [0, 1, 2]
