"""Pausing for a person: what is asked, and what has happened until then."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, hello, two_steps

from interpose import Agent, ConfigurationError, Interrupt, Middleware, Pause, before_tool_call, tool
from interpose.testing import calls, text, text_of


@dataclass
class Plan:
    steps: int


Review = Interrupt[Plan, bool]("review-plan", payload=Plan, response=bool)


class Asks(Middleware):
    """Asks at the boundary of *phase*, in step *step*."""

    interrupts = (Review,)

    def __init__(self, phase: str, step: int = 0, keys: tuple[str, ...] = ("one",)) -> None:
        self.phase = phase
        self.step = step
        self.keys = keys

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        if (ctx.phase, ctx.step) != (self.phase, self.step):
            return None
        return [Review.request(key, f"Look at {key}?", Plan(3)) for key in self.keys]


async def test_a_question_before_the_model_keeps_it_from_being_called() -> None:
    played = await both(lambda log: agent("never", middleware=[Asks("before_model")]))
    assert played.requests == []
    assert (played.types[-1], played.events[-1].outcome["type"]) == ("RUN_FINISHED", "interrupt")
    assert "RUN_ERROR" not in played.types


async def test_a_question_after_the_model_lets_its_text_be_read() -> None:
    played = await both(lambda log: agent(hello(), middleware=[Asks("after_model")]))
    assert len(played.requests) == 1
    assert text_of(played.events) == "Hello"
    assert played.types.count("RUN_FINISHED") == 1
    (asked,) = played.result.interrupts
    assert (asked.reason, asked.message) == ("review-plan", "Look at one?")
    assert played.events[-1].outcome["interrupts"][0]["message"] == "Look at one?"


@pytest.mark.parametrize("phase", ["after_model", "before_tools"])
async def test_a_question_in_front_of_the_tools_leaves_the_call_last_and_not_run(phase: str) -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def add(a: int, b: int) -> int:
            """Return the sum."""
            log.append("ran")
            return a + b

        return agent(calls(("add", {"a": 1, "b": 2})), tools=[add], middleware=[Asks(phase)])

    played = await both(make)
    assert played.log == []
    assert [call.name for call in played.result.messages[-1].tool_calls] == ["add"]


async def test_a_question_behind_the_tools_leaves_their_results() -> None:
    played = await both(lambda log: two_steps(middleware=[Asks("after_tools")]))
    assert [message.role for message in played.result.messages] == ["user", "assistant", "tool"]
    assert played.types.count("TOOL_CALL_RESULT") == 1


async def test_a_boundary_where_nobody_asks_pauses_nothing() -> None:
    played = await both(lambda log: two_steps(middleware=[Asks("nowhere")]))
    assert (played.result.status, played.result.text) == ("finished", "3")


async def test_all_questions_of_a_boundary_are_one_batch_with_ids_of_their_own() -> None:
    middleware = [Asks("before_model", keys=("one", "two")), Asks("before_model", keys=("three",))]
    played = await both(lambda log: agent("never", middleware=middleware))
    assert [asked.message for asked in played.result.interrupts] == [f"Look at {k}?" for k in ("one", "two", "three")]
    assert len({asked.id for asked in played.result.interrupts}) == 3


async def test_approvals_of_a_phase_join_the_questions_behind_it() -> None:
    @tool(approval=True)
    async def guarded() -> str:
        """Do what needs approval."""
        return "done"

    played = await both(lambda log: agent(calls("guarded"), tools=[guarded], middleware=[Asks("after_tools")]))
    assert len(played.result.interrupts) == 2


async def test_pauses_of_two_calls_are_asked_in_the_order_of_the_calls() -> None:
    ask = before_tool_call(lambda ctx, call: Pause("ask", call.args["a"]))
    turn = calls(("add", {"a": 1, "b": 2}), ("add", {"a": 2, "b": 2}))
    played = await both(lambda log: agent(turn, tools=[add], middleware=[ask]))
    assert [asked.value for asked in played.result.interrupts] == [1, 2]


def test_two_kinds_of_question_with_one_id_are_refused() -> None:
    twin = Interrupt[Any, Any]("review-plan")

    class Other(Middleware):
        interrupts = (twin,)

    with pytest.raises(ConfigurationError, match="review-plan"):
        agent(text("x"), middleware=[Asks("before_model"), Other()])


def test_a_payload_of_another_type_is_refused_where_it_is_made() -> None:
    with pytest.raises(TypeError, match="review-plan"):
        Review.request("one", "Look?", {"steps": "many"})  # type: ignore[arg-type]  # the slip


async def test_a_vote_is_not_asked_of_a_paused_run_and_no_structure_is_made() -> None:
    class Votes(Middleware):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def on_should_continue(self, ctx: Any, state: Any) -> None:
            self.log.append("asked")

    played = await both(lambda log: agent(hello(), middleware=[Asks("after_model"), Votes(log)]))
    assert played.log == []
