"""A layer that asks in `on_start` of every resumed run holds it up, and loses nothing of what it had reached."""

from typing import Any

import pytest
from tests.interrupts.play import Played, agent, asked, by_id, go_on, guarded, paused, play, results_of, worker
from tests.interrupts.snapshots import snapshot

from interpose import Agent, Approved, Middleware, Pause, Resolved
from interpose.stores import MemoryStore
from interpose.testing import calls, text


class AsksFirst(Middleware):
    """Asks whether the run may go on wherever it is not told so."""

    def on_start(self, ctx: Any) -> Any:
        return Pause("may it run?") if ctx.answer("may it run?") is None else None


class Dies(Middleware):
    """Keeps the store as a process leaves it that is killed behind the model's last answer."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.left: list[MemoryStore] = []

    def on_should_continue(self, ctx: Any, state: Any) -> None:
        self.left.append(snapshot(self.store))


def agreed(played: Played) -> dict[str, Any]:
    """Return a yes to all that was asked."""
    return {one.id: Resolved(True) if one.tool_call is None else Approved() for one in asked(played)}


async def to_the_end(played: Played, has_store: bool = True) -> tuple[Played, int]:
    """Agree until the run has finished; return its end, and how often that took an answer."""
    times = 0
    while played.result.status == "interrupted":
        assert times < 9, "it asks for ever"
        played = await (by_id if has_store else go_on)(played, agreed(played))
        times += 1
    return played, times


@pytest.mark.parametrize("has_store", [True, False], ids=["store", "checkpoint"])
async def test_an_approved_call_runs_once_the_other_question_is_answered_too(how: str, has_store: bool) -> None:
    log: list[Any] = []
    work, mail = ("work", {"x": "a"}), ("mail", {"to": "bob"})
    store = MemoryStore() if has_store else None
    tools = [worker(log), guarded(log)]
    made = agent(calls(work), calls(work, mail), text("end"), tools=tools, middleware=[AsksFirst()], store=store)
    after, times = await to_the_end(await paused(how, made, thread_id="t1" if has_store else None), has_store)
    assert times > 1
    assert (after.result.text, log, len(after.requests)) == ("end", ["a", "a", ("mail", "bob", 1)], 3)
    assert results_of(after.result.messages) == ["worked on a", "worked on a", "sent to bob"]


async def test_a_finished_answer_of_a_killed_run_is_not_asked_for_again(how: str) -> None:
    def working(store: MemoryStore, *turns: Any) -> tuple[Agent[Any], Dies]:
        dies = Dies(store)
        return agent(*turns, tools=[worker([])], middleware=[AsksFirst(), dies], store=store), dies

    first, dies = working(MemoryStore(), calls(("work", {"x": "a"})), text("end"))
    before = await paused(how, first, run_id="r1", thread_id="t1")
    await by_id(before, agreed(before))
    other, _ = working(dies.left[-1])
    (run_id,) = await other.unfinished()
    after, times = await to_the_end(await play(how, other, None, resume={}, parent_run_id=run_id))
    assert times == 1
    assert [message.text for message in after.result.messages] == ["Go", "", "worked on a", "end"]
    assert after.requests == []
