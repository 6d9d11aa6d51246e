"""Limits at the edges of a run: in its terminal hooks, and where it goes on after a pause."""

from typing import Any

import pytest
from tests.limits.purse import Purse

from interpose import Agent, Approved, LimitExceeded, Limits, Middleware, ModelProfile, Usage, tool
from interpose.testing import ScriptedModel, calls, text

USED = Usage(50, 10)


class SumsUp(Middleware):
    """Asks a model when the run has ended."""

    def __init__(self) -> None:
        self.refused: list[LimitExceeded] = []

    async def on_finish(self, ctx: Any, info: Any) -> None:
        try:
            await ctx.generate("Sum up.")
        except LimitExceeded as error:
            self.refused.append(error)


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(max_model_calls=1), "max_model_calls"),
        (Limits(max_total_tokens=60), "max_total_tokens"),
        (Limits(budgets=[Purse(60)]), "purse"),
    ],
    ids=["calls", "tokens", "budget"],
)
async def test_a_call_of_a_terminal_hook_is_refused_with_an_error_that_it_can_catch(limits: Limits, name: str) -> None:
    model, sums = ScriptedModel(text("x", usage=USED), text("never")), SumsUp()
    result = await Agent(model, middleware=[sums], limits=limits).run("go")
    assert (result.text, result.finish_reason, len(model.requests)) == ("x", "stop", 1)
    assert [one.limit for one in sums.refused] == [name]


@tool(approval=True)
async def pay(n: int) -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize(
    "limits",
    [Limits(max_total_tokens=60), Limits(max_model_calls=1), Limits(max_cost_usd=60.0)],
    ids=["tokens", "calls", "cost"],
)
@pytest.mark.parametrize("before", [Limits(), Limits(max_model_calls=99)], ids=["no limit before", "another before"])
async def test_limits_of_a_resumed_run_count_what_was_spent_before_the_pause(limits: Limits, before: Limits) -> None:
    profile = ModelProfile(input_price=1e6, output_price=1e6)
    model = ScriptedModel(calls(("pay", {"n": 1}), usage=USED), text("never"), profile=profile)
    agent: Agent[Any] = Agent(model, tools=[pay], limits=before)
    paused = await agent.run("go")
    assert paused.checkpoint is not None
    result = await agent.resume(paused.checkpoint, {paused.interrupts[0].id: Approved()}, limits=limits)
    assert (result.finish_reason, len(model.requests)) == ("limit", 1)
    assert result.steps[0].tool_results[0].data == "paid"
