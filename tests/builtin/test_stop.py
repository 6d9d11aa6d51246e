"""`Stop`: ends a run before its next model call."""

from typing import Any

import pytest

from interpose import Agent, Middleware, ModelRequest, RunContext, tool
from interpose.builtin import Stop
from interpose.testing import ScriptedModel, assert_events_valid, calls, collect, event_types, text


@tool
async def echo(x: str) -> str:
    return x


def agent(stop: Any, *more: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(calls(("echo", {"x": "a"})), calls(("echo", {"x": "b"})), text("done"))
    return Agent(model, tools=[echo], middleware=[stop, *more], post_model_hooks=()), model


def is_second(request: ModelRequest) -> bool:
    return request.number == 1


async def is_second_async(request: ModelRequest) -> bool:
    return request.number == 1


class IsSecond:
    async def __call__(self, request: ModelRequest) -> bool:
        return request.number == 1

    def method(self, request: ModelRequest) -> bool:
        return request.number == 1


@pytest.mark.parametrize(
    "condition",
    [is_second, is_second_async, IsSecond(), IsSecond().method],
    ids=["function", "async function", "object", "method"],
)
async def test_run_ends_before_the_step_that_the_condition_names(condition: Any) -> None:
    mine, model = agent(Stop.when(condition))
    result = await mine.run("go")
    assert (len(result.steps), len(model.requests)) == (1, 1)
    assert [done.text for done in result.steps[0].tool_results] == ["a"]
    assert (result.text, result.finish_reason, result.status) == ("", "cancelled", "finished")


async def test_stopping_at_once_makes_no_call_and_still_finishes() -> None:
    class Ends(Middleware):
        finished = 0

        def on_finish(self, ctx: RunContext, info: Any) -> None:
            self.finished += 1

    ends = Ends()
    mine, model = agent(Stop.when(True), ends)
    result = await mine.run("go")
    assert (result.steps, model.requests, result.text, result.status, ends.finished) == ((), [], "", "finished", 1)


@pytest.mark.parametrize("stop", [Stop.unless(True), Stop.when(False), Stop.unless(lambda request: True)])
async def test_condition_that_does_not_hold_changes_nothing(stop: Stop) -> None:
    mine, _ = agent(stop)
    assert (await mine.run("go")).text == "done"


async def test_unless_stops_where_the_condition_is_false() -> None:
    mine, model = agent(Stop.unless(lambda request: request.number < 2))
    await mine.run("go")
    assert len(model.requests) == 2


async def test_what_was_done_until_then_is_kept() -> None:
    mine, _ = agent(Stop.when(is_second))
    assert [message.role for message in (await mine.run("go")).messages] == ["user", "assistant", "tool"]


async def test_stream_is_closed_in_good_order() -> None:
    mine, _ = agent(Stop.when(is_second))
    async with mine.stream("go") as run:
        events = await collect(run)
    assert event_types(events)[-1] == "RUN_FINISHED"
    assert_events_valid(events)


def test_condition_of_another_kind_is_refused() -> None:
    wrong: Any = "always"
    with pytest.raises(TypeError, match="condition"):
        Stop.when(wrong)
