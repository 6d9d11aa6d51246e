"""Pauses, approvals and questions: what is asked, in which order, and what is not run meanwhile."""

from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, errors_of, run_once, stream_once

from interpose import (
    HookError,
    Middleware,
    Pause,
    ProviderDown,
    tool,
)
from interpose.testing import calls, event_types, text

ONE = ("echo", {"x": "1"})


async def again(ctx: Any, request: Any, call_next: Any) -> Any:
    try:
        return await call_next(request)
    except ProviderDown:
        return await call_next.again(request)


async def test_a_paused_run_lists_every_question_in_the_order_of_the_calls() -> None:
    @tool(approval=True)
    async def pay(n: int) -> int:
        """Pay."""
        return n

    turn = calls(("pay", {"n": 1}), ("pay", {"n": 2}), ("pay", {"n": 3}))
    played = await both(lambda log: agent_of(turn, tools=[pay]))
    asked = [one.tool_call.args["n"] for one in played.result.interrupts if one.tool_call]
    assert asked == [1, 2, 3]
    assert len({one.id for one in played.result.interrupts}) == 3
    outcome = played.events[-1].outcome
    assert outcome["type"] == "interrupt"
    assert [one["id"] for one in outcome["interrupts"]] == [one.id for one in played.result.interrupts]


async def test_bad_arguments_are_answered_before_anybody_is_asked() -> None:
    @tool(approval=True)
    async def pay(n: int) -> int:
        """Pay."""
        return n

    played = await both(lambda log: agent_of(calls(("pay", {"n": "many"})), text("x"), tools=[pay]))
    assert played.result.status == "finished"
    assert errors_of(played.result) == [True]


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_rule_of_approval_is_asked_with_typed_arguments_and_may_be_async(wanted: bool) -> None:
    seen: list[Any] = []

    async def rule(ctx: Any, call: Any) -> bool:
        seen.append(call.args["n"])
        return wanted

    @tool(approval=rule)
    async def pay(n: int) -> int:
        """Pay."""
        return n

    played = await both(lambda log: agent_of(calls(("pay", {"n": "3"})), text("x"), tools=[pay]))
    assert played.result.status == ("interrupted" if wanted else "finished")
    assert set(seen) == {3}


async def test_a_rule_of_approval_that_raises_does_not_let_the_call_run() -> None:
    ran: list[int] = []

    def rule(ctx: Any, call: Any) -> bool:
        raise RuntimeError("the rule is broken")

    @tool(approval=rule)
    async def pay() -> str:
        """Pay."""
        ran.append(1)
        return "x"

    await stream_once(lambda log: agent_of(calls("pay"), text("x"), tools=[pay]))
    assert ran == []


async def test_a_rewrite_of_the_name_brings_the_other_tools_approval() -> None:
    ran: list[int] = []

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        ran.append(1)
        return "x"

    played = await both(
        lambda log: agent_of(
            calls(("echo", {"x": "1"})),
            text("x"),
            tools=[echo, pay],
            before_tool=lambda ctx, call: call.replace(name="pay", args={}),
        )
    )
    assert played.result.status == "interrupted"
    assert ran == []


async def test_a_pause_of_the_model_seam_stops_before_anything_is_said() -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return Pause("ok?", {"tokens": 5})

    played = await both(lambda log: agent_of(text("never"), middleware=[Gate()]))
    assert event_types(played.events) == ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]
    assert played.result.interrupts[0].value == {"tokens": 5}


async def test_a_pause_with_a_value_that_json_cannot_hold_is_no_broken_stream() -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return Pause("ok?", object())

    played = await both_ways_alive(lambda log: agent_of(text("never"), middleware=[Gate()]))
    for event in played.events:
        event.to_json().encode()
    assert event_types(played.events)[-1] == "RUN_FINISHED"
    assert (played.result.status, len(played.result.interrupts)) == ("interrupted", 1)


async def both_ways_alive(make: Any) -> Any:
    """Play both ways, for values that do not compare."""
    await run_once(make)
    return await stream_once(make)


async def test_interrupt_requests_of_all_middleware_are_one_batch() -> None:
    from interpose import Interrupt

    review: Interrupt[Any, Any] = Interrupt("review")
    check: Interrupt[Any, Any] = Interrupt("check")

    class Asks(Middleware):
        def __init__(self, definition: Any) -> None:
            self.interrupts = (definition,)
            self.definition = definition

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [self.definition.request("k", "Fine?", {"a": 1})] if ctx.phase == "before_model" else None

    played = await both(lambda log: agent_of(text("never"), middleware=[Asks(review), Asks(check)]))
    assert [one.reason for one in played.result.interrupts] == ["review", "check"]
    assert played.requests == []


async def test_an_interrupt_that_nobody_declared_is_a_hook_error() -> None:
    from interpose import Interrupt

    class Asks(Middleware):
        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [Interrupt("hidden").request("k", "Fine?")]

    played = await both(lambda log: agent_of(text("never"), middleware=[Asks()]))
    assert isinstance(played.error, HookError)
    assert "hidden" in str(played.error)
