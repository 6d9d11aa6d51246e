"""A run whose checkpoint is damaged hides no other: it is logged and left out."""

import logging
from typing import Literal

import pytest

from interpose.checkpoint import Checkpoint
from interpose.stores import MemoryStore, SQLStore, Store

Status = Literal["paused", "running"]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Store:
    return MemoryStore() if request.param == "memory" else SQLStore("sqlite://")


@pytest.mark.parametrize("status", ["paused", "running"])
async def test_a_damaged_run_among_others_is_logged_and_left_out(
    store: Store, status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    for run_id in ("a", "c"):
        await store.put(Checkpoint(run_id=run_id, thread_id="t1", status=status))
    await store.put(Checkpoint(run_id="b", status=status))  # no thread: what a lost first part looks like
    with caplog.at_level(logging.WARNING, "interpose"):
        listed = await (store.paused() if status == "paused" else store.unfinished())
    assert [one.run_id for one in listed] == ["a", "c"]
    assert [one for one in caplog.messages if "run 'b'" in one and "first part of this checkpoint is missing" in one]
