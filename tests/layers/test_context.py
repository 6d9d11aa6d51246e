"""What hooks see of the run: phases, ids, usage, state; and that any callable may be a hook."""

from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo

from interpose import Middleware, Usage
from interpose.testing import calls, text

ONE = ("echo", {"x": "1"})


async def test_usage_is_told_once_a_step_with_the_sum_of_its_attempts() -> None:
    used = Usage(input_tokens=10, output_tokens=1)

    def make(log: list[Any]) -> Any:
        class Logs(Middleware):
            def on_usage(self, ctx: Any, usage: Any) -> None:
                log.append((ctx.step, usage.input_tokens))

        async def twice(ctx: Any, request: Any, call_next: Any) -> Any:
            if request.is_first_step:
                await call_next.again(request)
            return await call_next.again(request)

        turns = [text("dropped", usage=used), calls(ONE, usage=used), text("x")]
        return agent_of(*turns, tools=[echo], middleware=[Logs(), twice])

    played = await both(make)
    assert played.log == [(0, 20)]
    assert played.result.usage.input_tokens == 20


async def test_phases_are_those_of_the_place_in_the_run() -> None:
    hooks = ["setup", "on_start", "on_step", "on_config", "before_model_call", "after_model_call", "on_usage",
             "before_tool_call", "after_tool_call", "on_tool_phase_complete", "on_should_continue"]  # fmt: skip

    def make(log: list[Any]) -> Any:
        noted = {hook: (lambda self, ctx, *args, hook=hook: log.append((hook, ctx.phase))) for hook in hooks}
        kind = type("Notes", (Middleware,), noted)
        return agent_of(calls(ONE, usage=Usage(input_tokens=1)), text("x"), tools=[echo], middleware=[kind()])

    assert (await both(make)).log[:12] == [
        ("setup", "init"), ("on_config", "init"), ("on_start", "init"),
        ("on_step", "before_model"), ("on_config", "before_model"),
        ("before_model_call", "model_stream"), ("after_model_call", "model_stream"), ("on_usage", "model_stream"),
        ("before_tool_call", "before_tools"), ("after_tool_call", "before_tools"),
        ("on_tool_phase_complete", "after_tools"), ("on_should_continue", "after_tools"),
    ]  # fmt: skip


async def test_boundaries_are_asked_at_the_four_places_of_a_tool_step() -> None:
    def make(log: list[Any]) -> Any:
        class Boundaries(Middleware):
            def on_interrupt_boundary(self, ctx: Any) -> None:
                log.append((ctx.step, ctx.phase))

        return agent_of(calls(ONE), tools=[echo], middleware=[Boundaries(), Once()])

    class Once(Middleware):
        def on_should_continue(self, ctx: Any, state: Any) -> bool:
            return False

    played = await both(make)
    assert played.log == [(0, "before_model"), (0, "after_model"), (0, "before_tools"), (0, "after_tools")]


async def test_the_context_of_a_chunk_counts_from_zero_and_accumulates_the_open_message() -> None:
    def make(log: list[Any]) -> Any:
        class Chunks(Middleware):
            def on_chunk(self, ctx: Any, event: Any) -> None:
                indexes.append(ctx.chunk_index)
                if event.type == "TEXT_MESSAGE_END":
                    log.append((ctx.accumulated_text, ctx.current_message_id == event.message_id))

        indexes: list[int] = []
        log.append(indexes)
        return agent_of(text(chunks=("a", "b")), middleware=[Chunks()])

    log = (await both(make)).log
    assert log[0] == list(range(len(log[0])))
    assert log[1] == ("ab", True)


async def test_the_message_id_of_a_step_is_told_before_and_kept() -> None:
    def make(log: list[Any]) -> Any:
        class Steps(Middleware):
            def on_step(self, ctx: Any, info: Any) -> None:
                ids.append(info.message_id)

        ids: list[str] = []
        agents.append(ids)
        return agent_of(text("x"), middleware=[Steps()])

    agents: list[list[str]] = []
    played = await both(make)
    assert agents[-1] == [played.result.messages[-1].id]
    starts = [event.message_id for event in played.events if event.type == "TEXT_MESSAGE_START"]
    assert starts == agents[-1]


async def test_run_ids_differ_and_are_there_before_the_first_event() -> None:
    agent = agent_of(text("a"), text("b"))
    first, second = agent.stream("go"), agent.stream("go")
    assert first.run_id
    assert first.run_id != second.run_id
    async with first, second:
        assert (await first.result()).run_id == first.run_id
        await second.result()


async def test_ids_that_the_caller_gives_are_used() -> None:
    result = await agent_of(text("a")).run("go", run_id="r1", thread_id="t1")
    assert (result.run_id, result.thread_id) == ("r1", "t1")


async def test_hooks_after_end_are_told_the_right_things() -> None:
    played = await both(lambda log: agent_of(text("bye", usage=Usage(input_tokens=3))))
    info = played.info
    assert (info.status, info.finish_reason, info.text, info.usage.input_tokens) == ("finished", "stop", "bye", 3)
    assert info.duration_ms >= 0


@pytest.mark.parametrize("hook", ["on_start", "on_step", "before_model_call", "before_tool_call", "on_finish"])
async def test_hooks_may_be_def_or_async_def_bound_methods_or_callable_objects(hook: str) -> None:
    def make(log: list[Any]) -> Any:
        class Called:
            def __call__(self, *args: Any) -> None:
                log.append("object")

        class AsyncCalled:
            async def __call__(self, *args: Any) -> None:
                log.append("async object")

        async def function(self: Any, *args: Any) -> None:
            log.append("async function")

        def plain(self: Any, *args: Any) -> None:
            log.append("function")

        class One(Middleware):
            pass

        of_class = [type("A", (Middleware,), {hook: function})(), type("B", (Middleware,), {hook: plain})()]
        of_object = [One(), One()]
        setattr(of_object[0], hook, Called())
        setattr(of_object[1], hook, AsyncCalled())
        turns = [calls(ONE), text("x")] if hook == "before_tool_call" else [text("x")]
        return agent_of(*turns, tools=[echo], middleware=[*of_class, *of_object])

    expected = ["async function", "function", "object", "async object"]
    assert (await both(make)).log == (expected[::-1] if hook == "on_finish" else expected)


@pytest.mark.parametrize("kind", ["function", "async function", "object", "async object", "method"])
async def test_the_agents_tool_hooks_may_be_any_callable(kind: str) -> None:
    def make(log: list[Any]) -> Any:
        def function(ctx: Any, call: Any) -> Any:
            return call.answer("mine")

        async def async_function(ctx: Any, call: Any) -> Any:
            return call.answer("mine")

        class Object:
            def __call__(self, ctx: Any, call: Any) -> Any:
                return call.answer("mine")

            def method(self, ctx: Any, call: Any) -> Any:
                return call.answer("mine")

        class AsyncObject:
            async def __call__(self, ctx: Any, call: Any) -> Any:
                return call.answer("mine")

        hook = {"function": function, "async function": async_function, "object": Object(),
                "async object": AsyncObject(), "method": Object().method}[kind]  # fmt: skip
        return agent_of(calls(ONE), text("x"), tools=[echo], before_tool=hook)

    played = await both(make)
    assert played.result.steps[0].tool_results[0].data == "mine"


async def test_explain_lists_the_order_of_each_seam() -> None:
    class First(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> None: ...

        def on_chunk(self, ctx: Any, event: Any) -> None: ...

    class Second(Middleware):
        holds_stream = True

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    explained = str(agent_of(tools=[echo], middleware=[First(), Second()]).explain())
    assert explained.index("First") < explained.index("Second")
    assert "echo" in explained


async def test_setup_provides_and_later_middleware_gets() -> None:
    from interpose import Capability

    cap: Capability[str] = Capability("cap")
    got: list[bool] = []

    class Gives(Middleware):
        provides = (cap,)

        def setup(self, ctx: Any) -> None:
            ctx.provide(cap, ctx.run_id)

    class Takes(Middleware):
        requires = (cap,)

        def on_start(self, ctx: Any) -> None:
            got.append(ctx.get(cap) == ctx.run_id)

    agent = agent_of(text("a"), text("b"), middleware=[Gives(), Takes()])
    await agent.run("go")
    await agent.run("go")
    assert got == [True, True]


async def test_private_state_is_by_object_and_not_by_name() -> None:
    class Counts(Middleware):
        def on_start(self, ctx: Any) -> None:
            mine = ctx.private(self)
            mine["n"] = mine.get("n", 0) + 1
            seen.append(mine["n"])

    seen: list[int] = []
    await agent_of(text("a"), middleware=[Counts(), Counts()]).run("go")
    assert seen == [1, 1]


async def test_run_state_makes_the_private_state_anew_for_each_run() -> None:
    class State:
        def __init__(self) -> None:
            self.n = 0

    class Counts(Middleware):
        run_state = State

        def on_start(self, ctx: Any) -> None:
            ctx.private(self).n += 1
            seen.append(ctx.private(self).n)

    seen: list[int] = []
    agent = agent_of(text("a"), text("b"), middleware=[Counts()])
    await agent.run("go")
    await agent.run("go")
    assert seen == [1, 1]


async def test_the_messages_of_the_context_cannot_be_changed() -> None:
    class Looks(Middleware):
        def on_start(self, ctx: Any) -> None:
            with pytest.raises(AttributeError):
                ctx.messages = ()
            assert isinstance(ctx.messages, tuple)

    assert (await both(lambda log: agent_of(text("x"), middleware=[Looks()]))).result.text == "x"
