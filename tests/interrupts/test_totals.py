"""What counts over a pause: steps, usage, limits, messages and state go on from where they were."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.interrupts.play import Asks, agent, answers_to, asked, go_on, guarded, paused, play, results_of

from interpose import Approved, LimitExceeded, Limits, Middleware, ProviderDown, Rejected, Resolved, Usage, tool
from interpose.testing import calls, fail, text

BOB = ("mail", {"to": "bob"})
ADA = ("mail", {"to": "ada"})
COST = Usage(input_tokens=10, output_tokens=1)


async def test_usage_is_that_of_both_runs(how: str) -> None:
    turns = (calls(BOB, usage=COST), text("done", usage=COST))
    first = await paused(how, agent(*turns, tools=[guarded([])]))
    assert first.result.usage.input_tokens == 10
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.usage.input_tokens, after.result.usage.output_tokens) == (20, 2)


async def test_usage_that_is_unknown_stays_unknown_over_a_pause(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert after.result.usage.input_tokens is None


async def test_usage_is_told_to_hooks_once_a_step(how: str) -> None:
    told: list[Any] = []

    class Tells(Middleware):
        def on_usage(self, ctx: Any, usage: Any) -> None:
            told.append(usage.input_tokens)

    turns = (calls(BOB, usage=COST), text("done", usage=COST))
    first = await paused(how, agent(*turns, tools=[guarded([])], middleware=[Tells()]))
    await go_on(first, answers_to(first, Approved()))
    assert told == [10, 10]


async def test_hooks_read_the_usage_of_both_runs(how: str) -> None:
    read: list[Any] = []

    class Reads(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> None:
            read.append((ctx.usage.input_tokens, request.usage.input_tokens, request.number, len(request.steps)))

    turns = (calls(BOB, usage=COST), text("done", usage=COST))
    first = await paused(how, agent(*turns, tools=[guarded([])], middleware=[Reads()]))
    await go_on(first, answers_to(first, Approved()))
    assert read == [(None, None, 0, 0), (10, 10, 1, 1)]


async def test_steps_are_those_of_both_runs_with_their_results(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert [(step.number, step.response.text) for step in after.result.steps] == [(0, ""), (1, "done")]
    assert [[one.data for one in step.tool_results] for step in after.result.steps] == [["sent to bob"], []]


async def test_steps_before_the_paused_one_are_kept(how: str) -> None:
    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    turns = (calls("calc", usage=COST), calls("calc", BOB, usage=COST), text("done", usage=COST))
    first = await paused(how, agent(*turns, tools=[calc, guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert [step.number for step in after.result.steps] == [0, 1, 2]
    assert [[one.data for one in step.tool_results] for step in after.result.steps] == [
        ["42"],
        ["42", "sent to bob"],
        [],
    ]
    assert after.result.usage.input_tokens == 30


async def test_the_messages_are_as_without_a_pause(how: str) -> None:
    turns = (calls(BOB), text("done"))
    first = await paused(how, agent(*turns, tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    straight = await play(how, agent(*turns, tools=[guarded([], approval=False)]))
    assert [(m.role, m.text) for m in after.result.messages] == [(m.role, m.text) for m in straight.result.messages]


async def test_new_messages_are_those_of_both_runs_without_the_input(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert [message.role for message in first.result.new_messages] == ["assistant"]
    assert [message.role for message in after.result.new_messages] == ["assistant", "tool", "assistant"]


async def test_new_messages_leave_out_a_history_that_was_handed_in(how: str) -> None:
    given = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Mail bob"},
    ]
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]), given)
    after = await go_on(first, answers_to(first, Approved()))
    assert [message.role for message in after.result.new_messages] == ["assistant", "tool", "assistant"]
    assert [message.text for message in after.result.messages[:3]] == ["Hi", "Hello", "Mail bob"]


async def test_messages_keep_their_ids_over_a_pause(how: str) -> None:
    first = await paused(how, agent(calls(BOB, text="Now"), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    before = [message.id for message in first.result.messages]
    assert [message.id for message in after.result.messages][: len(before)] == before


async def test_the_thread_is_the_same_and_the_run_a_new_one(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]), thread_id="t1")
    after = await go_on(first, answers_to(first, Approved()))
    assert (first.result.thread_id, after.result.thread_id) == ("t1", "t1")
    assert first.result.run_id != after.result.run_id


@pytest.mark.parametrize("resumed", [Approved(), Rejected()], ids=["approved", "rejected"])
async def test_max_steps_counts_on(how: str, resumed: Any) -> None:
    turns = (calls(BOB), calls(ADA), text("never"))
    made = agent(*turns, tools=[guarded([])], limits=Limits(max_steps=2))
    first = await paused(how, made)
    after = await go_on(first, answers_to(first, resumed))
    assert (after.result.status, after.result.finish_reason, len(after.requests)) == ("finished", "limit", 2)
    assert "limit" in results_of(after.result.messages)[1]


async def test_the_last_allowed_step_knows_it_over_a_pause(how: str) -> None:
    made = agent(calls(BOB), text("done"), tools=[guarded([])], limits=Limits(max_steps=2))
    first = await paused(how, made)
    after = await go_on(first, answers_to(first, Approved()))
    assert [request.is_final_step for request in after.requests] == [False, True]


async def test_max_model_calls_counts_on(how: str) -> None:
    made = agent(calls(BOB), text("never"), tools=[guarded([])], limits=Limits(max_model_calls=1))
    first = await paused(how, made)
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.finish_reason, len(after.requests)) == ("limit", 1)
    assert results_of(after.result.messages) == ["sent to bob"]


async def test_max_total_tokens_counts_on(how: str) -> None:
    turns = (calls(BOB, usage=COST), text("never", usage=COST))
    made = agent(*turns, tools=[guarded([])], limits=Limits(max_total_tokens=11))
    first = await paused(how, made)
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.finish_reason, len(after.requests)) == ("limit", 1)


async def test_max_tool_calls_counts_on(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        log.append("calc")
        return "42"

    made = agent(
        calls("calc", BOB), calls("calc"), text("x"), tools=[calc, guarded(log)], limits=Limits(max_tool_calls=2)
    )
    first = await paused(how, made)
    after = await go_on(first, answers_to(first, Approved()))
    assert log == ["calc", ("mail", "bob", 1)]
    assert after.result.finish_reason == "limit"


async def test_a_limit_that_raises_raises_in_the_resumed_run_with_what_was_done(how: str) -> None:
    limits = Limits(max_model_calls=1, on_exceeded="raise")
    first = await paused(how, agent(calls(BOB), text("never"), tools=[guarded([])], limits=limits))
    after = await go_on(first, answers_to(first, Approved()))
    assert isinstance(after.error, LimitExceeded)
    assert [message.role for message in after.partial.messages] == ["user", "assistant", "tool"]


async def test_limits_given_to_the_resume_replace_the_agents(how: str) -> None:
    made = agent(calls(BOB), text("done"), tools=[guarded([])], limits=Limits(max_model_calls=1))
    first = await paused(how, made)
    after = await go_on(first, answers_to(first, Approved()), limits=Limits(max_model_calls=2))
    assert (after.result.finish_reason, after.result.text) == ("stop", "done")


async def test_state_lives_with_the_run_and_its_resumptions(how: str) -> None:
    seen: list[Any] = []

    class Counts(Middleware):
        def on_step(self, ctx: Any, info: Any) -> None:
            ctx.state["steps"] = [*ctx.state.get("steps", []), info.step]
            seen.append(list(ctx.state["steps"]))

    turns = (calls(BOB), calls(ADA), text("done"))
    played = await paused(how, agent(*turns, tools=[guarded([])], middleware=[Counts()]))
    for _ in range(2):
        played = await go_on(played, answers_to(played, Approved()))
    assert (played.result.text, seen) == ("done", [[0], [0, 1], [0, 1, 2]])


async def test_saved_private_data_goes_on_and_unsaved_does_not(how: str) -> None:
    seen: list[Any] = []

    class Keeps(Middleware):
        saved = True

        def on_step(self, ctx: Any, info: Any) -> None:
            mine = ctx.private(self)
            mine["n"] = mine.get("n", 0) + 1
            seen.append((type(self).__name__, mine["n"]))

    class Forgets(Keeps):
        saved = False

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Keeps(), Forgets()]))
    await go_on(first, answers_to(first, Approved()))
    assert seen == [("Keeps", 1), ("Forgets", 1), ("Keeps", 2), ("Forgets", 1)]


async def test_saved_private_data_of_two_of_one_name_is_kept_apart(how: str) -> None:
    seen: list[Any] = []

    class Keeps(Middleware):
        saved = True

        def __init__(self, mark: str) -> None:
            self.mark = mark

        def on_step(self, ctx: Any, info: Any) -> None:
            mine = ctx.private(self)
            mine["log"] = [*mine.get("log", []), self.mark]
            seen.append(list(mine["log"]))

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Keeps("a"), Keeps("b")]))
    await go_on(first, answers_to(first, Approved()))
    assert seen == [["a"], ["b"], ["a", "a"], ["b", "b"]]


@dataclass
class Tally:
    count: int = 0


async def test_saved_private_data_of_a_type_of_its_own_comes_back_as_that_type(how: str) -> None:
    seen: list[Any] = []

    class Keeps(Middleware):
        saved = True
        run_state = Tally

        def on_step(self, ctx: Any, info: Any) -> None:
            ctx.private(self).count += 1
            seen.append(ctx.private(self))

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Keeps()]))
    after = await go_on(first, answers_to(first, Approved()))
    assert after.result.text == "done"
    assert (type(seen[-1]), seen[-1]) == (Tally, Tally(2))


async def test_the_context_of_the_caller_is_given_anew(how: str) -> None:
    seen: list[Any] = []

    class Sees(Middleware):
        def on_start(self, ctx: Any) -> None:
            seen.append(ctx.context)

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Sees()]), context="one")
    await go_on(first, answers_to(first, Approved()), context="two")
    assert seen == ["one", "two"]


async def test_middleware_given_to_the_resume_takes_part(how: str) -> None:
    seen: list[Any] = []

    class Sees(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
            seen.append(result.data)

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    await go_on(first, answers_to(first, Approved()), middleware=[Sees()])
    assert seen == ["sent to bob"]


async def test_a_pause_that_only_a_runs_own_middleware_can_answer_is_answered_with_it(how: str) -> None:
    first = await paused(how, agent(text("hi")), middleware=[Asks("before_model")])
    after = await go_on(first, answers_to(first, Resolved(True)), middleware=[Asks("before_model")])
    assert (after.result.text, len(after.requests)) == ("hi", 1)


async def test_a_provider_that_fails_after_the_resume_loses_no_finished_call(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), fail(ProviderDown("away")), tools=[guarded(log)]))
    after = await go_on(first, answers_to(first, Approved()))
    assert isinstance(after.error, ProviderDown)
    assert results_of(after.partial.messages) == ["sent to bob"]
    assert log == [("mail", "bob", 1)]


async def test_the_votes_on_going_on_are_asked_of_a_resumed_step(how: str) -> None:
    class Stops(Middleware):
        def on_should_continue(self, ctx: Any, state: Any) -> Any:
            seen.append((len(state.steps), state.tool_call_count, state.last_step_tool_call_count))
            return False

    seen: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("never"), tools=[guarded([])], middleware=[Stops()]))
    assert seen == []
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.finish_reason, seen) == ("stopped", [(1, 1, 1)])
    assert asked(after) == ()
