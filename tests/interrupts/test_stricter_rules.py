"""An approval rule that one step made stricter than the tool's own holds for its calls after a crash too."""

from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, by_id, paused
from tests.interrupts.snapshots import snapshot

from interpose import Agent, Approved, Middleware, tool
from interpose.stores import MemoryStore
from interpose.testing import calls, text


def always(ctx: Any, call: Any) -> bool:
    return True


class Strict(Middleware):
    """Offers *paying* in place of the tool, in the configuration of the step or in the request alone."""

    def __init__(self, paying: Any, where: str, left: list[MemoryStore], store: MemoryStore) -> None:
        self.paying = paying
        self.where = where
        self.left = left
        self.store = store

    def on_config(self, ctx: Any, config: Any) -> Any:
        is_here = self.where == "config" and ctx.phase == "before_model"
        return config.replace(tools=[self.paying]) if is_here else None

    def before_model_call(self, ctx: Any, request: Any) -> Any:
        return request.with_tools([self.paying]) if self.where == "request" else None

    def on_interrupt_boundary(self, ctx: Any) -> None:
        if ctx.phase == "before_tools":  # killed here: nobody has been asked yet
            self.left.append(snapshot(self.store))


@pytest.mark.parametrize("rule", [True, always], ids=["bool", "predicate"])
@pytest.mark.parametrize("where", ["config", "request"])
async def test_the_call_of_a_killed_run_waits_for_its_approval(how: str, where: str, rule: Any) -> None:
    paid: list[int] = []
    left: list[MemoryStore] = []

    @tool(approval=lambda ctx, call: call.args["amount"] > 100)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def paying(store: MemoryStore, *turns: Any) -> Agent[Any]:
        strict = Strict(pay.replace(approval=rule), where, left, store)
        return agent(*turns, tools=[pay], middleware=[strict], store=store)

    await paused(how, paying(MemoryStore(), calls(("pay", {"amount": 5}))), run_id="r1")
    second = await paused(how, paying(left[0], text("end")), None, resume={}, parent_run_id="r1")
    assert paid == []
    after = await by_id(second, answers_to(second, Approved()))
    assert (after.result.text, paid) == ("end", [5])
