"""The database is away in the middle of a run: for a moment, too long, or just when it answers."""

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.crash.played import Story, faults
from tests.crash.proxy import Proxy
from tests.crash.trouble import Before, Played
from tests.stores.conftest import Server

from interpose import ResumeError
from interpose.checkpoint import Checkpoint
from interpose.stores import SQLStore, StoreError
from interpose.testing.store_values import some_checkpoint, some_messages

RETRIES = 6
"""How often the engine asks a store that fails."""


@pytest.fixture
async def wire(postgres: str, postgres_server: Server) -> AsyncIterator[Proxy]:
    """A wire to a Postgres, for the tests to cut."""
    async with Proxy(postgres_server.folder) as proxy:
        yield proxy


@pytest.fixture
async def store(wire: Proxy, postgres: str) -> AsyncIterator[SQLStore]:
    """A store at the end of that wire."""
    schema = postgres.partition("options=")[2]
    async with SQLStore(f"postgresql://interpose@/postgres?host={wire.folder}&options={schema}", timeout_s=0.5) as one:
        yield one


@pytest.fixture
async def hasty(store: SQLStore) -> AsyncIterator[SQLStore]:
    """The same with little patience."""
    async with SQLStore(store.url, timeout_s=0.4) as one:
        yield one


def at(number: int, act: Callable[[], object]) -> Before:
    """Return what acts before write *number*."""

    async def before(now: int) -> None:
        if now == number:
            came = act()
            if asyncio.iscoroutine(came):
                await came

    return before


async def clean(played: Played) -> Story:
    """Return the story as it goes where nothing fails."""
    assert await played.live() is None
    return Story(played.lives)


async def test_answer_that_is_lost_on_the_way_changes_nothing(wire: Proxy, store: SQLStore, tmp_path: Path) -> None:
    first = Played("steps", store, tmp_path, "clean")
    whole = await clean(first)

    def lose() -> None:
        wire.loses_answer = True

    for number in range(first.writes):
        played = Played("steps", store, tmp_path, f"lost-{number}")
        assert await played.live(at(number, lose)) is None
        assert list(faults(Story(played.lives), whole)) == [], f"lost the answer to write {number}"
    assert first.writes - 3 <= wire.lost <= first.writes  # results of one moment may share a write


@pytest.mark.parametrize("number", [0, 1, 5, 9])
@pytest.mark.parametrize("how", ["cut", "hang"])
async def test_short_outage_is_ridden_out(how: str, number: int, wire: Proxy, hasty: SQLStore, tmp_path: Path) -> None:
    whole = await clean(Played("steps", hasty, tmp_path, "clean"))
    mended: list[asyncio.Task[None]] = []

    async def away() -> None:
        getattr(wire, how)()
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, lambda: mended.append(loop.create_task(wire.mend())))

    played = Played("steps", hasty, tmp_path, "away")
    assert await played.live(at(number, away)) is None
    assert len(mended) == 1
    assert list(faults(Story(played.lives), whole)) == []


@pytest.mark.parametrize("number", [1, 5, 9])
async def test_long_outage_fails_the_run_which_goes_on_exactly_afterwards(
    number: int, wire: Proxy, hasty: SQLStore, tmp_path: Path
) -> None:
    whole = await clean(Played("steps", hasty, tmp_path, "clean"))
    played = Played("steps", hasty, tmp_path, "away")
    failed = await played.live(at(number, wire.cut))
    assert failed is not None
    assert "Postgres was out of reach" in str(failed)
    await wire.mend()
    assert list(faults(await played.to_the_end(), whole)) == []


async def test_server_that_is_started_anew_is_waited_for(
    postgres_server: Server, postgres: str, tmp_path: Path
) -> None:
    async with SQLStore(postgres, timeout_s=20) as store:
        whole = await clean(Played("nested", store, tmp_path, "clean"))
        played = Played("nested", store, tmp_path, "away")

        async def again() -> None:
            await asyncio.to_thread(postgres_server.stop)
            starting.append(asyncio.create_task(asyncio.to_thread(postgres_server.start)))

        starting: list[asyncio.Task[None]] = []
        assert await played.live(at(7, again)) is None
        await starting[0]
        assert list(faults(Story(played.lives), whole)) == []


# The store alone.


async def test_claim_whose_answer_was_lost_is_its_makers_and_nobody_elses(wire: Proxy, store: SQLStore) -> None:
    await store.put(some_checkpoint("r1", status="paused"))
    wire.loses_answer = True
    assert await store.claim("r1", 60)
    assert not await store.claim("r1", 60)
    await store.release("r1")
    assert await store.claim("r1", 60)


async def test_resumption_whose_answer_was_lost_has_happened_once(wire: Proxy, store: SQLStore) -> None:
    await store.put(some_checkpoint("r1", status="paused"))
    wire.loses_answer = True
    await store.put(some_checkpoint("r2"), replaces="r1")
    with pytest.raises(ResumeError):
        await store.put(some_checkpoint("r3"), replaces="r1")
    wire.loses_answer = True
    await store.commit("t1", "r2", some_messages(2), expected=0)
    assert list(await store.load("t1")) == some_messages(2)
    assert wire.lost == 2


async def test_server_that_hangs_is_not_waited_for_without_end(wire: Proxy, store: SQLStore) -> None:
    await store.put(some_checkpoint("r1"))
    wire.hang()
    with pytest.raises(StoreError, match="timeout_s=0.5: it did not answer"):
        await store.put(Checkpoint(run_id="r1", part=1, number=1))
    await wire.mend()
    await store.put(Checkpoint(run_id="r1", part=1, number=1))
    whole = await store.get("r1")
    assert whole is not None
    assert whole.part == 1


# A file that another program holds.


def hold(path: Path) -> Callable[[], None]:
    """Keep everybody else from writing to the file; what is returned gives it back."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")

    def give_back() -> None:
        connection.execute("ROLLBACK")
        connection.close()

    return give_back


async def test_file_that_another_program_holds_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLStore(f"sqlite:///{path}", timeout_s=20) as store:
        whole = await clean(Played("steps", store, tmp_path, "clean"))
        for number in (1, 5, 9):
            played = Played("steps", store, tmp_path, f"held-{number}")
            assert await played.live(at(number, lambda: threading.Timer(0.1, hold(path)).start())) is None
            assert list(faults(Story(played.lives), whole)) == []


@pytest.mark.parametrize("number", [1, 5, 9])
async def test_file_that_another_program_keeps_fails_the_run_which_goes_on_exactly_afterwards(
    number: int, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    held: list[Callable[[], None]] = []
    async with SQLStore(f"sqlite:///{path}", timeout_s=0.02) as store:
        whole = await clean(Played("steps", store, tmp_path, "clean"))
        played = Played("steps", store, tmp_path, "held")
        failed = await played.live(at(number, lambda: held.append(hold(path))))
        assert failed is not None
        assert "another program held it for longer than timeout_s=0.02" in str(failed)
        held[0]()
        assert list(faults(await played.to_the_end(), whole)) == []


# A store that works again when the run has failed already.


@pytest.mark.parametrize("number", range(2, 10))
async def test_run_that_failed_as_the_store_was_away_keeps_what_it_had_in_hand(number: int, tmp_path: Path) -> None:
    async with SQLStore(f"sqlite:///{tmp_path}/store.db") as store:

        async def away(now: int) -> None:
            if number <= now < number + RETRIES:
                raise StoreError("away")

        played = Played("steps", store, tmp_path, "away")
        assert await played.live(away) is not None
        story = await played.to_the_end()
        assert story.told("failed: ") == []
        assert set(Counter(one for life in story.lives for one in life.began()).values()) == {1}
        assert story.thread()[-1] == ["assistant", "done", []]
