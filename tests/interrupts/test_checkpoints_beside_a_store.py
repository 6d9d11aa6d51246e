"""With a store, the checkpoint of a result is as good as the run's id, and as the id it is good once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.interrupts.play import answers_to, by_id, go_on, refused, waiting

from interpose import Approved, ResumeError
from interpose.stores import MemoryStore, SQLStore, Store


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async with SQLStore(f"sqlite:///{tmp_path}/threads.db") as opened:
        yield opened


async def test_a_run_goes_on_from_its_checkpoint_and_neither_way_again(how: str, store: Store) -> None:
    log: list[Any] = []
    first = await waiting(how, store, log)
    answers = answers_to(first, Approved())
    after = await go_on(first, answers)
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
    await refused(first, answers)
    assert isinstance((await by_id(first, answers)).error, ResumeError)
    roles = ["user", "assistant", "tool", "assistant"]
    assert [message.role for message in await store.load("t1")] == roles
    assert log == [("mail", "bob", 1)]


async def test_a_checkpoint_is_refused_once_its_run_went_on_by_its_id(how: str, store: Store) -> None:
    log: list[Any] = []
    first = await waiting(how, store, log)
    answers = answers_to(first, Approved())
    assert (await by_id(first, answers)).result.text == "done"
    await refused(first, answers)
    assert log == [("mail", "bob", 1)]
