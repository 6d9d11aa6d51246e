"""What people decided can be read from the record: the decision, its id, by whom, and when."""

from typing import Any

import pytest
from tests.layers.play import agent_of

from interpose import Approved, Cancelled, Middleware, Rejected, tool
from interpose.testing import calls, text

PAY = ("pay", {"amount": 3})


class Watches(Middleware):
    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def on_node(self, ctx: Any, node: Any) -> None:
        if node.phase == "end":
            self.nodes.append(node)

    def take(self, kind: str) -> list[Any]:
        return [node for node in self.nodes if node.kind == kind]


@tool(approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


ANSWERS = {
    "approved": (Approved(by="ann"), {"decision": "approved", "by": "ann"}),
    "edited": (Approved({"amount": 1}, by="ann"), {"decision": "approved", "by": "ann", "edited_args": {"amount": 1}}),
    "rejected": (Rejected("too much", by="bob"), {"decision": "rejected", "by": "bob", "reason": "too much"}),
    "cancelled": (Cancelled(), {"decision": "cancelled", "by": None}),
}


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.values(), ids=ANSWERS)
async def test_decision_stands_on_the_node_of_the_call(answer: Any, expected: dict[str, Any]) -> None:
    watches = Watches()
    agent = agent_of(calls(PAY), text("x"), tools=[pay], middleware=[watches])
    paused = await agent.run("go")
    asked = watches.take("tool")[0].meta["approval"]
    (interrupt,) = paused.interrupts
    assert paused.checkpoint is not None
    assert asked == {"decision": "asked", "interrupt_id": interrupt.id, "reason": "tool_approval"}
    watches.nodes.clear()
    result = await agent.resume(paused.checkpoint, {interrupt.id: answer})
    (call,) = watches.take("tool")
    told = dict(call.meta["approval"])
    assert told.pop("interrupt_id") == interrupt.id
    assert told.pop("asked") == "tool_approval"
    (run,) = watches.take("run")
    assert told.pop("time") == run.started_at
    assert told == expected
    assert run.meta["answers"][0]["interrupt_id"] == interrupt.id
    assert (run.resumed_from, result.text) == (paused.run_id, "x")
