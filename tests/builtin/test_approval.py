"""Rules that ask a person before calls, and what a person says once for all."""

from decimal import Decimal
from typing import Any

import pytest

from interpose import Agent, Approved, ConfigurationError, Middleware, ResumeError, ToolCall, tool
from interpose.builtin import Approval
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, collect, text


@tool
async def pay(amount: int, to: str = "ada") -> str:
    """Pay an amount."""
    return f"paid {amount} to {to}"


@tool
async def look(q: str) -> str:
    """Look something up."""
    return "found"


def make(*turns: Any, rules: Any, tools: Any = (pay, look), **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel(*turns), tools=tools, middleware=[Approval(rules)], **options)


async def asked(agent: Agent[Any], how: str) -> list[tuple[str, Any]]:
    """Return what the first run of *agent* asks, as (tool, arguments)."""
    if how == "run":
        result = await agent.run("Go")
    else:
        async with agent.stream("Go") as run:
            await collect(run)
            result = await run.result()
    found = [one.tool_call for one in result.interrupts]
    return [(one.name, dict(one.args)) for one in found if one is not None]


how = pytest.mark.parametrize("how", ["run", "stream"])


@how
async def test_every_call_of_a_named_tool_is_asked_about(how: str) -> None:
    agent = make(calls(("pay", {"amount": 1}), ("look", {"q": "x"})), rules=[Approval.ask("pay")])
    assert await asked(agent, how) == [("pay", {"amount": 1, "to": "ada"})]


@how
async def test_amounts_above_a_limit_are_asked_about(how: str) -> None:
    turn = calls(*[("pay", {"amount": n}) for n in (99, 100, 101)])
    agent = make(turn, rules=[Approval.ask("pay", amount=Approval.above(100))])
    assert await asked(agent, how) == [("pay", {"amount": 101, "to": "ada"})]


@how
async def test_first_rule_that_fits_decides(how: str) -> None:
    turn = calls(("pay", {"amount": 5, "to": "eve"}), ("pay", {"amount": 5}))
    agent = make(turn, rules=[Approval.allow("pay", to="ada"), Approval.ask("pay")])
    assert await asked(agent, how) == [("pay", {"amount": 5, "to": "eve"})]


@how
async def test_patterns_fit_many_tools(how: str) -> None:
    agent = make(calls(("pay", {"amount": 1}), ("look", {"q": "x"})), rules=[Approval.ask("l*")])
    assert await asked(agent, how) == [("look", {"q": "x"})]


@how
async def test_arguments_are_judged_as_they_are_typed(how: str) -> None:
    turn = calls(("pay", '{"amount": "500"}'))
    agent = make(turn, rules=[Approval.ask("pay", amount=Approval.above(100))])
    assert await asked(agent, how) == [("pay", {"amount": 500, "to": "ada"})]


@how
async def test_a_function_may_be_a_rule(how: str) -> None:
    async def weekends(ctx: Any, call: Any) -> bool | None:
        return True if call.args.get("to") == "eve" else None

    turn = calls(("pay", {"amount": 1, "to": "eve"}), ("pay", {"amount": 1}))
    agent = make(turn, rules=[weekends])
    assert await asked(agent, how) == [("pay", {"amount": 1, "to": "eve"})]


@how
@pytest.mark.parametrize("own", [True, lambda ctx, call: True], ids=["bool", "function"])
async def test_where_no_rule_fits_the_tool_decides(how: str, own: Any) -> None:
    agent = make(calls(("look", {"q": "x"})), rules=[Approval.ask("pay")], tools=[pay, look.replace(approval=own)])
    assert await asked(agent, how) == [("look", {"q": "x"})]


async def test_allowed_calls_run_though_the_tool_itself_would_ask() -> None:
    agent = make(
        calls(("pay", {"amount": 1})), text("done"), rules=[Approval.allow("pay")], tools=[pay.replace(approval=True)]
    )
    assert (await agent.run("Go")).text == "done"


@pytest.mark.parametrize(("amount", "status"), [(5, "finished"), (500, "interrupted")])
async def test_a_condition_may_be_async(amount: int, status: str) -> None:
    async def is_small(value: int) -> bool:
        return value < 10

    turns = (calls(("pay", {"amount": amount})), text("done"))
    agent = make(*turns, rules=[Approval.allow("pay", amount=is_small)], tools=[pay.replace(approval=True)])
    assert (await agent.run("Go")).status == status


class Offers(Middleware):
    """Offers one more tool: by `on_config` in *phase*, or in the request where that is `model_stream`."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def on_config(self, ctx: Any, config: Any) -> Any:
        return config.replace(tools=(*config.tools, pay)) if ctx.phase == self.phase else None

    def before_model_call(self, _ctx: Any, request: Any) -> Any:
        return request.with_tools((*request.tools, pay)) if self.phase == "model_stream" else None


LATER = [("init", False), ("before_model", False), ("init", True), ("before_model", True), ("model_stream", True)]


@how
@pytest.mark.parametrize(("phase", "outside"), LATER)
async def test_rules_hold_for_tools_that_others_bring_later(how: str, phase: str, outside: bool) -> None:
    both = [Offers(phase), Approval([Approval.ask("p*")])]
    turn = calls(("pay", {"amount": 1}))
    agent = Agent(ScriptedModel(turn), tools=[look], middleware=both if outside else both[::-1])
    assert await asked(agent, how) == [("pay", {"amount": 1, "to": "ada"})]


async def test_approved_calls_run_and_are_not_asked_about_again() -> None:
    agent = make(calls(("pay", {"amount": 1})), text("done"), rules=[Approval.ask("pay")])
    first = await agent.run("Go")
    result = await agent.resume(first.checkpoint or {}, {first.interrupts[0].id: Approved()})
    assert (result.text, result.messages[-2].text) == ("done", "paid 1 to ada")


async def test_rules_hold_in_nested_runs() -> None:
    helper = Agent(ScriptedModel(calls(("pay", {"amount": 1})), text("helped")), tools=[pay])
    agent = make(
        calls(("helper", {"prompt": "x"})),
        rules=[Approval.ask("p*")],
        tools=[helper.as_tool("helper", "Helps.")],
    )
    assert await asked(agent, "run") == [("pay", {"amount": 1, "to": "ada"})]


async def test_two_sets_of_rules_ask_once_where_the_outer_one_asks() -> None:
    agent = Agent(
        ScriptedModel(calls(("pay", {"amount": 1}))),
        tools=[pay],
        middleware=[Approval([Approval.ask("pay")]), Approval([])],
    )
    assert await asked(agent, "run") == [("pay", {"amount": 1, "to": "ada"})]


ODD = [float("nan"), Decimal("NaN"), Decimal("sNaN"), None, "12", [1]]


@pytest.mark.parametrize("value", ODD, ids=map(str, ODD))
async def test_what_cannot_be_compared_counts_as_above(value: Any) -> None:
    rule = Approval.ask("pay", amount=Approval.above(100))
    call = pay_call(value)
    assert await rule(None, call) is (None if value is None else True)


def pay_call(amount: Any) -> Any:
    return ToolCall("c1", "pay", {"amount": amount})


BAD = {
    "unknown tool": ([Approval.ask("pya")], "no tool 'pya'"),
    "unknown argument": ([Approval.ask("pay", amuont=1)], "no tool that it is about has an argument 'amuont'"),
}


@pytest.mark.parametrize(("rules", "message"), BAD.values(), ids=BAD)
async def test_rules_that_fit_nothing_are_refused_at_once(rules: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await make(text("never"), rules=rules).run("Go")


@pytest.mark.parametrize("rules", ["pay", [1], 5, None], ids=repr)
def test_rules_that_are_none_are_refused(rules: Any) -> None:
    with pytest.raises(ConfigurationError):
        Approval(rules)


async def twice(always: Any, *later: Any, store: Any) -> Any:
    agent = make(
        calls(("pay", {"amount": 1})), text("one"), calls(*later), text("two"), rules=[Approval.ask("pay")], store=store
    )
    first = await agent.run("Go", thread_id="t1")
    await agent.resume(first.run_id, {first.interrupts[0].id: Approved(always=always)})
    return await agent.run("Again", thread_id="t1")


@pytest.mark.parametrize(
    ("always", "amount", "status"),
    [("tool", 2, "finished"), ("arguments", 1, "finished"), ("arguments", 2, "interrupted"), (None, 1, "interrupted")],
)
async def test_what_a_person_allows_for_ever_is_not_asked_again(always: Any, amount: int, status: str) -> None:
    after = await twice(always, ("pay", {"amount": amount}), store=MemoryStore())
    assert after.status == status


async def test_an_answer_for_ever_holds_in_its_thread_alone() -> None:
    store = MemoryStore()
    await twice("tool", ("pay", {"amount": 2}), store=store)
    agent = make(calls(("pay", {"amount": 2})), rules=[Approval.ask("pay")], store=store)
    assert (await agent.run("Go", thread_id="t2")).status == "interrupted"


async def test_an_answer_on_the_wire_may_be_for_ever() -> None:
    store = MemoryStore()
    agent = make(
        calls(("pay", {"amount": 1})),
        calls(("pay", {"amount": 2})),
        text("two"),
        rules=[Approval.ask("pay")],
        store=store,
    )
    first = await agent.run("Go")
    payload = {"approved": True, "always": "tool"}
    entry = {"interruptId": first.interrupts[0].id, "status": "resolved", "payload": payload}
    assert (await agent.resume(first.run_id, [entry])).text == "two"


async def test_a_wrong_kind_of_for_ever_is_refused() -> None:
    agent = make(calls(("pay", {"amount": 1})), rules=[Approval.ask("pay")])
    first = await agent.run("Go")
    answer: Any = Approved(always="evermore")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ResumeError, match="always="):
        await agent.resume(first.checkpoint or {}, {first.interrupts[0].id: answer})
