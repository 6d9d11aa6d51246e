"""What keeps the events of served runs: in memory and in SQL, alike."""

from collections.abc import AsyncIterator

import pytest

from interpose.event_log import EventLog, LoggedEvents, ServedRun
from interpose.server.memory_log import MemoryEventLog
from interpose.stores import SQLStore


@pytest.fixture
async def log(place: str | None) -> AsyncIterator[EventLog]:
    if place is None:
        yield MemoryEventLog()
        return
    async with SQLStore(place) as store:
        yield store.events


def run(id: str = "r1", thread: str = "t1", owner: str = "ann") -> ServedRun:
    return ServedRun(run_id=id, agent="a", owner=owner, thread_id=thread, title=f"on {thread}", worker="w1")


async def test_id_is_taken_once(log: EventLog) -> None:
    assert await log.begin(run())
    assert not await log.begin(run(thread="t2"))


async def test_events_are_read_from_any_place(log: EventLog) -> None:
    await log.begin(run())
    await log.append([LoggedEvents("r1", [(0, "a"), (1, "b")])])
    await log.append([LoggedEvents("r1", [(2, "c")], "finished")])
    assert [list(map(tuple, (await log.read("r1", after, 2))[0])) for after in (-1, 0, 1, 2, 9)] == [
        [(0, "a"), (1, "b")],
        [(1, "b"), (2, "c")],
        [(2, "c")],
        [],
        [],
    ]
    found = await log.find("r1")
    assert found is not None
    assert (found.status, found.thread_id, found.owner, found.agent) == ("finished", "t1", "ann", "a")


async def test_nothing_is_added_after_the_end(log: EventLog) -> None:
    await log.begin(run())
    await log.append([LoggedEvents("r1", [(0, "a")], "failed")])
    await log.append([LoggedEvents("r1", [(1, "b")], "finished")])
    events, found = await log.read("r1", -1, 9)
    assert ([tuple(one) for one in events], found and found.status) == ([(0, "a")], "failed")


async def test_unknown_runs_are_none(log: EventLog) -> None:
    await log.append([LoggedEvents("none", [(0, "a")])])
    assert (await log.read("none", -1, 9), await log.find("none")) == (([], None), None)
    assert not await log.cancel("none")


async def test_dropped_run_may_begin_again(log: EventLog) -> None:
    await log.begin(run())
    await log.drop("r1")
    assert await log.find("r1") is None
    assert await log.begin(run())


async def test_threads_are_their_owners_and_the_last_used_comes_first(log: EventLog) -> None:
    for number, (thread, owner) in enumerate([("t1", "ann"), ("t2", "ann"), ("t3", "bob"), ("t1", "ann")]):
        await log.begin(run(f"r{number}", thread, owner))
    assert [one.thread_id for one in await log.threads("a", "ann", 9, None)] == ["t1", "t2"]
    assert [one.title for one in await log.threads("a", "ann", 1, None)] == ["on t1"]
    last = (await log.threads("a", "ann", 1, None))[0].updated_at
    assert [one.thread_id for one in await log.threads("a", "ann", 9, last)] == ["t2"]
    assert await log.threads("b", "ann", 9, None) == []


async def test_pages_of_threads_begun_at_once_fit_together(log: EventLog) -> None:
    for number in range(20):
        await log.begin(run(f"r{number}", f"t{number}"))
    found: list[str] = []
    before: float | None = None
    while page := await log.threads("a", "ann", 3, before):
        found += [one.thread_id for one in page]
        before = page[-1].updated_at
    assert found == [f"t{number}" for number in reversed(range(20))]


async def test_runs_that_ended_are_forgotten_in_time(log: EventLog) -> None:
    for id in ("r1", "r2"):
        await log.begin(run(id))
        await log.append([LoggedEvents(id, [(0, "a")])])
    await log.append([LoggedEvents("r1", [], "finished")])
    await log.forget(3600)
    assert await log.find("r1") is not None
    await log.forget(-1)
    assert (await log.find("r1"), (await log.find("r2")) is not None) == (None, True)


async def test_worker_hears_what_is_to_be_stopped(url: str) -> None:
    async with SQLStore(url) as store:
        await store.events.begin(run())
        assert await store.events.beat("w1") == []
        assert await store.events.cancel("r1")
        assert (await store.events.beat("w1"), await store.events.beat("w2")) == (["r1"], [])
        await store.events.append([LoggedEvents("r1", [], "failed")])
        assert (await store.events.beat("w1"), await store.events.cancel("r1")) == ([], False)


async def test_memory_keeps_no_more_than_it_may() -> None:
    log = MemoryEventLog(max_bytes=20_000)
    for number in range(100):
        await log.begin(run(f"r{number}"))
        await log.append([LoggedEvents(f"r{number}", [(0, "x" * 1000)], "finished")])
    assert await log.find("r0") is None
    assert await log.find("r99") is not None
    assert log._size <= 20_000
