"""Checking and setting aside are one act: calls that run side by side cannot pass a limit together."""

import asyncio
from typing import Any

import pytest
from tests.limits.purse import DOLLAR_A_TOKEN, Busy, Purse, children

from interpose import Agent, Limits, Middleware, ModelProfile, ModelSettings, ProviderDown, ProviderError, Usage, tool
from interpose.models import UsageUpdate
from interpose.testing import ScriptedModel, calls, chunks, fail, hang, text

SPENT = Usage(5, 5)
ASKS_TEN = calls(*[("child", {"prompt": str(n)}) for n in range(10)], usage=Usage(0, 0))


def outer(child: Any, limits: Limits, *turns: Any) -> Agent[Any]:
    model = ScriptedModel(*(turns or (ASKS_TEN, text("never"))), profile=DOLLAR_A_TOKEN)
    return Agent(model, tools=[child], limits=limits, post_model_hooks=())


@pytest.mark.parametrize(
    ("slow_s", "begun"),
    [(0.0, [3]), (0.003, [0, 1, 2, 3])],  # of a slow budget's calls, the refused one cuts those still asking
    ids=["at once", "slow budget"],
)
async def test_sub_agents_side_by_side_make_no_more_calls_than_their_parent_allows(
    slow_s: float, begun: list[int]
) -> None:
    model, child = children(20, SPENT)
    purse = Purse(10_000, slow_s=slow_s)
    result = await outer(child, Limits(max_model_calls=4, budgets=[purse])).run("go")
    assert model.begun in begun  # one of the four was the parent's own
    assert (result.finish_reason, purse.aside) == ("limit", {})


@pytest.mark.parametrize(
    ("limits", "profile"),
    [
        (Limits(max_total_tokens=40), ModelProfile(max_output_tokens=10)),
        (Limits(max_total_tokens=40), None),
        (Limits(max_cost_usd=40.0), DOLLAR_A_TOKEN),
        (Limits(max_cost_usd=40.0), ModelProfile(input_price=1e6, output_price=1e6)),
    ],
    ids=["tokens", "tokens, answers of any length", "cost", "cost, answers of any length"],
)
async def test_sub_agents_spend_what_they_would_one_after_another(limits: Limits, profile: Any) -> None:
    model, child = children(20, SPENT, profile=profile)
    result = await outer(child, limits).run("go")
    assert len(model.requests) == 4  # 10 each: the fifth finds 40 spent
    assert result.finish_reason == "limit"
    assert result.usage.total_tokens == 40


async def test_calls_run_side_by_side_where_what_they_set_aside_fits() -> None:
    model, child = children(10, SPENT, profile=ModelProfile(max_output_tokens=10))
    result = await outer(child, Limits(max_total_tokens=10_000), ASKS_TEN, text("end", usage=Usage(0, 0))).run("go")
    assert model.most_at_once == 10
    assert result.text == "end"


async def test_a_setting_for_the_longest_answer_is_what_is_set_aside() -> None:
    settings = ModelSettings(max_tokens=10)
    model, child = children(10, SPENT, settings=settings)
    await outer(child, Limits(max_total_tokens=10_000), ASKS_TEN, text("end", usage=Usage(0, 0))).run("go")
    assert model.most_at_once == 10


async def test_what_a_failed_call_set_aside_is_given_back() -> None:
    model, child = children(3, SPENT)
    broken: Agent[Any] = Agent(Busy(fail(ProviderDown("the line is dead"))), post_model_hooks=())
    turn = calls(("broken", {"prompt": "x"}), ("child", {"prompt": "y"}), usage=Usage(0, 0))
    purse = Purse(1000)
    tools = [child, broken.as_tool("broken", "Breaks.")]
    limits = Limits(max_total_tokens=1000, budgets=[purse])
    agent: Agent[Any] = Agent(ScriptedModel(turn, text("end")), tools=tools, limits=limits, post_model_hooks=())
    assert (await agent.run("go")).text == "end"
    assert (len(model.requests), purse.aside) == (1, {})


async def test_what_a_cancelled_call_set_aside_is_given_back() -> None:
    purse = Purse(1000, slow_s=0.002)
    agent: Agent[Any] = Agent(ScriptedModel(hang(after=["half"])), limits=Limits(budgets=[purse]))
    task = asyncio.create_task(agent.run("go"))
    await purse.asked.wait()
    for _ in range(2):  # a second cancellation must not cut the giving back
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (purse.aside, purse.log[-1]) == ({}, ("settle", None))


async def test_a_call_that_waits_can_be_aborted() -> None:
    slow: Agent[Any] = Agent(ScriptedModel(hang()), post_model_hooks=())
    turn = calls(("slow", {"prompt": "a"}), ("slow", {"prompt": "b"}), usage=Usage(0, 0))
    agent: Agent[Any] = Agent(
        ScriptedModel(turn),
        tools=[slow.as_tool("slow", "Slow.")],
        limits=Limits(max_total_tokens=10, max_duration_s=0.05),
        post_model_hooks=(),
    )
    result = await agent.run("go")
    assert result.finish_reason == "limit"
    assert len(slow.model.requests) == 1  # type: ignore[attr-defined]  # of a scripted model


class Judge(Middleware):
    """Asks a model about what is being streamed, within the call that streams it."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.said: list[str] = []

    async def on_chunk(self, ctx: Any, event: Any) -> None:
        if event.type == "TEXT_MESSAGE_CONTENT" and not self.said:
            response = await asyncio.wait_for(ctx.generate("Is this fine?", model=self.model), 5)
            self.said.append(response.text)


async def test_a_call_within_a_call_does_not_wait_for_it() -> None:
    judge = Judge(ScriptedModel(text("yes", usage=SPENT), profile=DOLLAR_A_TOKEN))
    model = ScriptedModel(text("hello", usage=SPENT), profile=DOLLAR_A_TOKEN)
    limits = Limits(max_total_tokens=12, max_cost_usd=12.0)
    result = await Agent(model, middleware=[judge], limits=limits).run("go")
    assert (result.text, judge.said) == ("hello", ["yes"])


async def test_two_runs_that_judge_while_they_stream_do_not_wait_for_each_other() -> None:
    judge = ScriptedModel(*[text("yes", usage=SPENT)] * 2)
    inner = [
        Agent(Busy(text("hello", usage=SPENT)), middleware=[Judge(judge)], post_model_hooks=()).as_tool(name, "Says.")
        for name in ("a", "b")
    ]
    turn = calls(("a", {"prompt": "x"}), ("b", {"prompt": "x"}), usage=Usage(0, 0))
    agent: Agent[Any] = Agent(
        ScriptedModel(turn, text("end")), tools=inner, limits=Limits(max_total_tokens=1000), post_model_hooks=()
    )
    assert (await agent.run("go")).text == "end"


async def test_the_second_try_after_dead_air_does_not_wait_for_the_first() -> None:
    model = ScriptedModel(hang(), text("here", usage=SPENT))
    limits = Limits(dead_air_s=0.02, max_total_tokens=100, max_model_calls=2, budgets=[purse := Purse(1000)])
    result = await Agent(model, limits=limits).run("go")
    assert (result.text, purse.spent, purse.aside) == ("here", 10, {})
    assert len([what for what, _ in purse.log if what == "reserve"]) == 2


async def test_tool_calls_side_by_side_in_sub_agents_share_one_limit() -> None:
    ran: list[int] = []

    @tool
    async def work(n: int) -> int:
        """Work."""
        ran.append(n)
        await asyncio.sleep(0.001)
        return n

    turns = (calls(("work", {"n": 1}), ("work", {"n": 2})), text("x"))
    workers = [Agent(ScriptedModel(*turns), tools=[work], post_model_hooks=()).as_tool(f"w{n}", "W.") for n in range(4)]
    asks = calls(*[(f"w{n}", {"prompt": "go"}) for n in range(4)])
    agent: Agent[Any] = Agent(
        ScriptedModel(asks, text("end")), tools=workers, limits=Limits(max_tool_calls=7), post_model_hooks=()
    )
    result = await agent.run("go")
    assert len(ran) == 3  # four of the seven are the sub-agents themselves
    assert result.finish_reason == "limit"


async def test_an_estimate_counts_tools_and_calls_too() -> None:
    seen: list[Usage] = []

    class Notes(Purse):
        async def reserve(self, ctx: Any, estimate: Usage) -> int:
            seen.append(estimate)
            return await super().reserve(ctx, estimate)

    @tool
    async def look(where: str) -> str:
        """Look somewhere, at length."""
        return "y" * 400

    turns = (calls(("look", {"where": "z" * 400})), text("end"))
    settings = ModelSettings(max_tokens=7)
    agent: Agent[Any] = Agent(
        ScriptedModel(*turns), tools=[look], settings=settings, limits=Limits(budgets=[Notes(10_000)])
    )
    await agent.run("x" * 40)
    first, second = seen
    assert (first.input_tokens or 0) > 10 + 7  # the text, and the tool's name, description and schema
    assert (second.input_tokens or 0) >= (first.input_tokens or 0) + 200
    assert first.output_tokens == 7


async def test_usage_that_is_told_in_part_is_charged_as_estimated_for_the_rest() -> None:
    purse = Purse(1000)
    profile = ModelProfile(max_output_tokens=50)
    model = ScriptedModel(text("x", usage=Usage(input_tokens=3)), profile=profile)
    result = await Agent(model, limits=Limits(budgets=[purse])).run("go")
    assert (purse.spent, result.usage.total_tokens) == (53, 3)


async def test_usage_of_a_broken_stream_is_charged_as_it_was_told() -> None:
    purse = Purse(1000)
    model = ScriptedModel(chunks(UsageUpdate(Usage(7, 1))))
    with pytest.raises(ProviderError):
        await Agent(model, limits=Limits(budgets=[purse])).run("go")
    assert (purse.spent, purse.aside) == (8, {})
