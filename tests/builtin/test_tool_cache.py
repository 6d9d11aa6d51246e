"""`ToolCache`: what is served from memory, what never is, and for how long."""

import asyncio
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from interpose import Agent, Middleware, RunContext, ToolCall, ToolContext, ToolMessage, tool
from interpose.builtin import ToolCache
from interpose.testing import FakeClock, ScriptedModel, calls, text


class Color(Enum):
    RED = "red"


class Counted:
    """Tools that note each execution."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @tool
        async def echo(x: str, y: int = 0) -> Any:
            self.ran.append(x)
            if x == "fail":
                raise ValueError("no")
            return {"x": x}

        @tool
        async def other(x: str) -> str:
            self.ran.append(f"other {x}")
            return x

        self.tools = [echo, other]


def steps(*asked: Any) -> ScriptedModel:
    return ScriptedModel(*[calls(one) for one in asked], text("done"))


async def executed(cache: ToolCache, *asked: Any, clock: FakeClock | None = None) -> list[Any]:
    counted = Counted()
    model = steps(*asked)
    agent = Agent(model, tools=counted.tools, middleware=[cache], post_model_hooks=(), clock=clock)
    await agent.run("go")
    return counted.ran


def echo(x: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("echo", {"x": x, **more})


async def test_equal_call_in_a_later_step_is_not_executed() -> None:
    assert await executed(ToolCache(), echo("a"), echo("a"), echo("b")) == ["a", "b"]


async def test_order_of_arguments_does_not_matter() -> None:
    assert await executed(ToolCache(), ("echo", '{"x":"a","y":1}'), ("echo", '{"y":1,"x":"a"}')) == ["a"]


async def test_answer_from_memory_carries_the_id_of_its_own_call() -> None:
    first, second = ToolCall("c1", "echo", {"x": "a"}), ToolCall("c2", "echo", {"x": "a"})
    agent = Agent(steps(first, second), tools=Counted().tools, middleware=[ToolCache()], post_model_hooks=())
    result = await agent.run("go")
    answers = [(m.tool_call_id, m.text) for m in result.messages if isinstance(m, ToolMessage)]
    assert answers == [("c1", '{"x":"a"}'), ("c2", '{"x":"a"}')]


async def test_only_named_tools_are_cached() -> None:
    cache = ToolCache(tools=["echo"])
    assert await executed(cache, ("other", {"x": "a"}), ("other", {"x": "a"})) == ["other a", "other a"]


async def test_same_arguments_of_another_tool_are_another_call() -> None:
    assert await executed(ToolCache(), echo("a"), ("other", {"x": "a"})) == ["a", "other a"]


async def test_failed_call_is_not_kept() -> None:
    assert await executed(ToolCache(), echo("fail"), echo("fail")) == ["fail", "fail"]


async def test_broken_arguments_are_not_taken_for_none() -> None:
    @tool
    async def nothing() -> str:
        return "fine"

    model = steps("nothing", ("nothing", '{"a": tru'))
    result = await Agent(model, tools=[nothing], middleware=[ToolCache()], post_model_hooks=()).run("go")
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [False, True]


async def test_least_recently_used_leaves_first() -> None:
    asked = [echo(x) for x in ("a", "b", "c", "b", "a")]
    assert await executed(ToolCache(max_size=2), *asked) == ["a", "b", "c", "a"]


async def test_a_hit_keeps_an_entry_from_leaving() -> None:
    asked = [echo(x) for x in ("a", "b", "a", "c", "a", "b")]
    assert await executed(ToolCache(max_size=2), *asked) == ["a", "b", "c", "b"]


async def test_old_result_is_fetched_anew_and_a_hit_does_not_prolong_its_life() -> None:
    clock = FakeClock()
    counted = Counted()

    class Later(Middleware):
        async def on_tool_phase_complete(self, ctx: RunContext, info: Any) -> None:
            await clock.advance(6)

    model = steps(echo("a"), echo("a"), echo("a"))
    mine = [ToolCache(ttl_s=10), Later()]
    await Agent(model, tools=counted.tools, middleware=mine, clock=clock, post_model_hooks=()).run("go")
    assert counted.ran == ["a", "a"]


async def test_own_key_decides_which_calls_are_equal() -> None:
    cache = ToolCache(key=lambda ctx, call: call.args["x"])
    assert await executed(cache, echo("a", y=1), echo("a", y=2)) == ["a"]


async def test_async_key_is_awaited() -> None:
    async def key(ctx: RunContext, call: ToolCall) -> Any:
        return call.args["x"]

    assert await executed(ToolCache(key=key), echo("a", y=1), echo("a", y=2), echo("b")) == ["a", "b"]


async def test_key_of_none_is_not_cached() -> None:
    assert await executed(ToolCache(key=lambda ctx, call: None), echo("a"), echo("a")) == ["a", "a"]


async def two_runs(cache: ToolCache, *contexts: Any) -> list[str]:
    ran: list[str] = []

    @tool
    async def mine(ctx: ToolContext) -> str:
        ran.append(ctx.context)
        return f"of {ctx.context}"

    model = ScriptedModel(*[turn for _ in contexts for turn in (calls("mine"), text("done"))])
    agent = Agent(model, tools=[mine], middleware=[cache], post_model_hooks=())
    seen = []
    for context in contexts:
        result = await agent.run("go", context=context)
        seen.append(result.messages[-2].text)
    return [*ran, *seen]


async def test_a_run_does_not_see_results_of_another() -> None:
    assert await two_runs(ToolCache(), "A", "B") == ["A", "B", "of A", "of B"]


async def test_agent_scope_shares_results_between_runs() -> None:
    assert await two_runs(ToolCache(scope="agent"), "A", "B") == ["A", "of A", "of A"]


async def test_scope_by_user_keeps_users_apart() -> None:
    cache = ToolCache(scope=lambda ctx: ctx.context)
    assert await two_runs(cache, "A", "B", "A") == ["A", "B", "of A", "of B", "of A"]


async def test_key_with_the_user_keeps_users_apart() -> None:
    cache = ToolCache(scope="agent", key=lambda ctx, call: [ctx.context, call.args])
    assert await two_runs(cache, "A", "B", "B") == ["A", "B", "of A", "of B", "of B"]


async def test_tool_that_is_not_cached_runs_for_each_of_two_calls_side_by_side() -> None:
    ran = []

    @tool
    async def next_id() -> int:
        ran.append(1)
        return len(ran)

    model = ScriptedModel(calls("next_id", "next_id"), text("done"))
    await Agent(model, tools=[next_id], middleware=[ToolCache(tools=["echo"])], post_model_hooks=()).run("go")
    assert len(ran) == 2


async def test_editing_an_answer_in_place_does_not_change_the_next() -> None:
    class Editor(Middleware):
        def after_tool_call(self, ctx: RunContext, call: ToolCall, result: Any) -> None:
            result.data["x"] += "!"

    model = steps(echo("a"), echo("a"), echo("a"))
    agent = Agent(model, tools=Counted().tools, middleware=[Editor(), ToolCache()], post_model_hooks=())
    result = await agent.run("go")
    assert {m.text for m in result.messages if isinstance(m, ToolMessage)} == {'{"x":"a!"}'}


class Storage:
    def __init__(self, broken: bool = False) -> None:
        self.kept: dict[str, str] = {}
        self.broken = broken

    async def get(self, key: str, /) -> str | None:
        if self.broken:
            raise ConnectionError("down")
        return self.kept.get(key)

    async def set(self, key: str, text: str, /) -> None:
        if self.broken:
            raise ConnectionError("down")
        self.kept[key] = text

    def delete(self, key: str, /) -> None:
        self.kept.pop(key)


async def test_storage_serves_another_object() -> None:
    storage = Storage()
    first = await executed(ToolCache(storage=storage, scope="agent"), echo("a"))
    assert (first, await executed(ToolCache(storage=storage, scope="agent"), echo("a"))) == (["a"], [])


async def test_storage_keeps_runs_apart_by_default() -> None:
    storage = Storage()
    await executed(ToolCache(storage=storage), echo("a"))
    assert await executed(ToolCache(storage=storage), echo("a"), echo("a")) == ["a"]


async def test_old_entry_is_deleted_from_storage() -> None:
    storage, clock = Storage(), FakeClock()
    cache = ToolCache(ttl_s=5, storage=storage, scope="agent")
    await executed(cache, echo("a"), clock=clock)
    await clock.advance(5)
    assert await executed(cache, echo("a"), clock=clock) == ["a"]


async def test_tool_runs_where_the_storage_is_down(caplog: pytest.LogCaptureFixture) -> None:
    assert await executed(ToolCache(storage=Storage(broken=True)), echo("a"), echo("a")) == ["a", "a"]
    assert "storage failed" in caplog.text


async def test_runs_at_once_do_not_mix() -> None:
    ran: list[str] = []

    @tool
    async def who(ctx: ToolContext) -> str:
        ran.append(ctx.context)
        await asyncio.sleep(0)
        return str(ctx.context)

    model = ScriptedModel(*[lambda request: text("done") if len(request.messages) > 1 else calls("who")] * 20)
    agent = Agent(model, tools=[who], middleware=[ToolCache()], post_model_hooks=())
    results = await asyncio.gather(*[agent.run("go", context=str(n)) for n in range(10)])
    assert [r.messages[-2].text for r in results] == [str(n) for n in range(10)]


@pytest.mark.parametrize(
    "options",
    [{"max_size": 0}, {"ttl_s": 0}, {"scope": "thread"}, {"tools": "echo"}, {"storage": {}}],
    ids=["no room", "no time", "unknown scope", "one name", "a dict"],
)
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ToolCache(**options)


class Opaque:
    """An object that has no text of its own."""


@pytest.mark.parametrize("options", [{"scope": lambda ctx: Opaque()}, {"key": lambda ctx, call: [Opaque()]}])
async def test_key_that_only_has_an_address_is_refused(options: Any) -> None:
    """Another user's object may get the address of one that is gone, and with it the answer."""
    with pytest.raises(TypeError, match=f"{next(iter(options))} must return .* got .*Opaque"):
        await executed(ToolCache(**options), echo("a"))


async def test_arguments_that_only_have_an_address_are_not_cached() -> None:
    one = Opaque()

    class Rewrite(Middleware):
        def before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolCall:
            return call.replace(args={"x": one})

    ran: list[Any] = []

    @tool
    async def look(x: Any) -> str:
        ran.append(x)
        return "seen"

    model = steps(("look", {"x": 1}), ("look", {"x": 1}))
    await Agent(model, tools=[look], middleware=[Rewrite(), ToolCache()], post_model_hooks=()).run("go")
    assert len(ran) == 2


@pytest.mark.parametrize("who", [("a", 1), {"name": "a"}, date(2024, 1, 2), UUID(int=7), frozenset({"a", "b"}), b"key"])
async def test_key_of_any_plain_value_is_told_by_its_text(who: Any) -> None:
    assert await executed(ToolCache(scope=lambda ctx: who), echo("a"), echo("a")) == ["a"]


@pytest.mark.parametrize(
    "data",
    [
        b"abc",
        date(2024, 1, 2),
        Color.RED,
        UUID(int=7),
        Decimal("1.50"),
        {"at": date(2024, 1, 2)},
        [b"x"],
        "\ud800",
        None,
    ],
    ids=repr,
)
async def test_hit_from_storage_reads_as_the_result_itself(data: Any) -> None:
    @tool
    async def look() -> Any:
        return data

    model = steps("look", "look")
    mine = Agent(model, tools=[look], middleware=[ToolCache(storage=Storage())], post_model_hooks=())
    first, second = [one for one in (await mine.run("go")).messages if isinstance(one, ToolMessage)]
    assert first.text == second.text
