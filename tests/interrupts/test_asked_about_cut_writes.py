"""A person's answer to what a layer asks about a cut call does not let the call run again."""

from typing import Any, Literal

import pytest
from tests.interrupts.play import agent, answers_to, by_id, paused, play
from tests.interrupts.snapshots import snapshot

from interpose import Agent, Middleware, Pause, Resolved, tool
from interpose.stores import MemoryStore
from interpose.testing import calls, text

Place = Literal["before", "behind"]


class Gate(Middleware):
    """Asks about each call of a resumed run, before it or behind it, and calls *dies* once it is answered."""

    def __init__(self, place: Place, dies: Any) -> None:
        self.place = place
        self.dies = dies

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        is_asking = ctx.resumed_from is not None and ctx.answer("sure?") is None
        if ctx.answer("sure?") is not None:
            self.dies()
        if is_asking and self.place == "before":
            return Pause("sure?")
        result = await call_next(call)
        return Pause("sure?") if is_asking else result


def paying(store: MemoryStore, place: Place, paid: list[int], left: list[MemoryStore], *turns: Any) -> Agent[Any]:
    """Return an agent that pays; *left* gets the store as a process that dies in the call or the gate leaves it."""

    def dies() -> None:
        left.append(snapshot(store))

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        dies()
        return "paid"

    return agent(*turns, tools=[pay], middleware=[Gate(place, dies)], store=store)


@pytest.mark.parametrize("place", ["before", "behind"])
async def test_a_cut_write_is_not_repeated_after_its_question_was_answered_and_cut_too(how: str, place: Place) -> None:
    paid: list[int] = []
    left: list[MemoryStore] = []
    turns = (calls(("pay", {"amount": 5})), text("end"))
    await play(how, paying(MemoryStore(), place, paid, left, *turns), run_id="r1")
    asks = paying(left.pop(), place, paid, left, text("end"))
    second = await paused(how, asks, None, resume={}, parent_run_id="r1")
    third = await by_id(second, answers_to(second, Resolved(True)))
    assert (third.result.text, paid) == ("end", [5])
    last = paying(left.pop(), place, paid, left, text("end"))
    (run_id,) = await last.unfinished()
    await play(how, last, None, resume={}, parent_run_id=run_id)
    assert paid == [5]
