"""A run whose process closes in the middle begins anew elsewhere: what its hooks, stores and nested runs then see."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from tests.durable.conftest import Place

from interpose import Agent, Limits, Middleware, ModelRequest, RateLimited, RunAborted, ToolContext, tool
from interpose.builtin import Fallback, RetryModelCalls
from interpose.durable.dbos import DBOSAgents
from interpose.messages import ToolCall, ToolResult
from interpose.request import Usage
from interpose.stores import MemoryStore
from interpose.testing import FakeClock, ScriptedModel, calls, fail, hang, text


class Stopper(Middleware[Any]):
    """Holds a run before its step *step*, the first time that it comes there."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.reached = asyncio.Event()

    async def on_step(self, ctx: Any, info: Any) -> None:
        if info.step == self.step and not self.reached.is_set() and ctx.parent_run_id is None:
            self.reached.set()
            await asyncio.Event().wait()


Anew = Callable[..., Any]


@pytest.fixture
def anew(sqlite: Place) -> Anew:
    """Runs an agent, closes the process before a step, and goes on with another."""

    async def run(make: Callable[[list[Any]], Agent[Any]], step: int = 1, **options: Any) -> Any:
        stopper = Stopper(step)
        made = {"a": make([stopper])}
        async with DBOSAgents(made, database_url=sqlite.url, executor="one", **options) as agents:
            await agents.submit("a", "go", run_id="r1", thread_id="t1")
            async with asyncio.timeout(20):
                await stopper.reached.wait()
        async with DBOSAgents(made, database_url=sqlite.url, executor="one", **options) as agents:
            return await agents.handle("r1").result()

    return run


def counting(*turns: Any) -> ScriptedModel:
    """A model of its turns, by the step that asks; the turns of one step follow each other."""
    left = {n: list(turn) if isinstance(turn, list) else [turn] for n, turn in enumerate(turns)}
    return ScriptedModel(*[lambda request: left[request.number].pop(0)] * 20)


def noting(log: list[str], effect: Any = "write") -> Any:
    @tool(effect=effect)
    async def note(ctx: ToolContext[Any], what: str) -> str:
        """Note something."""
        log.append(what)
        return what

    return note


async def test_finished_calls_are_not_made_again(anew: Anew) -> None:
    log: list[str] = []
    model = counting(calls(("note", {"what": "x"}), ("note", {"what": "y"})), text("done"))
    result = await anew(lambda extra: Agent(model, tools=[noting(log)], middleware=extra))
    assert (result.text, sorted(log), len(model.requests)) == ("done", ["x", "y"], 2)
    assert [one.data for one in result.steps[0].tool_results] == ["x", "y"]


async def test_usage_and_limits_count_what_was_before(anew: Anew) -> None:
    log: list[str] = []
    asks = [calls(("note", {"what": str(n)}), usage=Usage(10, 5)) for n in range(5)]
    limits = Limits(max_tool_calls=2)
    result = await anew(
        lambda extra: Agent(counting(*asks), tools=[noting(log)], middleware=extra, limits=limits), step=2
    )
    assert (result.finish_reason, log) == ("limit", ["0", "1"])
    assert result.usage.total_tokens == 45


async def test_error_that_was_retried_is_retried_alike(anew: Anew) -> None:
    slow = fail(RateLimited("slow down", provider="scripted"))
    model = counting([slow, calls(("note", {"what": "x"}))], text("done"))
    seen: list[Any] = []

    class Watch(Middleware[Any]):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            except RateLimited as error:
                seen.append((str(error), error.provider, error.retryable))
                raise

    layers = [RetryModelCalls(), Watch()]
    make = lambda extra: Agent(  # noqa: E731  # short
        model, tools=[noting([])], middleware=[*extra, *layers], clock=FakeClock(auto=True)
    )
    result = await anew(make)
    assert (result.text, len(model.requests)) == ("done", 3)
    assert seen == [("slow down", "scripted", True)] * 2


async def test_other_model_that_stood_in_is_not_asked_again(anew: Anew) -> None:
    down = fail(RateLimited("slow down", provider="scripted"))
    first = counting([down], text("done"))
    second = ScriptedModel(calls(("note", {"what": "x"})), provider="other")
    result = await anew(
        lambda extra: Agent(first, tools=[noting([])], middleware=[*extra, Fallback(second)]),
    )
    assert (result.text, len(first.requests), len(second.requests)) == ("done", 2, 1)
    assert result.steps[0].response.provider == "other"


async def test_models_own_ids_may_differ(anew: Anew) -> None:
    """A middleware that answers in the model's place makes new ids each time; its calls are known by their place."""
    log: list[str] = []

    class Answers(Middleware[Any]):
        def before_model_call(self, ctx: Any, request: ModelRequest) -> Any:
            if request.number == 0:
                response = request.answer("")
                call = ToolCall(ctx.create_id("call"), "note", {"what": "x"})
                return response.replace(message=response.message.replace(tool_calls=(call,)))
            return None

    model = counting(text("never"), text("done"))
    result = await anew(lambda extra: Agent(model, tools=[noting(log)], middleware=[*extra, Answers()]))
    assert (result.text, log) == ("done", ["x"])
    assert result.steps[0].tool_results[0].data == "x"


async def test_answer_cut_by_dead_air_stays_as_it_was(anew: Anew) -> None:
    model = counting(hang(after=("half an",)), text("never"))

    class More(Middleware[Any]):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            call = ToolCall(ctx.create_id("call"), "note", {"what": response.text})
            message = response.message.replace(tool_calls=(call,))
            return response.replace(message=message, finish_reason="tool_calls") if request.number == 0 else None

    log: list[str] = []
    make = lambda extra: Agent(  # noqa: E731  # short
        model, tools=[noting(log)], middleware=[*extra, More()], limits=Limits(dead_air_s=0.3)
    )
    result = await anew(make)
    assert log == ["half an"]
    assert len(model.requests) == 2
    assert result.steps[0].response.text == "half an"


async def test_cut_write_may_be_looked_up(sqlite: Place) -> None:
    began = asyncio.Event()
    looked: list[str] = []

    @tool
    async def pay(ctx: ToolContext[Any]) -> str:
        """Pay."""
        looked.append(ctx.idempotency_key)
        began.set()
        await asyncio.Event().wait()
        return "paid"

    async def look(ctx: Any, call: ToolCall) -> str:
        looked.append(call.idempotency_key)
        return "paid, as the bank says"

    made = {"a": Agent(counting(calls(("pay", {})), text("done")), tools=[pay])}
    async with DBOSAgents(made, database_url=sqlite.url, executor="one") as agents:
        await agents.submit("a", "go", run_id="r1")
        await began.wait()
    async with DBOSAgents(made, database_url=sqlite.url, executor="one", on_unknown=look) as agents:
        result = await agents.handle("r1").result()
    assert result.steps[0].tool_results[0].data == "paid, as the bank says"
    assert looked[0] == looked[1] == "r1:tool:0:0"


async def test_finished_calls_of_a_nested_run_are_not_made_again(sqlite: Place) -> None:
    log: list[str] = []
    began = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait, the first time."""
        log.append("wait")
        if not began.is_set():
            began.set()
            await asyncio.Event().wait()
        return "waited"

    inner_model = counting(calls(("note", {"what": "inner"})), calls(("wait", {})), text("found"))
    inner = Agent(inner_model, tools=[noting(log), wait], name="inner")
    outer_model = counting(calls(("research", {"prompt": "look"})), text("done"))
    made = {"a": Agent(outer_model, tools=[inner.as_tool("research", "Find out.")])}
    async with DBOSAgents(made, database_url=sqlite.url, executor="one") as agents:
        await agents.submit("a", "go", run_id="r1")
        await began.wait()
    async with DBOSAgents(made, database_url=sqlite.url, executor="one") as agents:
        result = await agents.handle("r1").result()
    assert result.steps[0].tool_results[0].data == "found"
    assert log == ["inner", "wait", "wait"]
    assert (len(inner_model.requests), len(outer_model.requests)) == (3, 2)


async def test_thread_is_read_once_and_extended_once(anew: Anew) -> None:
    store = MemoryStore()
    model = counting(calls(("note", {"what": "x"})), text("done"))
    result = await anew(lambda extra: Agent(model, tools=[noting([])], middleware=extra, store=store))
    assert [one.text for one in result.messages] == ["go", "", "x", "done"]
    assert [one.text for one in await store.load("t1")] == ["go", "", "x", "done"]


async def test_model_call_of_a_middleware_is_not_made_again(anew: Anew) -> None:
    asked: list[str] = []

    class Summarizes(Middleware[Any]):
        async def on_step(self, ctx: Any, info: Any) -> None:
            if info.step == 0:
                asked.append((await ctx.generate("sum up")).text)

    model = counting([text("summary"), calls(("note", {"what": "x"}))], text("done"))
    result = await anew(lambda extra: Agent(model, tools=[noting([])], middleware=[*extra, Summarizes()]))
    assert (result.text, asked, len(model.requests)) == ("done", ["summary"] * 2, 3)


async def test_cancelled_run_leaves_its_thread_in_order(sqlite: Place) -> None:
    store, stopper = MemoryStore(), Stopper(1)
    model = counting(calls(("note", {"what": "x"})), text("never"))
    agent = Agent(model, tools=[noting([])], middleware=[stopper], store=store)
    async with DBOSAgents({"a": agent}, database_url=sqlite.url) as agents:
        handle = await agents.submit("a", "go", thread_id="t1")
        await stopper.reached.wait()
        await handle.cancel()
        with pytest.raises(RunAborted):
            await handle.result()
        async with asyncio.timeout(5):
            while len(await store.load("t1")) < 3:  # noqa: ASYNC110  # it has nobody to tell
                await asyncio.sleep(0.01)
    assert [one.text for one in await store.load("t1")] == ["go", "", "x"]


async def test_context_of_a_tool_is_that_of_the_run(anew: Anew) -> None:
    model = counting(calls(("note", {"what": "x"})), text("done"))
    state: list[Any] = []

    class Counts(Middleware[Any]):
        def after_tool_call(self, ctx: Any, call: Any, result: ToolResult) -> None:
            ctx.state["results"] = ctx.state.get("results", 0) + 1

        def on_finish(self, ctx: Any, info: Any) -> None:
            state.append((ctx.run_id, ctx.thread_id, dict(ctx.state)))

    await anew(lambda extra: Agent(model, tools=[noting([])], middleware=[*extra, Counts()]))
    assert state == [("r1", "t1", {"results": 1})]


async def test_run_that_another_process_took_over_stops_and_writes_nothing(sqlite: Place) -> None:
    store, ends = MemoryStore(), asyncio.Event()
    log: list[str] = []

    class Watch(Middleware[Any]):
        def on_abort(self, ctx: Any, info: Any) -> None:
            log.append("aborted")
            ends.set()

    @tool
    async def slow() -> str:
        """Take so long that others think this process is gone."""
        with sqlite3.connect(sqlite.url.removeprefix("sqlite:///")) as database:
            database.execute("UPDATE workflow_status SET owner_xid = 'another'")
        database.close()
        log.append("slow")
        return "done"

    model = counting(calls(("slow", {})), text("never"))
    agent = Agent(model, tools=[slow], middleware=[Watch()], store=store)
    async with DBOSAgents({"a": agent}, database_url=sqlite.url) as agents:
        await agents.submit("a", "go", thread_id="t1")
        async with asyncio.timeout(10):
            await ends.wait()
    assert (log, len(model.requests), list(await store.load("t1"))) == (["slow", "aborted"], 1, [])
