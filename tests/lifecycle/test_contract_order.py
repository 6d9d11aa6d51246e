"""In which order the hooks of several middleware are called, and how middleware is handed over."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, deltas, hello, logged, play, summary, two_steps

from interpose import (
    Agent,
    Middleware,
    MiddlewareStack,
    Usage,
    before_model_call,
    on_chunk,
    on_start,
    wrap_model_call,
)
from interpose.testing import ScriptedModel, calls, fail, text


async def test_a_run_in_good_order_calls_start_and_finish_once_and_no_other_end() -> None:
    hooks = ("on_start", "on_finish", "on_abort", "on_error")
    played = await both(lambda log: agent(hello(), middleware=[logged("A", log, *hooks)]))
    assert played.log == ["A.on_start", "A.on_finish"]


@pytest.mark.parametrize("hook", ["setup", "on_config", "on_start", "on_step", "on_usage"])
async def test_hooks_in_order_are_called_first_listed_first(hook: str) -> None:
    turn = text("Hello", usage=Usage(input_tokens=1, output_tokens=1))
    played = await both(lambda log: agent(turn, middleware=[logged(n, log, hook) for n in "AB"]))
    assert played.log == [f"A.{hook}", f"B.{hook}"] * (2 if hook == "on_config" else 1)


@pytest.mark.parametrize("seam", ["model", "tool"])
async def test_before_hooks_go_inwards_and_after_hooks_outwards(seam: str) -> None:
    before, after = f"before_{seam}_call", f"after_{seam}_call"
    turns = [text("x")] if seam == "model" else [calls(("add", {"a": 1, "b": 2})), text("x")]
    played = await both(
        lambda log: agent(*turns, tools=[add], middleware=[logged(n, log, before, after) for n in "AB"])
    )
    assert played.log == [f"A.{before}", f"B.{before}", f"B.{after}", f"A.{after}"]


@pytest.mark.parametrize("end", ["on_finish", "on_abort", "on_error"])
async def test_terminal_hooks_are_called_last_listed_first(end: str) -> None:
    ways = {
        "on_finish": text("x"),
        "on_abort": text("x"),
        "on_error": fail(ValueError("no")),
    }
    stop = [on_start(lambda ctx: ctx.abort())] if end == "on_abort" else []
    played = await both(lambda log: agent(ways[end], middleware=[logged("A", log, end), logged("B", log, end), *stop]))
    assert played.log == [f"B.{end}", f"A.{end}"]


async def test_an_outer_wrap_stands_round_an_inner_before_and_the_model() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def outer(ctx: Any, request: Any, call_next: Any) -> Any:
            log.append("in")
            response = await call_next(request)
            log.append(f"out {response.text}")
            return response

        return agent(
            lambda request: log.append("model") or "Hello",
            middleware=[wrap_model_call(outer), before_model_call(lambda ctx, request: log.append("before"))],
        )

    assert (await both(make)).log == ["in", "before", "model", "out Hello"]


async def test_nothing_is_shown_or_sent_before_on_start_has_returned() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def slow(ctx: Any) -> None:
            await asyncio.sleep(0.02)
            log.append("started")

        return agent(
            lambda request: log.append("model") or "Hello",
            middleware=[on_start(slow), on_chunk(lambda ctx, event: log.append(event.type))],
        )

    log = (await both(make)).log
    assert log[0] == "started"
    assert "model" in log


async def test_a_middleware_without_hooks_changes_nothing() -> None:
    bare = Agent(ScriptedModel(hello()), post_model_hooks=())
    with_one = Agent(ScriptedModel(hello()), middleware=[Middleware()], post_model_hooks=())
    without: list[Any] = []
    with_it: list[Any] = []
    for one, events in ((bare, without), (with_one, with_it)):
        async with one.stream("Go") as run:
            events += [event.type async for event in run]
            events.append(summary(await run.result()))
    assert without == with_it


async def test_without_middleware_a_text_is_one_message_in_one_step_in_one_run() -> None:
    events = []
    async with Agent(ScriptedModel(hello()), middleware=[], post_model_hooks=()).stream("Go") as run:
        events = [event.type async for event in run]
    assert events == [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]


async def test_a_stack_is_a_list_that_is_filled_in_chains() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        a, b = (logged(name, log, "on_start", "on_finish") for name in "AB")
        stack = MiddlewareStack().use(a).use(b)
        return Agent(ScriptedModel(hello()), middleware=stack, post_model_hooks=())

    log: list[Any] = []
    await make(log).run("Go")
    assert log == ["A.on_start", "B.on_start", "B.on_finish", "A.on_finish"]


async def test_a_factory_is_awaited_once_before_the_first_of_runs_that_begin_together() -> None:
    log: list[str] = []

    async def factory() -> list[Middleware]:
        log.append("made")
        await asyncio.sleep(0.005)
        return [logged("A", log, "setup")]

    one = Agent(ScriptedModel("a", "b", "c"), middleware=factory, post_model_hooks=())
    await asyncio.gather(one.run("Go"), one.run("Go"))
    await one.run("Go")
    assert log == ["made", "A.setup", "A.setup", "A.setup"]


async def test_middleware_given_to_a_run_takes_part_in_that_run_only_and_stands_innermost() -> None:
    log: list[str] = []
    one = agent("a", "b", middleware=[logged("own", log, "before_model_call")])
    await play("run", one, middleware=[logged("extra", log, "before_model_call")])
    await play("stream", one)
    assert log == ["own.before_model_call", "extra.before_model_call", "own.before_model_call"]


async def test_two_objects_of_one_class_each_have_their_own_private_state() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Counts(Middleware):
            def __init__(self, by: int) -> None:
                self.by = by

            def on_step(self, ctx: Any, info: Any) -> None:
                mine = ctx.private(self)
                mine["n"] = mine.get("n", 0) + self.by

            def on_finish(self, ctx: Any, info: Any) -> None:
                log.append(ctx.private(self))

        return two_steps(middleware=[Counts(1), Counts(10)])

    assert (await both(make)).log == [{"n": 20}, {"n": 2}]


async def test_deltas_reach_the_reader_in_their_order() -> None:
    played = await both(lambda log: agent(text("abcdef", chunks=tuple("abcdef"))))
    assert deltas(played.events) == list("abcdef")
