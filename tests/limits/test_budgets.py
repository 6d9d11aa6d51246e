"""Budgets of one's own: asked once for every paid call, settled however it ended."""

from typing import Any

import pytest
from tests.limits.purse import Purse, both_ways

from interpose import (
    Agent,
    BadRequest,
    ConfigurationError,
    LimitExceeded,
    Limits,
    Middleware,
    ProviderDown,
    Usage,
    tool,
)
from interpose.testing import ScriptedModel, calls, fail, text

USED = Usage(6, 4)


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return where


def looks(**options: Any) -> Agent[Any]:
    turns = [calls(("look", {"where": "x"}), text=f"look {n}", usage=USED) for n in range(9)]
    return Agent(ScriptedModel(*turns), tools=[look], post_model_hooks=(), **options)


async def test_an_empty_budget_stops_the_run_with_what_there_is() -> None:
    for result in await both_ways(lambda: looks(limits=Limits(budgets=[Purse(20)]))):
        assert (result.finish_reason, len(result.steps), result.text) == ("limit", 2, "look 1")
        assert result.usage.total_tokens == 20


async def test_an_empty_budget_raises_with_the_name_and_value_that_it_gave() -> None:
    for error in await both_ways(lambda: looks(limits=Limits(budgets=[Purse(20)], on_exceeded="raise"))):
        assert isinstance(error, LimitExceeded)
        assert (error.limit, error.value, str(error)) == ("purse", 20, "the purse of 20 tokens is empty")
        assert len(error.partial.steps) == 2  # type: ignore[union-attr]  # a stopped run has one


class Retries(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)


class Answers(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return request.answer("made up").replace(usage=Usage(1000, 1000))


async def test_a_failed_call_is_settled_and_its_retry_asked_for_anew() -> None:
    purse = Purse(100)
    model = ScriptedModel(fail(ProviderDown("x")), text("ok", usage=USED))
    await Agent(model, middleware=[Retries()], limits=Limits(budgets=[purse])).run("go")
    assert [what for what, _ in purse.log] == ["reserve", "settle", "reserve", "settle"]
    assert (purse.log[1][1], purse.spent) == (None, 10)


async def test_a_made_up_answer_asks_no_budget() -> None:
    purse = Purse(100)
    result = await Agent(ScriptedModel(), middleware=[Answers()], limits=Limits(budgets=[purse])).run("go")
    assert (result.text, purse.log) == ("made up", [])


async def test_calls_of_middleware_and_for_output_ask_too() -> None:
    class Sums(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            await ctx.generate("Sum up.")

    purse = Purse(1000)
    model = ScriptedModel(text("sum", usage=USED), text("7", usage=USED), text("7", usage=USED))
    agent: Agent[Any] = Agent(model, middleware=[Sums()], output=int, tools=[look], limits=Limits(budgets=[purse]))
    result = await agent.run("go")
    assert (result.output, purse.spent) == (7, 30)


async def test_a_nested_run_asks_the_budgets_of_the_runs_around_it_as_itself() -> None:
    outer_purse, inner_purse = Purse(1000), Purse(1000)
    inner: Agent[Any] = Agent(ScriptedModel(text("x", usage=USED)), limits=Limits(budgets=[inner_purse]))
    turns = (calls(("child", {"prompt": "go"}), usage=USED), text("end", usage=USED))
    outer: Agent[Any] = Agent(
        ScriptedModel(*turns), tools=[inner.as_tool("child", "A child.")], limits=Limits(budgets=[outer_purse])
    )
    result = await outer.run("go")
    assert (outer_purse.spent, inner_purse.spent) == (30, 10)
    assert outer_purse.log[2][1] == inner_purse.log[0][1] != result.run_id


async def test_a_budget_that_both_agents_have_is_asked_once_a_call() -> None:
    purse = Purse(1000)
    limits = Limits(budgets=[purse])
    inner: Agent[Any] = Agent(ScriptedModel(text("x", usage=USED)), limits=limits)
    turns = (calls(("child", {"prompt": "go"}), usage=USED), text("end", usage=USED))
    await Agent(ScriptedModel(*turns), tools=[inner.as_tool("child", "A child.")], limits=limits).run("go")
    assert (purse.spent, len(purse.log)) == (30, 6)


async def test_a_shared_budget_that_is_empty_ends_the_outermost_run_that_has_it() -> None:
    purse = Purse(10)
    inner: Agent[Any] = Agent(ScriptedModel(text("never")), limits=Limits(budgets=[purse]))
    model = ScriptedModel(calls(("child", {"prompt": "go"}), usage=USED), text("never"))
    limits = Limits(budgets=[purse], on_exceeded="raise")
    with pytest.raises(LimitExceeded, match="purse"):
        await Agent(model, tools=[inner.as_tool("child", "A child.")], limits=limits).run("go")
    assert len(model.requests) == 1


async def test_a_budget_that_refuses_spends_no_model_call_and_frees_the_others() -> None:
    first, second = Purse(1000), Purse(10)
    agent = looks(limits=Limits(budgets=[first, second], max_model_calls=2))
    result = await agent.run("go")
    assert (first.aside, second.aside, first.log[-1]) == ({}, {}, ("settle", None))
    assert (len(result.steps), first.spent, second.spent) == (1, 10, 10)


async def test_a_budget_that_cannot_be_asked_fails_the_run_before_anything_is_sent() -> None:
    class Down(Purse):
        async def reserve(self, ctx: Any, estimate: Usage) -> int:
            raise ConnectionError("the ledger is down")

    other = Purse(100)
    model = ScriptedModel(text("never"))
    with pytest.raises(ConnectionError, match="ledger"):
        await Agent(model, limits=Limits(budgets=[other, Down(1)])).run("go")
    assert (model.requests, other.aside) == ([], {})


async def test_a_budget_that_cannot_be_settled_is_logged_and_harms_neither_run_nor_others(caplog: Any) -> None:
    class Down(Purse):
        async def settle(self, token: int, usage: Usage | None) -> None:
            raise ConnectionError("the ledger is down")

    other = Purse(100)
    model = ScriptedModel(text("fine", usage=USED))
    result = await Agent(model, limits=Limits(budgets=[Down(100), other])).run("go")
    assert (result.text, other.spent) == ("fine", 10)
    assert "failed to settle" in caplog.text


async def test_a_call_that_the_provider_refuses_is_settled_with_nothing() -> None:
    purse = Purse(100)
    with pytest.raises(BadRequest):
        await Agent(ScriptedModel(fail(BadRequest("no"))), limits=Limits(budgets=[purse])).run("go")
    assert (purse.spent, purse.log[-1]) == (0, ("settle", None))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Purse(1), "list of budgets"),
        ("purse", "list of budgets"),
        ([Purse], "write an instance"),
        ([object()], r"no reserve\(\)"),
    ],
    ids=["one alone", "a text", "a class", "anything"],
)
def test_what_is_no_budget_is_refused_at_once(given: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Limits(budgets=given)


def test_budgets_are_kept_as_they_were_given() -> None:
    purses = [Purse(1)]
    limits = Limits(budgets=purses)
    purses.append(Purse(2))
    assert len(limits.budgets) == 1
