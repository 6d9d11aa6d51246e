"""A call that changes something and was cut by a crash does not run again unless a person says so."""

from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, by_id, paused, play
from tests.interrupts.snapshots import snapshot

from interpose import Approved, RunResult, tool
from interpose.builtin import Approval
from interpose.stores import MemoryStore
from interpose.testing import calls, text


class Payments:
    """A tool that pays, and the store as a process that dies in a payment leaves it, by amount."""

    def __init__(self, approval: Any) -> None:
        self.store = MemoryStore()
        self.left: dict[int, MemoryStore] = {}
        self.paid: list[int] = []

        @tool(approval=approval)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            self.left.setdefault(amount, snapshot(self.store))
            return "paid"

        self.tool = pay

    async def after_dying_in(self, amount: int, run_id: str, middleware: Any = ()) -> RunResult:
        """Return what comes of the run where it goes on from the payment of *amount*."""
        other = agent(text("end"), tools=[self.tool], middleware=middleware, store=self.left[amount])
        return await other.resume(run_id)


def is_not_repeated(result: RunResult) -> bool:
    """Whether the cut call is asked about, or answered with an error."""
    return result.status == "interrupted" or result.steps[0].tool_results[0].is_error


def above_100(ctx: Any, call: Any) -> bool:
    return bool(call.args["amount"] > 100)


RULES = [Approval([Approval.ask("pay", amount=Approval.above(100))])]


@pytest.mark.parametrize(("approval", "middleware"), [(above_100, []), (False, RULES)], ids=["predicate", "rules"])
async def test_a_cut_write_that_nobody_is_asked_about_is_not_repeated(how: str, approval: Any, middleware: Any) -> None:
    payments = Payments(approval)
    turns = (calls(("pay", {"amount": 5})), text("x"))
    made = agent(*turns, tools=[payments.tool], middleware=middleware, store=payments.store)
    await play(how, made, run_id="r1", thread_id="t1")
    result = await payments.after_dying_in(5, "r1", middleware)
    assert (is_not_repeated(result), payments.paid) == (True, [5])


async def test_a_cut_write_that_is_always_approved_is_not_repeated(how: str) -> None:
    payments = Payments(approval=True)
    turns = (calls(("pay", {"amount": 5})), text("x"), calls(("pay", {"amount": 6})), text("y"))
    made = agent(*turns, tools=[payments.tool], store=payments.store)
    first = await paused(how, made, thread_id="t1")
    await by_id(first, answers_to(first, Approved(always="tool")))
    await play(how, made, thread_id="t1", run_id="r3")
    result = await payments.after_dying_in(6, "r3")
    assert (is_not_repeated(result), payments.paid) == (True, [5, 6])
