"""What hooks and tools are told of the run that they serve, and what they can do with it."""

import asyncio
import logging
from typing import Any

import pytest
from tests.lifecycle.play import PLAIN_HOOKS, agent, both, hello, logged, play, two_steps

from interpose import (
    Agent,
    Limits,
    Middleware,
    ToolContext,
    Usage,
    on_chunk,
    on_start,
    tool,
    wrap_model_call,
)
from interpose.testing import ScriptedModel, calls, text, text_of


async def test_the_callers_object_is_the_same_in_every_hook_and_in_tools() -> None:
    given = object()
    seen: dict[str, Any] = {}

    @tool
    async def look(ctx: ToolContext[Any]) -> str:
        """Look."""
        seen["tool"] = ctx.context
        return "seen"

    def watch(hook: str) -> Any:
        def method(self: Any, ctx: Any, *more: Any) -> Any:
            seen[hook] = ctx.context
            return more[-1](*more[:-1]) if hook.startswith("wrap_") else None

        if hook in ("setup", "on_start", "on_interrupt_boundary"):
            return lambda self, ctx: method(self, ctx)
        if hook.startswith(("after_", "wrap_")) and hook != "wrap_run":
            return lambda self, ctx, one, two: method(self, ctx, one, two)
        return lambda self, ctx, one: method(self, ctx, one)

    hooks = [*PLAIN_HOOKS, "wrap_run", "wrap_model_call", "wrap_tool_call"]
    watcher = type("Watcher", (Middleware,), {hook: watch(hook) for hook in hooks})()
    used = Usage(input_tokens=1)
    one = Agent(
        ScriptedModel(calls(("look", {}), usage=used), text("x", usage=used)),
        tools=[look],
        middleware=[watcher],
        post_model_hooks=(),
    )
    await one.run("Go", context=given)
    assert sorted(seen) == sorted([*hooks, "tool"])
    assert all(value is given for value in seen.values())


async def test_without_a_callers_object_a_tools_context_is_none() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def look(ctx: ToolContext[str]) -> str:
            """Look."""
            log.append(ctx.context)
            return "ok"

        return agent(calls("look"), text("x"), tools=[look])

    played = await both(make)
    assert played.log == [None]
    assert not played.result.steps[0].tool_results[0].is_error


async def test_runs_have_ids_of_their_own() -> None:
    ids: list[tuple[str, str, str]] = []
    one = agent("x", "y", middleware=[on_start(lambda ctx: ids.append((ctx.run_id, ctx.thread_id, ctx.request_id)))])
    await play("run", one)
    await play("stream", one)
    assert all(all(row) for row in ids)
    assert ids[0][0] != ids[1][0]


async def test_a_given_thread_id_is_said_everywhere() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(hello(), middleware=[on_start(lambda ctx: log.append(ctx.thread_id))])

    played = await both(make, thread_id="t")
    assert played.log == ["t"]
    assert played.result.thread_id == "t"
    assert {event.thread_id for event in (played.events[0], played.events[-1])} == {"t"}


async def test_given_run_ids_are_kept() -> None:
    played = await both(lambda log: agent(hello()), run_id="r", parent_run_id="p")
    assert played.result.run_id == "r"
    assert (played.events[0].run_id, played.events[0].parent_run_id, played.events[-1].run_id) == ("r", "p", "r")


async def test_editing_a_copy_of_the_messages_changes_nothing() -> None:
    def edit(ctx: Any) -> None:
        with pytest.raises((TypeError, AttributeError)):
            ctx.messages[0] = None
        with pytest.raises(AttributeError):
            ctx.messages = ()
        list(ctx.messages).clear()

    played = await both(lambda log: agent(hello(), middleware=[on_start(edit)]))
    assert [m.text for m in played.requests[0].messages] == ["Go"]


async def test_the_text_so_far_can_be_read_at_every_chunk() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def look(ctx: Any, event: Any) -> None:
            if event.type == "TEXT_MESSAGE_END":
                log.append(ctx.accumulated_text)
            if event.type == "TEXT_MESSAGE_CONTENT":
                log.append(ctx.accumulated_text)

        return agent(text("Hello", chunks=("Hel", "lo")), middleware=[on_chunk(look)])

    assert (await both(make)).log[-2:] == ["Hel", "Hello"]


async def test_the_chunk_index_counts_what_enters_the_pipe_from_zero() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(hello(), middleware=[on_chunk(lambda ctx, event: log.append(ctx.chunk_index))])

    played = await both(make)
    assert played.log == list(range(len(played.events)))


async def test_deferred_work_is_done_when_the_run_returns() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work(name: str) -> None:
            await asyncio.sleep(0.01)
            log.append(name)

        def start(ctx: Any) -> None:
            ctx.defer(work("one"))
            ctx.defer(work("two"))

        def chunk(ctx: Any, event: Any) -> None:
            if event.type == "TEXT_MESSAGE_START":
                ctx.defer(work("three"))

        return agent(hello(), middleware=[on_start(start), on_chunk(chunk)])

    assert sorted((await both(make)).log) == ["one", "three", "two"]


async def test_deferred_work_begins_now_and_is_waited_for_after_the_terminal_hook() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Defers(Middleware):
            async def work(self) -> None:
                log.append("begun")
                await asyncio.sleep(0.02)
                log.append("done")

            async def on_start(self, ctx: Any) -> None:
                ctx.defer(self.work())
                await asyncio.sleep(0.001)
                log.append("started")

            def on_finish(self, ctx: Any, info: Any) -> None:
                log.append("finish")

        return agent(hello(), middleware=[Defers()])

    assert (await both(make)).log == ["begun", "started", "finish", "done"]


async def test_failing_deferred_work_is_logged_and_the_result_stands(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("later trouble")

    with caplog.at_level(logging.WARNING):
        played = await both(lambda log: agent(hello(), middleware=[on_start(lambda ctx: ctx.defer(work()))]))
    assert played.result.text == "Hello"
    assert "later trouble" in caplog.text


async def test_what_was_entered_is_left_after_the_terminal_hook_last_first() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Held:
            def __init__(self, name: str) -> None:
                self.name = name

            async def __aenter__(self) -> str:
                return self.name

            async def __aexit__(self, *error: Any) -> None:
                log.append(f"left {self.name}")

        class Enters(Middleware):
            async def on_start(self, ctx: Any) -> None:
                log.append([await ctx.enter(Held("a")), await ctx.enter(Held("b"))])

            def on_finish(self, ctx: Any, info: Any) -> None:
                log.append("finish")

        return agent(hello(), middleware=[Enters()])

    assert (await both(make)).log == [["a", "b"], "finish", "left b", "left a"]


async def test_created_ids_differ_and_begin_with_the_prefix() -> None:
    made: list[str] = []

    def start(ctx: Any) -> None:
        made.extend([ctx.create_id("x"), ctx.create_id("x")])

    await play("run", agent(hello(), middleware=[on_start(start)]))
    assert made[0] != made[1]
    assert all(one.startswith("x") for one in made)


def asks_itself(log: list[Any]) -> Any:
    async def ask(ctx: Any, request: Any, call_next: Any) -> Any:
        log.append((await ctx.generate("Sum it up")).text)
        return await call_next(request)

    return wrap_model_call(ask)


async def test_a_middlewares_own_call_is_counted_and_shown_to_nobody() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        used = Usage(input_tokens=5, output_tokens=5)
        hooks = ("before_model_call", "wrap_model_call", "after_model_call")
        inner = logged("inner", log, *hooks)
        return agent(text("own", usage=used), text("shown", usage=used), middleware=[asks_itself(log), inner])

    played = await both(make)
    assert played.log == ["own", "inner.before_model_call", "inner.wrap_model_call", "inner.after_model_call"]
    assert played.result.usage.total_tokens == 20
    assert text_of(played.events) == "shown"
    assert [m.text for m in played.result.messages] == ["Go", "shown"]
    assert [r.call_class for r in played.requests] == ["summary", "agent"]
    assert played.requests[0].tools == ()


async def test_a_middlewares_own_call_counts_against_the_limit() -> None:
    played = await both(
        lambda log: agent("own", "never", middleware=[asks_itself(log)], limits=Limits(max_model_calls=1))
    )
    assert len(played.requests) == 1
    assert played.result.finish_reason == "limit"


async def test_shared_state_is_seen_by_all_and_by_no_other_run() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def write(ctx: Any) -> None:
            ctx.state["n"] = ctx.state.get("n", 0) + 1

        return agent(
            hello(),
            middleware=[on_start(write), on_start(write), on_start(lambda ctx: log.append(ctx.state["n"]))],
        )

    assert (await both(make)).log == [2]


async def test_run_state_makes_the_private_state() -> None:
    class Tally:
        def __init__(self) -> None:
            self.n = 0

    def make(log: list[Any]) -> Agent[Any]:
        class Counts(Middleware):
            run_state = Tally

            def on_step(self, ctx: Any, info: Any) -> None:
                ctx.private(self).n += 1

            def on_finish(self, ctx: Any, info: Any) -> None:
                log.append(ctx.private(self).n)

        return two_steps(middleware=[Counts()])

    assert (await both(make)).log == [2]
