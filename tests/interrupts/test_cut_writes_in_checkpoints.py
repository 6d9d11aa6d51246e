"""A whole checkpoint, and that of a nested run, keeps which writes were cut: an answer does not repeat them."""

from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, by_id, go_on, paused, play
from tests.interrupts.snapshots import snapshot

from interpose import Agent, Middleware, Pause, Resolved, tool
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, text


class Gate(Middleware):
    """Asks behind each call that has not been asked about."""

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        return Pause("sure?") if ctx.answer("sure?") is None else result


class Payments:
    """A tool that pays, and the store as a process that dies in the payment leaves it."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.left: list[MemoryStore] = []

    def options(self, store: MemoryStore) -> dict[str, Any]:
        """Return what an agent needs to pay, through the gate."""

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            self.left.append(snapshot(store))
            return "paid"

        return {"tools": [pay], "middleware": [Gate()]}

    def alone(self, store: MemoryStore, *turns: Any) -> Agent[Any]:
        return agent(*turns, store=store, **self.options(store))

    def nested(self, store: MemoryStore, outer: Any, *turns: Any) -> Agent[Any]:
        """Return an agent whose helper pays; *turns* are the helper's."""
        helper: Agent[Any] = Agent(ScriptedModel(*turns), name="helper", **self.options(store))
        return agent(*outer, tools=[helper.as_tool("help", "Helps.")], store=store)


PAY = calls(("pay", {"amount": 5}))


@pytest.mark.parametrize("goes_on", [by_id, go_on], ids=["id", "checkpoint"])
async def test_a_cut_write_is_not_repeated_however_its_run_is_resumed(how: str, goes_on: Any) -> None:
    payments = Payments()
    await play(how, payments.alone(MemoryStore(), PAY), run_id="r1")
    other = payments.alone(payments.left[0], text("end"))
    second = await paused(how, other, None, resume={}, parent_run_id="r1")
    after = await goes_on(second, answers_to(second, Resolved(True)))
    assert (after.result.text, payments.paid) == ("end", [5])


@pytest.mark.parametrize("goes_on", [by_id, go_on], ids=["id", "checkpoint"])
async def test_a_cut_write_of_a_nested_run_is_not_repeated(how: str, goes_on: Any) -> None:
    payments = Payments()
    outer = [calls(("help", {"prompt": "Pay"}))]
    await play(how, payments.nested(MemoryStore(), outer, PAY), run_id="r1")
    other = payments.nested(payments.left[0], [text("end")], text("helped"))
    second = await paused(how, other, None, resume={}, parent_run_id="r1")
    after = await goes_on(second, answers_to(second, Resolved(True)))
    assert (after.result.text, payments.paid) == ("end", [5])
