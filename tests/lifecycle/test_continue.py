"""Turning back for another step, or not."""

from typing import Any

from tests.lifecycle.play import agent, both, results_of

from interpose import Agent, Skip, before_tool_call, on_should_continue
from interpose.testing import calls, text


def counting(log: list[Any]) -> Any:
    async def work(n: int = 0) -> str:
        """Work."""
        log.append(f"work {n}")
        return f"did {n}"

    return work


def many(count: int, **options: Any) -> Any:
    return calls(*[("work", {"n": n}) for n in range(count)], **options)


async def test_a_vote_against_stops_after_the_step_whose_tools_have_run() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(many(1), "never", tools=[counting(log)], middleware=[on_should_continue(lambda ctx, state: False)])

    played = await both(make)
    assert len(played.requests) == 1
    assert played.log == ["work 0"]
    assert played.result.finish_reason == "stopped"
    assert played.endings == ["on_finish"]


async def test_a_vote_can_let_a_number_of_steps_pass() -> None:
    vote = on_should_continue(lambda ctx, state: len(state.steps) < 2)
    played = await both(lambda log: agent(*[many(1)] * 5, tools=[counting(log)], middleware=[vote]))
    assert len(played.requests) == 2


async def test_a_vote_can_count_tool_calls() -> None:
    vote = on_should_continue(lambda ctx, state: state.tool_call_count < 4)
    played = await both(lambda log: agent(*[many(2)] * 5, tools=[counting(log)], middleware=[vote]))
    assert len(played.requests) == 2
    assert len(played.log) == 4


async def test_the_vote_is_asked_after_every_step_and_told_of_it() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def vote(ctx: Any, state: Any) -> None:
            log.append((len(state.steps), state.tool_call_count, state.last_step_tool_call_count, state.finish_reason))

        return agent(many(3), "x", tools=[counting([])], middleware=[on_should_continue(vote)])

    assert (await both(make)).log == [(1, 3, 3, "tool_calls"), (2, 3, 0, "stop")]


async def test_all_votes_are_asked_and_one_against_is_enough() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        votes = [on_should_continue(lambda ctx, state, v=v: log.append(v) or v) for v in (True, False, True)]
        return agent(many(1), "never", tools=[counting([])], middleware=votes)

    played = await both(make)
    assert played.log == [True, False, True]
    assert len(played.requests) == 1


async def test_a_vote_for_going_on_forces_nothing() -> None:
    played = await both(lambda log: agent("x", "never", middleware=[on_should_continue(lambda ctx, state: True)]))
    assert len(played.requests) == 1
    assert played.result.finish_reason == "stop"


async def test_calls_beyond_a_number_can_be_skipped_and_all_are_answered() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def skip(ctx: Any, call: Any) -> Any:
            return Skip("enough") if call.args["n"] >= 3 else None

        return agent(many(8), "x", tools=[counting(log)], middleware=[before_tool_call(skip)])

    played = await both(make)
    assert sorted(played.log) == ["work 0", "work 1", "work 2"]
    assert results_of(played.requests[1].messages) == ["did 0", "did 1", "did 2", *["enough"] * 5]


async def test_where_every_call_is_skipped_the_model_is_asked_again() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(many(2), "x", tools=[counting(log)], middleware=[before_tool_call(lambda ctx, call: Skip("no"))])

    played = await both(make)
    assert played.log == []
    assert results_of(played.requests[1].messages) == ["no", "no"]


async def test_a_vote_that_raises_fails_the_run() -> None:
    def vote(ctx: Any, state: Any) -> None:
        raise ValueError("cannot count")

    played = await both(lambda log: agent(text("x"), middleware=[on_should_continue(vote)]))
    assert repr(played.error) == "ValueError('cannot count')"
    assert played.endings == ["on_error"]
