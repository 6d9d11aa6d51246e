"""SQLite: event loops, threads, forks, and what is left behind."""

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.checkpoint import Checkpoint
from interpose.stores import MemoryStore, SQLStore
from interpose.testing import FakeClock
from interpose.testing.store_values import some_checkpoint, some_messages

Opener = Callable[..., SQLStore]


def threads_since(before: set[threading.Thread]) -> list[threading.Thread]:
    """Return the threads of stores that were started since; a store of an earlier test may still wait for the GC."""
    return [one for one in threading.enumerate() if one.name.startswith("interpose") and one not in before]


def test_store_serves_one_event_loop_after_another(url: str) -> None:
    store = SQLStore(url)
    asyncio.run(store.commit("t1", "r1", some_messages(1)))
    asyncio.run(store.put(some_checkpoint()))

    async def look() -> None:
        assert list(await store.load("t1")) == some_messages(1)
        assert await store.get("r1") == some_checkpoint()
        await store.aclose()

    asyncio.run(look())


def test_store_serves_event_loops_in_several_threads(url: str) -> None:
    store = SQLStore(url, timeout_s=20)

    async def work(number: int) -> None:
        await store.put(some_checkpoint(f"r{number}"))
        for part in range(1, 20):
            await store.put(Checkpoint(run_id=f"r{number}", part=part, started=(f"c{part}",)))

    workers = [threading.Thread(target=asyncio.run, args=(work(number),)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    async def look() -> None:
        for number in range(3):
            whole = await store.get(f"r{number}")
            assert whole is not None
            assert len(whole.started) == 19
        await store.aclose()

    asyncio.run(look())


async def test_store_may_be_used_after_closing(url: str) -> None:
    store = SQLStore(url)
    await store.commit("t1", "r1", some_messages(1))
    await store.aclose()
    await store.aclose()
    assert list(await store.load("t1")) == some_messages(1)
    await store.aclose()


async def test_closing_leaves_no_thread_and_one_file(sqlite: str) -> None:
    before = set(threading.enumerate())
    store = SQLStore(sqlite)
    await store.put(some_checkpoint())
    assert len(threads_since(before)) == 1
    await store.aclose()
    assert threads_since(before) == []
    path = Path(sqlite.removeprefix("sqlite:///"))
    assert [one.name for one in path.parent.iterdir()] == [path.name]


async def test_store_that_is_forgotten_ends_its_thread(sqlite: str) -> None:
    before = set(threading.enumerate())
    store = SQLStore(sqlite)
    await store.put(some_checkpoint())
    gone = weakref.ref(store)
    (thread,) = threads_since(before)
    del store
    assert gone() is None
    gc.collect()
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()


async def test_cancelled_write_harms_no_other(url: str, open_store: Opener) -> None:
    store = open_store(url)
    await store.put(some_checkpoint())
    writes = [
        asyncio.create_task(store.put(Checkpoint(run_id="r1", part=part, started=(f"c{part}",))))
        for part in range(1, 9)
    ]
    await asyncio.sleep(0)
    writes[3].cancel()
    came = await asyncio.gather(*writes, return_exceptions=True)
    assert [one for number, one in enumerate(came) if number != 3] == [None] * 7
    for part in (4, 9):  # the one that was cut is sent again, whether or not it was written
        await store.put(Checkpoint(run_id="r1", part=part, started=(f"c{part}",)))
    whole = await store.get("r1")
    assert whole is not None
    assert {f"c{part}" for part in range(1, 10)} == set(whole.started)


async def test_memory_database_keeps_to_its_store() -> None:
    async with SQLStore("sqlite://") as one, SQLStore("sqlite://") as two:
        await one.commit("t1", "r1", some_messages(1))
        assert list(await one.load("t1")) == some_messages(1)
        assert list(await two.load("t1")) == []


async def test_path_may_be_relative_and_hold_any_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with SQLStore("sqlite:///my%20 dir é.db") as store:
        await store.put(some_checkpoint())
    assert (tmp_path / "my  dir é.db").exists()


async def test_log_is_copied_beside_the_work_and_loses_nothing(sqlite: str, open_store: Opener) -> None:
    store = open_store(sqlite)
    await store.put(some_checkpoint())
    for part in range(1, 1_000):
        await store.put(Checkpoint(run_id="r1", part=part, started=(f"c{part}",)))
    whole = await store.get("r1")
    assert whole is not None
    assert len(whole.started) == 999
    assert log_size(sqlite) < 40_000_000


def log_size(url: str) -> int:
    return os.path.getsize(f"{url.removeprefix('sqlite:///')}-wal")


async def test_child_of_a_fork_opens_the_file_for_itself(sqlite: str, open_store: Opener) -> None:
    store = open_store(sqlite)
    await store.put(some_checkpoint())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = asyncio.new_event_loop().run_until_complete(_in_child(store))
        finally:
            os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert status == 0
    whole = await store.get("r1")
    assert whole is not None
    assert whole.number == 5


async def _in_child(store: SQLStore) -> int:
    await store.put(Checkpoint(run_id="r1", part=1, number=5))
    return 0 if await store.get("r1") is not None else 1


async def test_claim_in_memory_lapses_by_the_clock() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.put(some_checkpoint())
    assert await store.claim("r1", 60)
    await clock.advance(59)
    assert not await store.claim("r1", 60)
    await clock.advance(2)
    assert await store.claim("r1", 60)
