"""Many runs share an agent and its middleware, and nothing of one reaches another or outlives it."""

import asyncio
import contextvars
import copy
import gc
import threading
import time
import tracemalloc
import weakref
from typing import Any

import pytest
from tests.layers.play import Ends, agent_of, echo, errors_of, results_of

from interpose import Middleware, tool
from interpose.testing import ScriptedModel, calls, hang, text

ONE = ("echo", {"x": "1"})
VAR: contextvars.ContextVar[str] = contextvars.ContextVar("VAR", default="unset")


class Parrot:
    """Calls the tool `echo` with the prompt, then says it; takes as many runs as there are."""

    provider, name, profile = "parrot", "parrot", None

    async def stream(self, request: Any) -> Any:
        from interpose import Finish, TextDelta, ToolCallDelta

        said = request.messages[0].text
        await asyncio.sleep(0)
        if request.messages[-1].role == "tool":
            yield TextDelta(request.messages[-1].text)
            yield Finish()
        else:
            yield ToolCallDelta(0, "c1", "echo", f'{{"x":"{said}"}}')
            yield Finish("tool_calls")


class Marks(Middleware):
    """Keeps the run's own marker in every kind of state, and compares later."""

    async def on_start(self, ctx: Any) -> None:
        marker = ctx.messages[0].text
        ctx.state["marker"] = marker
        ctx.private(self)["marker"] = marker

    async def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
        await asyncio.sleep(0)
        assert {ctx.state["marker"], ctx.private(self)["marker"], ctx.context, result.data} == {result.data}

    def on_finish(self, ctx: Any, info: Any) -> None:
        assert info.text == ctx.state["marker"]


async def test_no_marker_crosses_between_fifty_runs_at_once() -> None:
    agent = agent_of(model=Parrot(), tools=[echo], middleware=[Marks()])
    results = await asyncio.gather(*[agent.run(f"m{n}", context=f"m{n}") for n in range(50)])
    assert [result.text for result in results] == [f"m{n}" for n in range(50)]
    assert len({result.run_id for result in results}) == 50


def test_one_agent_serves_loops_in_several_threads() -> None:
    agent = agent_of(model=Parrot(), tools=[echo], middleware=[Marks()])
    texts: list[str] = []

    async def some(k: int) -> None:
        results = await asyncio.gather(*[agent.run(f"t{k}-{n}", context=f"t{k}-{n}") for n in range(5)])
        texts.extend(result.text for result in results)

    threads = [threading.Thread(target=lambda k=k: asyncio.run(some(k))) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == sorted(f"t{k}-{n}" for k in range(4) for n in range(5))


async def test_the_callers_context_variable_is_seen_everywhere() -> None:
    seen: dict[str, str] = {}

    @tool
    def in_thread() -> str:
        """Sync."""
        seen["sync tool"] = VAR.get()
        return "x"

    @tool
    async def in_loop() -> str:
        """Async."""
        seen["async tool"] = VAR.get()
        return "x"

    class Inner(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            seen["sub-agent"] = VAR.get()
            return await call_next(request)

    hooks = ["setup", "on_config", "on_start", "on_step", "before_model_call", "after_model_call", "on_chunk",
             "before_tool_call", "after_tool_call", "on_tool_phase_complete", "on_should_continue", "on_finish",
             "on_node"]  # fmt: skip
    noted = {hook: (lambda self, *args, hook=hook: seen.__setitem__(hook, VAR.get())) for hook in hooks}
    kind = type("Notes", (Middleware,), noted)
    child = agent_of(text("x"), middleware=[Inner()]).as_tool("child", "Child.")
    agent = agent_of(calls("in_thread", "in_loop", ("child", {"prompt": "p"})), text("x"),
                     tools=[in_thread, in_loop, child], middleware=[kind()])  # fmt: skip
    VAR.set("r7")
    await agent.run("go")
    assert set(seen) == {"sync tool", "async tool", "sub-agent", *hooks}
    assert set(seen.values()) == {"r7"}


async def test_what_a_tool_sets_reaches_neither_sibling_nor_caller() -> None:
    @tool
    async def sets() -> str:
        """Set."""
        VAR.set("leaked")
        return "x"

    @tool
    async def reads() -> str:
        """Read."""
        await asyncio.sleep(0.01)
        return VAR.get()

    VAR.set("mine")
    result = await agent_of(calls("sets", "reads"), calls("reads"), text("x"), tools=[sets, reads]).run("go")
    assert results_of(result) == ["x", "mine", "mine"]
    assert VAR.get() == "mine"


async def test_a_blocking_sync_tool_does_not_stall_the_loop_and_its_late_value_is_thrown_away() -> None:
    from interpose import Limits

    late: list[float] = []

    def blocks() -> str:
        """Block."""
        time.sleep(0.15)
        return "late"

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - before - 0.005)

    agent = agent_of(calls("blocks"), text("x"), tools=[blocks], limits=Limits(tool_timeout_s=0.01))
    ticker = asyncio.create_task(tick())
    result = await agent.run("go")
    await asyncio.sleep(0.2)
    ticker.cancel()
    assert max(late) < 0.1
    assert errors_of(result)[0]
    assert "late" not in results_of(result)


async def test_dropping_the_last_reference_frees_the_agent_without_the_collector() -> None:
    class Hooks(Middleware):
        def open(self, agent: Any) -> None:
            pass

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    gc.collect()
    gc.disable()
    try:
        agent = agent_of(
            calls(ONE), text("x"), text("y"), tools=[echo], middleware=[Hooks()], before_tool=lambda ctx, call: None
        )
        dead = weakref.ref(agent)
        await agent.run("go")
        async with agent.stream("go", middleware=[Hooks()]) as run:
            await anext(run)
        del agent, run
        await asyncio.sleep(0)
        assert dead() is None
    finally:
        gc.enable()


async def test_nothing_grows_with_the_number_of_runs() -> None:
    agent = agent_of(model=Parrot(), tools=[echo], middleware=[Marks(), Ends()])

    async def some(many: int) -> None:
        for n in range(many):
            await agent.run("m", context="m", thread_id=f"thread-{n}")
            async with agent.stream("m", context="m", thread_id=f"stream-{n}") as run:
                await anext(run)

    await some(20)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    await some(60)
    gc.collect()
    grown = sum(max(0, one.size_diff) for one in tracemalloc.take_snapshot().compare_to(before, "filename")
                if "interpose" in one.traceback[0].filename)  # fmt: skip
    tracemalloc.stop()
    assert grown < 30_000


async def test_a_copy_has_every_hook_of_the_original_and_is_its_own() -> None:
    def make_hooks(log: list[str]) -> Any:
        class Notes(Middleware):
            def before_model_call(self, ctx: Any, request: Any) -> None:
                log.append("model")

            def before_tool_call(self, ctx: Any, call: Any) -> None:
                log.append("tool")

        return Notes()

    def note(ctx: Any, call: Any) -> None:
        log.append("before_tool")

    def noted(ctx: Any, call: Any, result: Any) -> None:
        log.append("after_tool")

    log: list[str] = []
    turns = [calls(ONE), text("x")]
    agent = agent_of(tools=[echo], middleware=[make_hooks(log)], before_tool=note, after_tool=noted)
    logs = []
    for other in (agent.copy(), copy.copy(agent), agent.copy(instructions="other"), agent.copy(name="b")):
        log.clear()
        await other.copy(model=ScriptedModel(*turns)).run("go")
        logs.append(list(log))
    assert logs == [["model", "before_tool", "tool", "after_tool", "model"]] * 4


async def test_changing_a_copy_leaves_the_original_alone() -> None:
    agent = agent_of(text("x"), instructions="a")
    other = agent.copy(instructions="b")
    await other.use(Ends())
    assert (agent.instructions, len(agent.middleware), len(other.middleware)) == ("a", 0, 1)


async def test_a_copy_with_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeError, match="instuctions"):
        agent_of().copy(instuctions="x")


async def test_override_swaps_parts_in_this_context_only() -> None:
    agent = agent_of(text("real"))
    with agent.override(model=ScriptedModel(text("fake"))):
        assert (await agent.run("go")).text == "fake"
    assert (await agent.run("go")).text == "real"


async def test_private_state_of_a_parent_is_not_seen_in_its_children() -> None:
    class Secret(Middleware):
        def on_start(self, ctx: Any) -> None:
            seen.append(dict(ctx.private(self)))
            ctx.private(self)["token"] = "T"
            seen.append(dict(ctx.state))
            ctx.state["topic"] = "x"

    seen: list[Any] = []
    shared = Secret()
    child = agent_of(text("c1"), text("c2"), middleware=[shared]).as_tool("child", "Child.")
    turns = [calls(("child", {"prompt": "1"})), calls(("child", {"prompt": "2"})), text("x")]
    result = await agent_of(*turns, tools=[child], middleware=[shared]).run("go")
    assert seen == [{}] * 6
    assert results_of(result) == ["c1", "c2"]


async def test_a_child_has_its_parents_context_and_its_own_ids_and_thread() -> None:
    ids: list[Any] = []

    class Notes(Middleware):
        def on_start(self, ctx: Any) -> None:
            ids.append((ctx.run_id, ctx.parent_run_id, ctx.thread_id, ctx.context))

    child = agent_of(text("c"), middleware=[Notes()]).as_tool("child", "Child.")
    agent = agent_of(calls(("child", {"prompt": "1"})), text("x"), tools=[child], middleware=[Notes()])
    await agent.run("go", context={"user": 1})
    (outer, none, thread, context), (inner, parent, inner_thread, inner_context) = ids
    assert none is None
    assert parent == outer
    assert inner != outer
    assert thread != inner_thread
    assert inner_context is context


async def test_only_nested_middleware_goes_into_the_child_and_stands_outermost() -> None:
    log: list[str] = []

    class Notes(Middleware):
        def __init__(self, name: str, nested: bool) -> None:
            self.name, self.nested = name, nested

        def before_model_call(self, ctx: Any, request: Any) -> None:
            log.append(f"{self.name} {request.messages[0].text}")

    child = agent_of(text("c"), middleware=[Notes("own", False)]).as_tool("child", "Child.")
    agent = agent_of(calls(("child", {"prompt": "inner"})), text("x"), tools=[child],
                     middleware=[Notes("audit", True), Notes("local", False)])  # fmt: skip
    await agent.run("outer")
    assert log == ["audit outer", "local outer", "audit inner", "own inner", "audit outer", "local outer"]


async def test_the_childs_own_tool_hooks_hold_in_a_nested_run() -> None:
    ran: list[str] = []

    async def rm() -> str:
        """Remove."""
        ran.append("rm")
        return "gone"

    inner = agent_of(calls("rm"), text("c"), tools=[rm], before_tool=lambda ctx, call: call.refuse("not allowed"))
    await agent_of(calls(("child", {"prompt": "x"})), text("x"), tools=[inner.as_tool("child", "Child.")]).run("go")
    assert ran == []


async def test_two_runs_on_one_thread_are_not_mixed() -> None:
    order: list[str] = []

    class Notes(Middleware):
        async def on_start(self, ctx: Any) -> None:
            order.append("in")
            await asyncio.sleep(0.01)

        def on_finish(self, ctx: Any, info: Any) -> None:
            order.append("out")

    agent = agent_of(text("1"), text("2"), middleware=[Notes()])
    await asyncio.gather(agent.run("a", thread_id="t"), agent.run("b", thread_id="t"))
    assert order == ["in", "out", "in", "out"]


async def test_a_second_run_on_a_thread_goes_on_after_the_first_was_aborted() -> None:
    agent = agent_of(hang(), text("2"))
    first = asyncio.create_task(agent.run("a", thread_id="t"))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(agent.run("b", thread_id="t"))
    await asyncio.sleep(0.01)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await second).text == "2"
