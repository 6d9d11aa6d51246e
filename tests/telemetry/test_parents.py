"""Parents: what happens in a run, a model call or a tool is told below it, in whatever task it happens."""

import asyncio
import time
from typing import Any

from opentelemetry import context, trace
from tests.telemetry.memory import Memory

from interpose import Agent, Middleware, ToolContext, tool
from interpose.testing import ScriptedModel, calls, text

RUN, MODEL = "invoke_agent agent", "chat scripted"


def agent_of(memory: Memory, *turns: Any, **options: Any) -> Agent[Any]:
    middleware = options.pop("middleware", [memory.telemetry()])
    return Agent(ScriptedModel(*turns), middleware=middleware, **options)


def two_tools(memory: Memory) -> list[Any]:
    @tool
    async def slow(n: int) -> str:
        """Take a while."""
        with memory.tracer.start_as_current_span("in slow"):
            await asyncio.sleep(0.01)
            with memory.tracer.start_as_current_span("in slow, later"):
                return "slow"

    @tool
    def plain(n: int) -> str:
        """Block a thread."""
        with memory.tracer.start_as_current_span("in plain"):
            time.sleep(0.005)
            return "plain"

    return [slow, plain]


ASKS_BOTH = calls(("slow", {"n": 1}), ("plain", {"n": 2}))
TREE = {
    RUN: None,
    MODEL: RUN,
    "execute_tool slow": RUN,
    "execute_tool plain": RUN,
    "in slow": "execute_tool slow",
    "in slow, later": "in slow",
    "in plain": "execute_tool plain",
}


async def test_spans_made_in_parallel_tools_are_children_of_their_tools_in_a_run(memory: Memory) -> None:
    await agent_of(memory, ASKS_BOTH, text("end"), tools=two_tools(memory)).run("go")
    assert memory.tree() == TREE
    assert len({one.context.trace_id for one in memory.spans}) == 1


async def test_spans_made_in_parallel_tools_are_children_of_their_tools_in_a_stream(memory: Memory) -> None:
    async with agent_of(memory, ASKS_BOTH, text("end"), tools=two_tools(memory)).stream("go") as run:
        async for _ in run:
            pass
    assert memory.tree() == TREE


async def test_a_stream_read_in_another_task_stays_below_the_span_it_was_started_in(memory: Memory) -> None:
    agent = agent_of(memory, ASKS_BOTH, text("one two three"), tools=two_tools(memory))
    seen: set[Any] = set()

    async def read(run: Any) -> None:
        async for _ in run:
            seen.add(trace.get_current_span().get_span_context().span_id)

    with memory.tracer.start_as_current_span("request") as request:
        async with agent.stream("go") as run:
            await asyncio.create_task(read(run))
            assert trace.get_current_span() is request
    assert memory.tree() == {**TREE, RUN: "request", "request": None}
    assert seen == {request.get_span_context().span_id}


async def test_the_callers_span_and_context_are_as_before_between_events_and_after(memory: Memory) -> None:
    before = context.get_current()
    async with agent_of(memory, ASKS_BOTH, text("x"), tools=two_tools(memory)).stream("go") as run:
        async for _ in run:
            assert context.get_current() is before
    assert context.get_current() is before
    await agent_of(memory, text("x")).run("go")
    assert context.get_current() is before


async def test_a_run_that_an_agent_owns_is_below_the_span_that_started_it(memory: Memory) -> None:
    agent = agent_of(memory, text("x"))
    with memory.tracer.start_as_current_span("request"):
        run = await agent.start("go")
    await run.result()
    await agent.aclose()
    assert memory.tree()[RUN] == "request"


async def test_runs_side_by_side_have_traces_of_their_own(memory: Memory) -> None:
    agent = agent_of(memory, *[text("x")] * 5)
    await asyncio.gather(*[agent.run("go") for _ in range(5)])
    runs, models = memory.of("invoke_agent"), memory.of("chat")
    assert len({one.context.trace_id for one in runs}) == 5
    assert {one.parent.span_id for one in models if one.parent} == {one.context.span_id for one in runs}


async def test_a_nested_run_is_below_its_tool(memory: Memory) -> None:
    inner: Agent[Any] = Agent(ScriptedModel(text("x"), model="small"), name="inner")
    outer = agent_of(memory, calls(("ask", {"prompt": "x"})), text("end"), tools=[inner.as_tool("ask", "Ask.")])
    await outer.run("go")
    assert memory.tree() == {
        RUN: None,
        MODEL: RUN,
        "execute_tool ask": RUN,
        "invoke_agent inner": "execute_tool ask",
        "chat small": "invoke_agent inner",
    }


async def test_two_agents_with_telemetry_of_their_own_tell_a_nested_run_once(memory: Memory) -> None:
    model = ScriptedModel(text("x"), text("y"), model="small")
    inner: Agent[Any] = Agent(model, name="inner", middleware=[memory.telemetry()])
    outer = agent_of(memory, calls(("ask", {"prompt": "x"})), text("end"), tools=[inner.as_tool("ask", "Ask.")])
    await outer.run("go")
    assert len(memory.spans) == 6
    assert memory.tree()["chat small"] == "invoke_agent inner"
    memory.exporter.clear()
    await inner.run("alone")
    assert memory.tree() == {"invoke_agent inner": None, "chat small": "invoke_agent inner"}


async def test_telemetry_given_twice_tells_once(memory: Memory) -> None:
    agent = agent_of(memory, text("x"), middleware=[memory.telemetry(), memory.telemetry()])
    await agent.run("go", middleware=[memory.telemetry()])
    assert sorted(one.name for one in memory.spans) == [MODEL, RUN]


async def test_telemetry_to_two_places_tells_both_whole(memory: Memory) -> None:
    other = Memory()
    agent = agent_of(memory, text("x"), middleware=[memory.telemetry(), other.telemetry()])
    await agent.run("go")
    assert [sorted(one.name for one in place.spans) for place in (memory, other)] == [[MODEL, RUN]] * 2


async def test_an_agent_run_in_a_tools_body_is_below_the_tool(memory: Memory) -> None:
    inner: Agent[Any] = Agent(ScriptedModel(text("x")), name="inner", middleware=[memory.telemetry()])

    @tool
    async def ask(n: int) -> str:
        """Ask another agent, on its own account."""
        return (await inner.run("go")).text

    await agent_of(memory, calls(("ask", {"n": 1})), text("end"), tools=[ask]).run("go")
    assert memory.tree()["invoke_agent inner"] == "execute_tool ask"


async def test_spans_of_middleware_stand_between(memory: Memory) -> None:
    class Spans(Middleware):
        async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
            with memory.tracer.start_as_current_span("around the run"):
                return await call_next()

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            with memory.tracer.start_as_current_span("around the model"):
                return await call_next(request)

        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            with memory.tracer.start_as_current_span("around the tool"):
                return await call_next(call)

    tools = two_tools(memory)[1:]
    turns = (calls(("plain", {"n": 1})), text("end"))
    await agent_of(memory, *turns, tools=tools, middleware=[Spans(), memory.telemetry()]).run("go")
    assert memory.tree() == {
        RUN: None,
        "around the run": RUN,
        MODEL: "around the run",
        "around the model": MODEL,
        "execute_tool plain": "around the run",
        "around the tool": "execute_tool plain",
        "in plain": "around the tool",
    }


async def test_a_middlewares_own_model_call_is_below_what_makes_it(memory: Memory) -> None:
    small = ScriptedModel(text("sum"), text("more"), model="small")

    class Sums(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            if info.step == 0:
                await ctx.generate("Sum up.", model=small)

    @tool
    async def think(ctx: ToolContext[Any]) -> str:
        """Think with a model."""
        return (await ctx.generate("Think.", model=small)).text

    turns = (calls("think"), text("end"))
    await agent_of(memory, *turns, tools=[think], middleware=[Sums(), memory.telemetry()]).run("go")
    own = [one for one in memory.spans if one.name == "chat small"]
    names = {one.context.span_id: one.name for one in memory.spans}
    assert [names[one.parent.span_id] for one in own if one.parent] == [RUN, "execute_tool think"]


async def test_what_a_hook_leaves_attached_does_not_leak_into_later_spans(memory: Memory) -> None:
    class Leaks(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> None:
            span = memory.tracer.start_span("left")
            context.attach(trace.set_span_in_context(span))
            span.end()

    tools = two_tools(memory)[1:]
    turns = (calls(("plain", {"n": 1})), text("end"))
    await agent_of(memory, *turns, tools=tools, middleware=[Leaks(), memory.telemetry()]).run("go")
    assert memory.tree()["execute_tool plain"] == RUN


async def test_what_the_application_puts_in_the_context_reaches_the_tools(memory: Memory) -> None:
    from opentelemetry import baggage

    seen: list[Any] = []

    @tool
    async def look(n: int) -> str:
        """Look."""
        seen.append(baggage.get_baggage("tenant"))
        return "x"

    token = context.attach(baggage.set_baggage("tenant", "t1"))
    try:
        await agent_of(memory, calls(("look", {"n": 1})), text("end"), tools=[look]).run("go")
    finally:
        context.detach(token)
    assert seen == ["t1"]
