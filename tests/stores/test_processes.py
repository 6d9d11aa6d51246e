"""Several processes on one database: of those who want the same, one wins; what a killed one said is stored, is."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpose import ResumeError
from interpose.checkpoint import Checkpoint
from interpose.stores import SQLStore
from interpose.testing.store_values import some_checkpoint, some_messages

CONTENDER = Path(__file__).parent / "contender.py"
Start = Callable[..., subprocess.Popen[str]]
Opener = Callable[..., SQLStore]


@pytest.fixture
def start(url: str) -> Iterator[Start]:
    """Starts a process that is ready to act on the database."""
    started: list[subprocess.Popen[str]] = []

    def begin(act: str, number: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, str(CONTENDER), url, act, str(number)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def told_to_go(processes: list[subprocess.Popen[str]]) -> list[Any]:
    """Wait until all are ready, let them go at once, and return what came of each."""
    for process in processes:
        ready(process)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [json.loads(process.communicate()[0]) for process in processes]


async def test_of_processes_that_extend_one_thread_one_wins(url: str, start: Start, open_store: Opener) -> None:
    store = open_store(url)
    await store.commit("t1", "before", some_messages(2, 100))
    came = told_to_go([start("extend", number) for number in range(3)])
    assert sorted(came) == ["conflict", "conflict", "won"]
    winner = came.index("won")
    assert list(await store.load("t1")) == [*some_messages(2, 100), *some_messages(3, winner * 3)]


async def test_of_processes_that_claim_one_run_one_gets_it(url: str, start: Start, open_store: Opener) -> None:
    await open_store(url).put(some_checkpoint("r0", status="paused"))
    assert Counter(told_to_go([start("claim", number) for number in range(3)])) == {"won": 1, "taken": 2}


async def test_claim_of_a_killed_process_lapses(url: str, start: Start, open_store: Opener) -> None:
    store = open_store(url)
    await store.put(some_checkpoint("r0", status="paused"))
    process = start("claim_and_die")
    await asyncio.to_thread(ready, process)
    process.kill()
    tries = 0
    while not await store.claim("r0", 60):
        tries += 1
        assert tries < 100
        await asyncio.sleep(0.02)


async def test_of_processes_that_resume_one_run_one_does(url: str, start: Start, open_store: Opener) -> None:
    store = open_store(url)
    await store.put(some_checkpoint("r0", status="paused"))
    came = told_to_go([start("resume", number) for number in range(3)])
    assert sorted(came) == ["refused", "refused", "won"]
    taken = await store.get("r0")
    assert taken is not None
    assert taken.run_id == f"resumed{came.index('won')}"
    assert [await store.get(f"resumed{number}") is not None for number in range(3)] == [one == "won" for one in came]


async def test_processes_that_write_side_by_side_lose_nothing(url: str, start: Start, open_store: Opener) -> None:
    assert told_to_go([start("write", number) for number in range(3)]) == [99, 99, 99]
    store = open_store(url)
    for number in range(3):
        whole = await store.get(f"run{number}")
        assert whole is not None
        assert whole.started == tuple(f"c{part}" for part in range(1, 100))
    assert Counter(message.text for message in await store.load("t1")) == {"0": 9, "1": 9, "2": 9}


async def test_what_a_killed_process_said_is_stored_is_stored(url: str, start: Start, open_store: Opener) -> None:
    process = start("put_until_killed")
    await asyncio.to_thread(ready, process)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    said = [int(process.stdout.readline()) for _ in range(50)]
    process.kill()
    said += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    whole = await open_store(url).get("r1")
    assert whole is not None
    assert whole.part in (said[-1], said[-1] + 1)
    assert list(whole.answered) == [f"c{part}" for part in range(1, whole.part + 1)]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_full_disk_is_said_and_what_was_stored_stays(url: str, start: Start) -> None:
    (came,) = told_to_go([start("fill_the_disk")])
    assert "nothing was stored" in came["said"]
    assert came["parallel"] == ["StoreError"] * 3
    assert came["while_full"] == came["stored"]
    assert came["after"] == [came["stored"] + 1, "again"]


# A file that others hold, replace or damage.


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_locked_file_is_waited_for(url: str, open_store: Opener) -> None:
    store = open_store(url)
    await store.put(some_checkpoint())
    holder = hold(url)
    waiting = asyncio.create_task(store.put(Checkpoint(run_id="r1", part=1, number=1)))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    holder.execute("COMMIT")
    holder.close()
    await waiting
    whole = await store.get("r1")
    assert whole is not None
    assert whole.number == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_file_that_stays_locked_is_said_and_works_again_afterwards(url: str, open_store: Opener) -> None:
    store = open_store(url, timeout_s=0.2)
    await store.put(some_checkpoint())
    holder = hold(url)
    with pytest.raises(Exception, match="another program held it for longer than timeout_s=0.2"):
        await store.put(Checkpoint(run_id="r1", part=1, number=1))
    assert await store.get("r1") == some_checkpoint()
    holder.execute("ROLLBACK")
    holder.close()
    await store.put(Checkpoint(run_id="r1", part=1, number=1))


def hold(url: str) -> sqlite3.Connection:
    """Hold the file, so that nobody else can write."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_run_whose_file_was_replaced_is_told(url: str, open_store: Opener) -> None:
    store = open_store(url)
    await store.put(some_checkpoint())
    path = Path(url.removeprefix("sqlite:///"))
    for file in path.parent.iterdir():
        file.rename(file.with_name(f"moved-{file.name}"))
    await asyncio.sleep(0.15)
    with pytest.raises(ResumeError, match="no checkpoint any more"):
        await store.put(Checkpoint(run_id="r1", part=1))
    await store.commit("t1", "r2", some_messages(1))
    assert list(await store.load("t1")) == some_messages(1)
