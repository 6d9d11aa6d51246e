"""Questions at the four boundaries: what has happened when they are asked, and what follows the answer."""

from typing import Any

import pytest
from tests.interrupts.play import (
    Asks,
    Looks,
    Review,
    agent,
    answers_to,
    asked,
    go_on,
    guarded,
    looks_of,
    paused,
    results_of,
)

from interpose import Approved, Cancelled, HookError, Interrupt, Middleware, Resolved, tool
from interpose.testing import calls, text, text_of

PHASES = ("before_model", "after_model", "before_tools", "after_tools")
ADD = ("add", {"a": 1, "b": 2})


def counted(log: list[Any]) -> Any:
    @tool
    async def add(a: int, b: int) -> int:
        """Return the sum."""
        log.append("add")
        return a + b

    return add


@pytest.mark.parametrize("phase", PHASES)
async def test_after_the_answer_tool_and_model_have_run_as_often_as_without_a_pause(how: str, phase: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(ADD), text("3"), tools=[counted(log)], middleware=[Asks(phase)]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.status, after.result.text, log) == ("finished", "3", ["add"])
    assert len(after.requests) == 2
    assert [message.role for message in after.result.messages] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("phase", PHASES)
async def test_a_boundary_that_was_answered_is_not_asked_again_and_the_others_are(how: str, phase: str) -> None:
    boundaries: list[Any] = []

    class Looking(Middleware):
        def on_interrupt_boundary(self, ctx: Any) -> None:
            boundaries.append((ctx.step, ctx.phase))

    asks = [Looking(), Asks(phase)]
    first = await paused(how, agent(calls(ADD), text("3"), tools=[counted([])], middleware=asks))
    await go_on(first, answers_to(first, Resolved(True)))
    first_step = [at for step, at in boundaries if step == 0]
    assert first_step == list(PHASES)
    assert [at for step, at in boundaries if step == 1] == ["before_model", "after_model"]


@pytest.mark.parametrize("phase", PHASES)
async def test_the_answer_is_told_once_and_typed(how: str, phase: str) -> None:
    asks = Asks(phase)
    first = await paused(how, agent(calls(ADD), text("3"), tools=[counted([])], middleware=[asks]))
    assert asks.told == []
    await go_on(first, answers_to(first, Resolved(True)))
    assert asks.told == [[True]]


@pytest.mark.parametrize("phase", PHASES)
async def test_one_terminal_hook_ends_each_run(how: str, phase: str) -> None:
    look = Looks()
    first = await paused(how, agent(calls(ADD), text("3"), tools=[counted([])], middleware=[look, Asks(phase)]))
    assert [one for one in looks_of(look) if "finish" in one] == ["on_finish interrupted"]
    await go_on(first, answers_to(first, Resolved(True)))
    assert [one for one in looks_of(look) if "finish" in one] == ["on_finish finished"]


async def test_a_resumed_run_is_set_up_and_started_in_the_order_of_a_run(how: str) -> None:
    look = Looks()
    first = await paused(
        how, agent(calls(ADD), text("3"), tools=[counted([])], middleware=[look, Asks("before_tools")])
    )
    looks_of(look)
    await go_on(first, answers_to(first, Resolved(True)))
    assert looks_of(look) == [
        "setup",
        "on_config init",
        "on_interrupt_resolution",
        "on_start",
        "before_tool_call add",
        "after_tool_call add",
        "on_tool_phase_complete",
        "on_step 1",
        "on_config before_model",
        "before_model_call",
        "after_model_call",
        "on_finish finished",
    ]


async def test_a_step_without_its_answer_begins_at_on_step_again(how: str) -> None:
    look = Looks()
    first = await paused(how, agent(text("hi"), middleware=[look, Asks("before_model")]))
    looks_of(look)
    await go_on(first, answers_to(first, Resolved(True)))
    assert looks_of(look)[4:8] == ["on_step 0", "on_config before_model", "before_model_call", "after_model_call"]


async def test_a_pause_behind_the_tools_does_not_tell_their_hooks_again(how: str) -> None:
    look = Looks()
    first = await paused(how, agent(calls(ADD), text("3"), tools=[counted([])], middleware=[look, Asks("after_tools")]))
    assert "on_tool_phase_complete" in looks_of(look)
    await go_on(first, answers_to(first, Resolved(True)))
    assert not {"before_tool_call add", "after_tool_call add", "on_step 0"} & set(looks_of(look))


async def test_text_shown_before_the_pause_is_the_text_of_the_resumed_run(how: str) -> None:
    turn = text("Hello", chunks=("Hel", "lo"))
    first = await paused(how, agent(turn, middleware=[Asks("after_model")]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, after.result.finish_reason, len(after.requests)) == ("Hello", "stop", 1)
    assert text_of(after.events) == ""


@pytest.mark.parametrize("phase", PHASES)
async def test_stop_makes_no_more_calls_and_the_run_finishes(how: str, phase: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(ADD), text("3"), tools=[counted(log)], middleware=[Asks(phase, vote="stop")]))
    ran, called = list(log), len(first.requests)
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.status, log, len(after.requests)) == ("finished", ran, called)
    if called:
        assert len(results_of(after.result.messages)) == 1


@pytest.mark.parametrize("votes", [("continue", "stop"), ("stop", "continue"), ("cancel", "stop"), ("stop", None)])
async def test_the_strictest_vote_wins(how: str, votes: Any) -> None:
    class Votes(Middleware):
        def __init__(self, vote: Any) -> None:
            self.vote = vote

        def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> Any:
            return self.vote

    voters = [Votes(vote) for vote in votes]
    first = await paused(how, agent(text("never"), middleware=[*voters, Asks("before_model")]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.status, after.requests) == ("finished", [])


async def test_cancel_answers_what_waits_and_asks_the_model_again(how: str) -> None:
    log: list[Any] = []
    asks = Asks("after_tools", vote="cancel")
    turn = calls(("mail", {"to": "bob"}), ADD)
    first = await paused(how, agent(turn, text("done"), tools=[guarded(log), counted(log)], middleware=[asks]))
    after = await go_on(first, answers_to(first, Approved(), Resolved(True)))
    assert (after.result.text, log) == ("done", ["add"])
    refusal, result = results_of(after.result.messages)
    assert (bool(refusal), result) == (True, "3")


async def test_stop_answers_what_waits(how: str) -> None:
    log: list[Any] = []

    class Stops(Middleware):
        def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> Any:
            return "stop"

    turn = calls(("mail", {"to": "bob"}))
    first = await paused(how, agent(turn, text("never"), tools=[guarded(log)], middleware=[Stops()]))
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.status, after.result.finish_reason, log, len(after.requests)) == ("finished", "stopped", [], 1)
    assert len(results_of(after.result.messages)) == 1


@pytest.mark.parametrize("vote", ["yes", True, 1, "STOP", ["stop"]], ids=repr)
async def test_what_is_no_vote_is_a_hook_error(how: str, vote: Any) -> None:
    first = await paused(how, agent(text("never"), middleware=[Asks("before_model", vote=vote)]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert isinstance(after.error, HookError)
    assert after.requests == []


async def test_resolutions_of_another_question_are_not_ones_own(how: str) -> None:
    other = Interrupt[Any, str]("other", response=str)
    told: list[Any] = []

    class AsksOther(Middleware):
        interrupts = (other,)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [other.request("k")] if ctx.phase == "before_model" and ctx.step == 0 else None

        def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> None:
            told.append([one.payload for one in resolutions.for_(other)])
            told.append([one.payload for one in resolutions.for_(Review)])
            told.append([one.payload for one in resolutions.all()])

    first = await paused(how, agent(text("hi"), middleware=[AsksOther(), Asks("before_model", keys=("a", "b"))]))
    await go_on(first, answers_to(first, Resolved("yes"), Resolved(True), Resolved(False)))
    assert told == [["yes"], [True, False], ["yes", True, False]]


async def test_a_withdrawn_question_has_no_payload_and_the_run_goes_on(how: str) -> None:
    asks = Asks("before_model")
    first = await paused(how, agent(text("hi"), middleware=[asks]))
    after = await go_on(first, answers_to(first, Cancelled()))
    assert (after.result.text, asks.told) == ("hi", [[None]])


async def test_approvals_are_told_to_the_resolution_hook_too(how: str) -> None:
    told: list[Any] = []

    class Tells(Middleware):
        def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> None:
            told.extend((one.interrupt.id, one.answer) for one in resolutions.all())

    turn = calls(("mail", {"to": "bob"}))
    first = await paused(how, agent(turn, text("done"), tools=[guarded([])], middleware=[Tells()]))
    await go_on(first, answers_to(first, Approved(by="ann")))
    assert told == [(asked(first)[0].id, Approved(by="ann"))]


async def test_a_hook_that_fails_on_the_answers_fails_the_run_before_anything_runs(how: str) -> None:
    log: list[Any] = []

    class Fails(Middleware):
        def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> None:
            raise RuntimeError("broken")

    turn = calls(("mail", {"to": "bob"}))
    first = await paused(how, agent(turn, text("done"), tools=[guarded(log)], middleware=[Fails()]))
    after = await go_on(first, answers_to(first, Approved()))
    assert (type(after.error), log, len(after.requests)) == (RuntimeError, [], 1)


async def test_a_structured_answer_is_made_after_the_resume_and_not_before(how: str) -> None:
    asks = Asks("after_model")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    first = await paused(
        how, agent(calls(ADD), text("3"), text('{"n": 3}'), tools=[counted([])], middleware=[asks], output=schema)
    )
    assert len(first.requests) == 1
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.output, len(after.requests)) == ({"n": 3}, 3)


async def test_questions_of_every_boundary_come_one_after_the_other(how: str) -> None:
    log: list[Any] = []
    asks = [Asks(phase) for phase in PHASES]
    played = await paused(how, agent(calls(ADD), text("3"), tools=[counted(log)], middleware=asks))
    for _ in PHASES[1:]:
        played = await go_on(played, answers_to(played, Resolved(True)))
        assert played.result.status == "interrupted"
    played = await go_on(played, answers_to(played, Resolved(True)))
    assert (played.result.text, log, len(played.requests)) == ("3", ["add"], 2)


async def test_questions_in_two_steps_have_ids_of_their_own(how: str) -> None:
    asks = [Asks("before_model", step=step) for step in (0, 1)]
    first = await paused(how, agent(calls(ADD), text("3"), tools=[counted([])], middleware=asks))
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert second.result.status == "interrupted"
    assert asked(first)[0].id != asked(second)[0].id
    assert (await go_on(second, answers_to(second, Resolved(True)))).result.text == "3"


async def test_what_is_asked_before_the_tools_comes_before_their_approvals(how: str) -> None:
    log: list[Any] = []
    turn = calls(("mail", {"to": "bob"}))
    first = await paused(how, agent(turn, text("done"), tools=[guarded(log)], middleware=[Asks("before_tools")]))
    assert [one.reason for one in asked(first)] == ["review"]
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert [one.tool_call is not None for one in asked(second)] == [True]
    third = await go_on(second, answers_to(second, Approved()))
    assert (third.result.text, log) == ("done", [("mail", "bob", 1)])
