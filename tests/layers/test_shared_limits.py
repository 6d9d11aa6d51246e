"""Limits across parallel calls and nested runs: checked and charged as one, budgets of ones own too."""

from typing import Any

from tests.layers.play import agent_of, both, echo, errors_of, results_of

from interpose import (
    LimitExceeded,
    Limits,
    Middleware,
    Usage,
)
from interpose.testing import ScriptedModel, calls, text

ONE = ("echo", {"x": "1"})


def endless(limits: Limits, used: Usage | None = None) -> Any:
    return lambda log: agent_of(*[calls(ONE, usage=used, text="t") for _ in range(40)], tools=[echo], limits=limits)


async def test_a_budget_is_asked_and_settled_for_every_paid_call() -> None:
    class Purse:
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        async def reserve(self, ctx: Any, estimate: Any) -> Any:
            self.log.append("reserve")
            if self.log.count("reserve") > 2:
                raise LimitExceeded("purse", 2)
            return len(self.log)

        async def settle(self, token: Any, usage: Any) -> None:
            self.log.append("settle")

    def make(log: list[Any]) -> Any:
        turns = [calls(ONE) for _ in range(9)]
        return agent_of(*turns, tools=[echo], limits=Limits(budgets=(Purse(log),)))

    played = await both(make)
    assert played.log == ["reserve", "settle", "reserve", "settle", "reserve"]
    assert played.result.finish_reason == "limit"


async def test_parallel_sub_agents_cannot_pass_a_budget_together() -> None:
    used = Usage(input_tokens=40, output_tokens=10)
    inner_model = ScriptedModel(*[text("x", usage=used)] * 20)
    inner = agent_of(model=inner_model)
    child = inner.as_tool("child", "A child.")
    agent = agent_of(
        calls(*[("child", {"prompt": str(n)}) for n in range(10)], usage=Usage(input_tokens=1, output_tokens=1)),
        text("never"),
        tools=[child],
        limits=Limits(max_model_calls=4),
    )
    result = await agent.run("go")
    assert len(inner_model.requests) == 3
    assert result.finish_reason == "limit"


async def test_a_sub_agent_spends_from_its_parents_limit_and_the_error_is_the_parents() -> None:
    inner_model = ScriptedModel(text("x"))
    child = agent_of(model=inner_model).as_tool("child", "A child.")

    def make(log: list[Any]) -> Any:
        limits = Limits(max_model_calls=1, on_exceeded="raise")
        return agent_of(calls(("child", {"prompt": "x"})), text("never"), tools=[child], limits=limits)

    played = await both(make)
    assert isinstance(played.error, LimitExceeded)
    assert inner_model.requests == []


async def test_a_sub_agents_own_limit_is_an_error_result_with_its_text() -> None:
    def make(log: list[Any]) -> Any:
        inner = agent_of(calls(ONE, text="so far"), text("never"), tools=[echo], limits=Limits(max_model_calls=1))
        return agent_of(calls(("child", {"prompt": "x"})), text("end"), tools=[inner.as_tool("child", "A child.")],
                        limits=Limits(max_model_calls=50))  # fmt: skip

    played = await both(make)
    assert played.result.text == "end"
    assert errors_of(played.result)[0]
    assert "so far" in results_of(played.result)[0]


async def test_usage_of_a_sub_agent_is_in_the_parents_before_its_next_request() -> None:
    def make(log: list[Any]) -> Any:
        async def note(ctx: Any, request: Any, call_next: Any) -> Any:
            log.append(ctx.usage.total_tokens)
            return await call_next(request)

        inner = agent_of(text("x", usage=Usage(input_tokens=900, output_tokens=100)))
        turns = [calls(("child", {"prompt": "x"})), text("end")]
        return agent_of(*turns, tools=[inner.as_tool("child", "A child.")], middleware=[note])

    played = await both(make)
    assert played.log == [None, 1000]
    assert played.result.usage.total_tokens == 1000


async def test_an_agent_that_is_its_own_tool_shares_one_limit() -> None:
    model = ScriptedModel(*[calls(("me", {"prompt": "x"})) for _ in range(9)])
    holder: list[Any] = []

    class Brings(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            return config.replace(tools=(*config.tools, holder[0])) if ctx.phase == "init" else None

    agent = agent_of(model=model, middleware=[Brings()], limits=Limits(max_model_calls=3))
    holder.append(agent.as_tool("me", "Myself."))
    await agent.run("go")
    assert len(model.requests) == 3
