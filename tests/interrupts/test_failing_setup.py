"""A resume that fails in `setup` leaves the run that it was to go on with as it was."""

from typing import Any, Literal

import pytest
from tests.interrupts.play import agent, answers_to, asked, by_id, play, waiting
from tests.interrupts.snapshots import snapshot

from interpose import Approved, Middleware, RunAborted
from interpose.stores import MemoryStore, Store
from interpose.testing import text


class Connects(Middleware):
    """Cannot connect while *fails* says in which way."""

    fails: Literal["raises", "aborts"] | None = None

    def setup(self, ctx: Any) -> None:
        if self.fails == "raises":
            raise ConnectionError("the vault is away")
        if self.fails == "aborts":
            ctx.abort("the vault is away")


class Dies(Middleware):
    """Keeps the store as a process leaves it that is killed in the first model call."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.left: list[MemoryStore] = []

    def before_model_call(self, ctx: Any, request: Any) -> None:
        self.left.append(snapshot(self.store))


@pytest.mark.parametrize("fails", ["raises", "aborts"])
async def test_a_paused_run_waits_on_and_takes_the_answers_later(how: str, store: Store, fails: Any) -> None:
    log: list[Any] = []
    connects = Connects()
    first = await waiting(how, store, log, middleware=[connects])
    connects.fails = fails
    failed = await by_id(first, answers_to(first, Approved()))
    assert isinstance(failed.error, ConnectionError | RunAborted)
    connects.fails = None
    assert [one.id for one in await first.agent.pending("t1")] == [one.id for one in asked(first)]
    after = await by_id(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
    roles = ["user", "assistant", "tool", "assistant"]
    assert [message.role for message in await store.load("t1")] == roles


@pytest.mark.parametrize("fails", ["raises", "aborts"])
async def test_a_killed_run_can_still_be_resumed(how: str, fails: Any) -> None:
    store = MemoryStore()
    dies, connects = Dies(store), Connects()
    await play(how, agent(text("lost"), middleware=[dies], store=store), run_id="r1", thread_id="t1")
    other = agent(text("end"), middleware=[connects], store=dies.left[0])
    connects.fails = fails
    failed = await play(how, other, None, resume={}, parent_run_id="r1")
    assert isinstance(failed.error, ConnectionError | RunAborted)
    connects.fails = None
    (run_id,) = await other.unfinished()
    after = await play(how, other, None, resume={}, parent_run_id=run_id)
    assert after.result.text == "end"
    assert [message.text for message in after.result.messages] == ["Go", "end"]
