"""The interrupted step goes on as it stood: what it offered, what was said, and who had said it."""

from typing import Any

import msgspec
import pytest
from tests.interrupts.play import (
    Asks,
    agent,
    answers_to,
    carried,
    go_on,
    guarded,
    paused,
    play,
    results_of,
)

from interpose import Approved, End, Interrupt, Limits, Middleware, Pause, Resolved, ToolContext, tool
from interpose.testing import calls, make_response, text

BOB = ("mail", {"to": "bob"})


async def test_calls_of_a_made_up_response_are_asked_about_like_any_others(how: str) -> None:
    log: list[Any] = []

    class Makes(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            if ctx.step > 0:
                return None
            return make_response([("mail", {"to": "bob"})])

    first = await paused(how, agent(text("done"), tools=[guarded(log)], middleware=[Makes()]))
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log, len(after.requests)) == ("done", [("mail", "bob", 1)], 1)
    assert [step.response.made_by for step in after.result.steps] == ["Makes", None]


async def test_an_end_after_the_answer_ends_the_run(how: str) -> None:
    class Judge(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return End("as you wish") if ctx.answer("go on?") else Pause("go on?")

    first = await paused(how, agent(text("never"), middleware=[Judge()]))
    after = await go_on(first, answers_to(first, Resolved(False)))
    assert (after.result.status, after.result.text, after.requests) == ("finished", "as you wish", [])


async def test_on_the_last_step_nobody_is_asked(how: str) -> None:
    log: list[Any] = []
    played = await play(how, agent(calls(BOB), tools=[guarded(log)], limits=Limits(max_steps=1)))
    assert (played.result.status, played.result.finish_reason, log) == ("finished", "limit", [])


@pytest.mark.parametrize("reason", ["length", "content_filter", "error"])
async def test_after_an_unsafe_finish_nobody_is_asked(how: str, reason: str) -> None:
    log: list[Any] = []
    played = await play(how, agent(calls(BOB, finish_reason=reason), tools=[guarded(log)]))
    assert (played.result.status, played.result.finish_reason, log) == ("finished", reason, [])


async def test_an_unsafe_finish_is_remembered_over_a_pause(how: str) -> None:
    log: list[Any] = []
    turn = calls(("post", {"to": "x"}), finish_reason="length")
    tools = [guarded(log, "post", approval=False)]
    first = await paused(how, agent(turn, tools=tools, middleware=[Asks("before_tools")]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.status, after.result.finish_reason, log) == ("finished", "length", [])


async def test_broken_arguments_are_answered_after_a_pause_as_without_one(how: str) -> None:
    log: list[Any] = []
    turn = calls(("post", '{"to": "x'))
    tools = [guarded(log, "post", approval=False)]
    first = await paused(how, agent(turn, text("sorry"), tools=tools, middleware=[Asks("before_tools")]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, log) == ("sorry", [])
    assert '{"to": "x' in results_of(after.result.messages)[0]


async def test_events_of_an_approved_tool_come_before_its_result() -> None:
    @tool(approval=True)
    async def work(ctx: Any) -> str:
        """Work."""
        return "worked"

    @tool(approval=True)
    async def tells(ctx: ToolContext[Any]) -> str:
        """Tell how far it is."""
        await ctx.emit("progress", 1)
        return "told"

    first = await paused("stream", agent(calls("tells"), text("done"), tools=[tells]))
    after = await go_on(first, answers_to(first, Approved()))
    assert after.types.index("CUSTOM") < after.types.index("TOOL_CALL_RESULT")
    assert work.approval is True


async def test_the_idempotency_key_of_a_call_is_the_same_after_the_pause(how: str) -> None:
    keys: list[str] = []

    class Sees(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> None:
            keys.append(call.idempotency_key)

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Sees()]))
    await go_on(first, answers_to(first, Approved()))
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_payload_that_is_a_value_of_a_type_survives_the_checkpoint(how: str) -> None:
    class Plan(msgspec.Struct, frozen=True):
        steps: int

    review = Interrupt[Plan, bool]("plan", payload=Plan, response=bool)

    class Asking(Middleware):
        interrupts = (review,)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [review.request("k", "Fine?", Plan(3))] if (ctx.step, ctx.phase) == (0, "before_model") else None

    first = await paused(how, agent(text("done"), middleware=[Asking()]))
    assert '"steps": 3' in str(carried(first)).replace("'", '"')
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert after.result.text == "done"


async def test_a_run_id_given_to_the_resume_is_its_own(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()), run_id="mine")
    assert after.result.run_id == "mine"


async def test_a_layer_round_the_run_sees_the_pause_and_the_end(how: str) -> None:
    seen: list[Any] = []

    class Round(Middleware):
        async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
            result = await call_next()
            seen.append((result.status, len(result.interrupts)))
            return result

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Round()]))
    await go_on(first, answers_to(first, Approved()))
    assert seen == [("interrupted", 1), ("finished", 0)]
