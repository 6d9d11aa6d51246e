"""A run that cannot be read, since it is damaged or of a newer release, hides no other."""

import logging

import pytest

from interpose import ResumeError
from interpose.checkpoint import Checkpoint
from interpose.stores import MemoryStore, SQLStore, Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Store:
    return MemoryStore() if request.param == "memory" else SQLStore("sqlite://")


async def listed(store: Store, thread_id: str | None = None) -> list[str]:
    runs = [*await store.paused(thread_id), *await store.unfinished(thread_id)]
    return [one.run_id for one in runs]


async def filled(store: Store) -> None:
    """Put a run that waits and one that was killed on the thread "t1", and unreadable ones on "t2"."""
    for status in ("paused", "running"):
        await store.put(Checkpoint(run_id=f"{status} run", thread_id="t1", status=status))
        await store.put(Checkpoint(version=99, run_id=f"newer {status} run", thread_id="t2", status=status))


async def test_the_runs_of_the_store_are_those_that_can_be_read(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    await filled(store)
    with caplog.at_level(logging.WARNING, "interpose"):
        assert await listed(store) == ["paused run", "running run"]
    assert [one for one in caplog.messages if "newer paused run" in one and "version 99" in one]


async def test_the_runs_of_another_thread_are_listed(store: Store) -> None:
    await filled(store)
    assert await listed(store, "t1") == ["paused run", "running run"]


async def test_a_thread_that_an_unreadable_run_waits_on_says_so(store: Store) -> None:
    await filled(store)
    with pytest.raises(ResumeError, match="'newer paused run' cannot be gone on with.*version 99"):
        await store.paused("t2")
    with pytest.raises(ResumeError, match="'newer running run' cannot be gone on with.*version 99"):
        await store.unfinished("t2")
