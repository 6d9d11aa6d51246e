"""A question inside an agent that is used as a tool: it surfaces at the top and is answered downwards."""

import json
from typing import Any

import pytest
from tests.interrupts.play import (
    Asks,
    Played,
    agent,
    answers_to,
    asked,
    go_on,
    guarded,
    paused,
    refused,
    results_of,
    shown,
)

from interpose import Agent, Approved, Middleware, Pause, Rejected, Resolved, tool
from interpose.testing import ScriptedModel, calls, text

BOB = ("mail", {"to": "bob"})
ASK = ("helper", {"prompt": "Mail bob"})


def inner(*turns: Any, **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel(*turns), **{"post_model_hooks": (), **options})


def nested(log: list[Any], *turns: Any, **options: Any) -> tuple[Agent[Any], Agent[Any]]:
    """Return an agent that asks its helper once and then says "all done", and the helper."""
    helper = inner(*(turns or (calls(BOB), text("mailed"))), **{"tools": [guarded(log)], **options})
    return agent(calls(ASK), text("all done"), tools=[helper.as_tool("helper", "Helps.")]), helper


async def test_a_question_of_a_nested_run_is_one_of_the_outer_run(how: str) -> None:
    log: list[Any] = []
    outer, _ = nested(log)
    first = await paused(how, outer)
    (question,) = asked(first)
    assert question.tool_call is not None
    assert (question.tool_call.name, dict(question.tool_call.args)["to"], log) == ("mail", "bob", [])


async def test_the_answer_goes_down_and_the_result_comes_up(how: str) -> None:
    log: list[Any] = []
    outer, helper = nested(log)
    first = await paused(how, outer)
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("all done", [("mail", "bob", 1)])
    assert results_of(after.result.messages) == ["mailed"]
    assert (len(after.requests), len(helper.model.requests)) == (2, 2)  # type: ignore[attr-defined]  # is scripted


async def test_a_rejection_goes_down(how: str) -> None:
    log: list[Any] = []
    outer, helper = nested(log, calls(BOB), text("not mailed"))
    first = await paused(how, outer)
    after = await go_on(first, answers_to(first, Rejected("no")))
    assert (results_of(after.result.messages), log) == (["not mailed"], [])
    assert "no" in helper.model.requests[-1].messages[-1].text  # type: ignore[attr-defined]  # is scripted


async def test_an_edit_goes_down(how: str) -> None:
    log: list[Any] = []
    outer, _ = nested(log)
    first = await paused(how, outer)
    await go_on(first, answers_to(first, Approved({"to": "eve", "n": 1})))
    assert log == [("mail", "eve", 1)]


async def test_earlier_steps_of_the_nested_run_are_not_repeated(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        log.append("calc")
        return "42"

    turns = (calls("calc"), calls("calc"), calls("calc", BOB), text("mailed"))
    outer, helper = nested(log, *turns, tools=[calc, guarded(log)])
    first = await paused(how, outer)
    await go_on(first, answers_to(first, Approved()))
    assert log == ["calc", "calc", "calc", ("mail", "bob", 1)]
    assert len(helper.model.requests) == 4  # type: ignore[attr-defined]  # is scripted


async def test_a_sibling_of_the_nested_run_is_not_repeated(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        log.append("calc")
        return "42"

    helper = inner(calls(BOB), text("mailed"), tools=[guarded(log)])
    outer = agent(calls(ASK, "calc"), text("all done"), tools=[helper.as_tool("helper", "Helps."), calc])
    first = await paused(how, outer)
    after = await go_on(first, answers_to(first, Approved()))
    assert results_of(after.result.messages) == ["mailed", "42"]
    assert log == ["calc", ("mail", "bob", 1)]


async def test_a_question_two_levels_down_surfaces_and_is_answered(how: str) -> None:
    log: list[Any] = []
    lowest = inner(calls(BOB), text("mailed"), tools=[guarded(log)])
    middle = inner(
        calls(("lowest", {"prompt": "Mail"})), text("lowest did it"), tools=[lowest.as_tool("lowest", "Low.")]
    )
    outer = agent(calls(ASK), text("all done"), tools=[middle.as_tool("helper", "Helps.")])
    first = await paused(how, outer)
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("all done", [("mail", "bob", 1)])
    assert results_of(after.result.messages) == ["lowest did it"]
    counts = [len(one.model.requests) for one in (outer, middle, lowest)]  # type: ignore[attr-defined]  # are scripted
    assert counts == [2, 2, 2]


async def two_helpers(how: str, log: list[Any]) -> Played:
    one = inner(calls(("mail", {"to": "a"})), text("one mailed"), tools=[guarded(log)])
    two = inner(calls(("mail", {"to": "b"})), text("two mailed"), tools=[guarded(log)])
    turn = calls(("one", {"prompt": "x"}), ("two", {"prompt": "x"}))
    outer = agent(turn, text("all done"), tools=[one.as_tool("one", "One."), two.as_tool("two", "Two.")])
    return await paused(how, outer)


async def test_questions_of_two_nested_runs_are_one_batch_and_each_gets_its_answer(how: str) -> None:
    log: list[Any] = []
    first = await two_helpers(how, log)
    assert len({one.id for one in asked(first)}) == 2
    after = await go_on(first, answers_to(first, Approved(), Rejected()))
    assert log == [("mail", "a", 1)]
    assert results_of(after.result.messages) == ["one mailed", "two mailed"]


async def test_an_answer_missing_for_one_nested_run_refuses_the_whole(how: str) -> None:
    log: list[Any] = []
    first = await two_helpers(how, log)
    problems = await refused(first, {asked(first)[0].id: Approved()})
    assert ([key for key, _ in problems], log) == ([asked(first)[1].id], [])


async def test_a_mistyped_edit_for_a_nested_run_is_refused_before_anything_runs(how: str) -> None:
    log: list[Any] = []
    outer, _ = nested(log)
    first = await paused(how, outer)
    problems = await refused(first, answers_to(first, Approved({"to": 5})))
    assert ([key for key, _ in problems], log) == ([asked(first)[0].id], [])


async def test_a_question_at_a_boundary_of_a_nested_run_surfaces(how: str) -> None:
    asks = Asks("before_model")
    outer, helper = nested([], text("mailed"), tools=[], middleware=[asks])
    first = await paused(how, outer)
    assert [one.reason for one in asked(first)] == ["review"]
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (results_of(after.result.messages), asks.told) == (["mailed"], [[True]])
    assert len(helper.model.requests) == 1  # type: ignore[attr-defined]  # is scripted


async def test_a_pause_of_a_hook_in_a_nested_run_surfaces(how: str) -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return None if ctx.answer("ok?") else Pause("ok?")

    outer, _ = nested([], text("mailed"), tools=[], middleware=[Gate()])
    first = await paused(how, outer)
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert results_of(after.result.messages) == ["mailed"]


async def test_a_nested_run_may_ask_again_in_the_resumed_run(how: str) -> None:
    log: list[Any] = []
    outer, _ = nested(log, calls(BOB), calls(("mail", {"to": "ada"})), text("mailed both"))
    first = await paused(how, outer)
    second = await go_on(first, answers_to(first, Approved()))
    assert (second.result.status, log) == ("interrupted", [("mail", "bob", 1)])
    third = await go_on(second, answers_to(second, Approved()))
    assert (results_of(third.result.messages), log) == (["mailed both"], [("mail", "bob", 1), ("mail", "ada", 1)])


async def test_each_nested_run_calls_one_terminal_hook(how: str) -> None:
    ended: list[Any] = []

    class Ends(Middleware):
        def on_finish(self, ctx: Any, info: Any) -> None:
            ended.append(info.status)

        def on_error(self, ctx: Any, info: Any) -> None:
            ended.append("error")

        def on_abort(self, ctx: Any, info: Any) -> None:
            ended.append("abort")

    outer, _ = nested([], middleware=[Ends()])
    first = await paused(how, outer)
    assert ended == ["interrupted"]
    await go_on(first, answers_to(first, Approved()))
    assert ended == ["interrupted", "finished"]


async def test_the_call_of_the_nested_run_is_shown_once_and_answered_once() -> None:
    outer, _ = nested([])
    first = await paused("stream", outer)
    after = await go_on(first, answers_to(first, Approved()))
    types = [event.type for event in shown(first, after)]
    assert [types.count(f"TOOL_CALL_{one}") for one in ("START", "ARGS", "END", "RESULT")] == [1, 1, 1, 1]


async def test_the_checkpoint_of_the_outer_run_holds_the_nested_one(how: str) -> None:
    log: list[Any] = []
    outer, _ = nested(log)
    first = await paused(how, outer)
    again, helper = nested(log, text("mailed"))
    after = await go_on(first, answers_to(first, Approved()), agent(text("all done"), tools=again.tools))
    assert (after.result.text, log) == ("all done", [("mail", "bob", 1)])
    assert len(helper.model.requests) == 1  # type: ignore[attr-defined]  # is scripted


async def test_a_tool_that_runs_an_agent_needs_approval_like_any_other(how: str) -> None:
    helper = inner(text("helped"))
    outer = agent(calls(ASK), text("all done"), tools=[helper.as_tool("helper", "Helps.").replace(approval=True)])
    first = await paused(how, outer)
    assert helper.model.requests == []  # type: ignore[attr-defined]  # is scripted
    after = await go_on(first, answers_to(first, Approved()))
    assert results_of(after.result.messages) == ["helped"]


@pytest.mark.parametrize("vote", ["cancel", "stop"])
async def test_a_vote_against_going_on_answers_the_call_of_the_nested_run(how: str, vote: str) -> None:
    log: list[Any] = []

    class Votes(Middleware):
        def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> Any:
            return vote

    helper = inner(calls(BOB), tools=[guarded(log)])
    outer = agent(calls(ASK), text("all done"), tools=[helper.as_tool("helper", "Helps.")], middleware=[Votes()])
    first = await paused(how, outer)
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.status, log, len(results_of(after.result.messages))) == ("finished", [], 1)
    json.dumps(after.result.to_dict())
