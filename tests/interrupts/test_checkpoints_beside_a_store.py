"""With a store, the checkpoint of a result is as good as the run's id, and as the id it is good once."""

from typing import Any

from tests.interrupts.play import answers_to, by_id, go_on, refused, waiting

from interpose import Approved, ResumeError
from interpose.stores import Store


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
