"""The one end of a run, however it ends."""

import asyncio
import logging
from typing import Any

import pytest
from tests.lifecycle.play import Endings, add, agent, both, ending_of, hello, logged, play, two_steps

from interpose import (
    Agent,
    Interrupt,
    Limits,
    Middleware,
    Pause,
    ProviderDown,
    RunAborted,
    Usage,
    after_tool_call,
    before_tool_call,
    on_chunk,
    on_config,
    on_interrupt_boundary,
    on_start,
    on_tool_phase_complete,
    on_usage,
    setup,
    tool,
)
from interpose.testing import calls, fail, hang, text


class Tells(Middleware):
    """Logs what the terminal hooks are told."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.log.append(("finish", info.status, info.finish_reason, info.text))

    def on_abort(self, ctx: Any, info: Any) -> None:
        self.log.append(("abort", info.reason))

    def on_error(self, ctx: Any, info: Any) -> None:
        self.log.append(("error", repr(info.error)))


async def test_a_run_in_good_order_finishes_once_with_its_reason() -> None:
    played = await both(lambda log: agent(hello(), middleware=[Tells(log)]))
    assert played.log == [("finish", "finished", "stop", "Hello")]


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_the_providers_own_error_reaches_hook_and_caller(how: str) -> None:
    trouble, seen = ProviderDown("gone"), []

    class Sees(Middleware):
        def on_error(self, ctx: Any, info: Any) -> None:
            seen.append(info.error)

    played = await play(how, agent(fail(trouble), middleware=[Sees()]))
    assert played.error is trouble
    assert len(seen) == 1
    assert seen[0] is trouble
    assert played.endings == ["on_error"]


async def test_a_failure_in_a_later_step_keeps_the_steps_before_it() -> None:
    played = await both(lambda log: agent(calls(("add", {"a": 1, "b": 2})), fail(ProviderDown("gone")), tools=[add]))
    assert [result.data for result in played.partial.steps[0].tool_results] == [3]
    assert [m.role for m in played.partial.messages] == ["user", "assistant", "tool"]


class Fails(Middleware):
    """Fails in one terminal hook."""

    def __init__(self, hook: str, name: str = "Fails") -> None:
        self.name = name

        def method(ctx: Any, info: Any) -> None:
            raise KeyError(f"{name} cannot end")

        setattr(self, hook, method)


async def test_a_failing_on_error_hides_neither_the_error_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        played = await both(
            lambda log: agent(fail(ValueError("own")), middleware=[Tells(log), Fails("on_error", "Clumsy")])
        )
    assert played.log == [("error", "ValueError('own')")]
    assert repr(played.error) == "ValueError('own')"
    assert "Clumsy" in caplog.text
    assert "on_error" in caplog.text


async def test_a_failing_on_abort_hides_neither_the_abort_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    stop = on_start(lambda ctx: ctx.abort("enough"))
    with caplog.at_level(logging.WARNING):
        played = await both(lambda log: agent("x", middleware=[Tells(log), Fails("on_abort", "Clumsy"), stop]))
    assert played.log == [("abort", "enough")]
    assert isinstance(played.error, RunAborted)
    assert "Clumsy" in caplog.text


async def test_a_failing_on_finish_is_raised_after_all_were_called_and_the_run_was_shown_finished() -> None:
    played = await both(lambda log: agent(hello(), middleware=[Tells(log), Fails("on_finish")]))
    assert played.log == [("finish", "finished", "stop", "Hello")]
    assert isinstance(played.error, KeyError)
    assert played.types[-1] == "RUN_FINISHED"
    assert played.endings == ["on_finish"]


async def test_several_failing_on_finish_are_raised_together() -> None:
    played = await both(lambda log: agent(hello(), middleware=[Fails("on_finish", "a"), Fails("on_finish", "b")]))
    assert isinstance(played.error, ExceptionGroup)
    assert len(played.error.exceptions) == 2


Review = Interrupt[Any, Any]("review")


class Asks(Middleware):
    interrupts = (Review,)

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        return [Review.request("one", "Look?")] if ctx.phase == self.phase else None


@tool(approval=True)
async def guarded() -> str:
    """Do what needs approval."""
    return "done"


@pytest.mark.parametrize("way", ["before_model", "after_model", "before_tools", "after_tools", "approval", "pause"])
async def test_a_pause_finishes_as_interrupted(way: str) -> None:
    ways: dict[str, Any] = {"approval": [], "pause": [before_tool_call(lambda ctx, call: Pause("ask"))]}

    def make(log: list[Any]) -> Agent[Any]:
        name = "guarded" if way == "approval" else "add"
        turn = calls((name, {} if way == "approval" else {"a": 1, "b": 2}))
        middleware = [Tells(log), *(ways[way] if way in ways else [Asks(way)])]
        return agent(turn, "never", tools=[add, guarded], middleware=middleware)

    played = await both(make)
    assert [entry[:3] for entry in played.log] == [("finish", "interrupted", "interrupt")]
    assert played.result.status == "interrupted"
    assert len(played.result.interrupts) == 1
    assert played.types[-1] == "RUN_FINISHED"
    assert played.events[-1].outcome["type"] == "interrupt"


async def test_a_run_cut_by_its_steps_finishes_with_every_call_answered() -> None:
    turns = [calls(("add", {"a": 1, "b": n})) for n in range(5)]
    played = await both(lambda log: agent(*turns, tools=[add], middleware=[Tells(log)], limits=Limits(max_steps=2)))
    assert played.log == [("finish", "finished", "limit", "")]
    assert len(played.requests) == 2


async def test_a_failing_setup_ends_with_the_error_hooks_of_all() -> None:
    def explode(ctx: Any) -> None:
        raise ValueError("no setup")

    def make(log: list[Any]) -> Agent[Any]:
        first = setup(explode)
        first.on_error = lambda ctx, info: log.append("first.on_error")  # type: ignore[method-assign]  # a hook more
        return agent("x", middleware=[first, logged("second", log, "setup", "on_error")])

    played = await both(make)
    assert played.log == ["second.on_error", "first.on_error"]
    assert repr(played.error) == "ValueError('no setup')"
    assert played.types == ["RUN_STARTED", "RUN_ERROR"]


@pytest.mark.parametrize("seam", [on_config, on_usage, on_tool_phase_complete])
@pytest.mark.parametrize("how", ["run", "stream"])
async def test_a_hooks_own_error_reaches_the_caller(seam: Any, how: str) -> None:
    trouble = ValueError("mine")

    def explode(ctx: Any, given: Any) -> None:
        raise trouble

    used = Usage(input_tokens=1)
    one = agent(calls(("add", {"a": 1, "b": 2}), usage=used), "x", tools=[add], middleware=[seam(explode)])
    played = await play(how, one)
    assert played.error is trouble
    assert played.endings == ["on_error"]


async def test_a_failing_hook_after_a_tool_fails_the_run_and_answers_no_second_time() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def explode(ctx: Any, call: Any, result: Any) -> None:
            log.append(result.data)
            raise ValueError("do not like it")

        return two_steps(middleware=[after_tool_call(explode)])

    played = await both(make)
    assert played.log == [3]
    assert repr(played.error) == "ValueError('do not like it')"
    assert played.types.count("TOOL_CALL_RESULT") <= 1


async def test_leaving_the_block_cancels_the_model_and_waits_for_abort_and_deferred_work() -> None:
    log: list[Any] = []

    class Slow(Middleware):
        async def work(self) -> None:
            await asyncio.sleep(0.01)
            log.append("deferred")

        def on_start(self, ctx: Any) -> None:
            ctx.defer(self.work())

        async def on_abort(self, ctx: Any, info: Any) -> None:
            await asyncio.sleep(0.005)
            log.append("abort")

    one = agent(hang(["so"]), middleware=[Slow()])
    async with one.stream("Go") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
    assert sorted(log) == ["abort", "deferred"]
    assert one.model.open_streams == 0  # type: ignore[attr-defined]  # is scripted
    assert list(ending_of(one).called.values()) == [["on_abort"]]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("at", range(8))
async def test_leaving_at_any_event_before_the_last_aborts(at: int) -> None:
    one = two_steps()
    seen = 0
    async with one.stream("Go") as run:
        async for _ in run:
            if seen == at:
                break
            seen += 1
    assert list(ending_of(one).called.values()) == [["on_abort"]]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_reader_that_took_the_last_event_has_a_finished_run() -> None:
    one = agent(hello())
    async with one.stream("Go") as run:
        async for event in run:
            if event.type == "RUN_FINISHED":
                break
    assert list(ending_of(one).called.values()) == [["on_finish"]]


async def test_a_slow_reader_loses_nothing() -> None:
    one = agent(text("abcdef", chunks=tuple("abcdef")))
    seen = ""
    async with one.stream("Go") as run:
        async for event in run:
            await asyncio.sleep(0.002)
            seen += getattr(event, "delta", "")
    assert seen == "abcdef"
    assert list(ending_of(one).called.values()) == [["on_finish"]]


@pytest.mark.parametrize("wait_s", [None, 0.005])
async def test_a_reader_that_never_reads_leaves_nothing_behind(wait_s: float | None) -> None:
    one = agent(hello())
    async with one.stream("Go"):
        if wait_s:
            await asyncio.sleep(wait_s)
    assert list(ending_of(one).called.values()) in ([], [["on_abort"]], [["on_finish"]])
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_block_left_by_an_exception_aborts_and_lets_it_through() -> None:
    one = agent(hang(["so"]))

    async def stumble() -> None:
        async with one.stream("Go") as run:
            async for event in run:
                if event.type == "TEXT_MESSAGE_CONTENT":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await stumble()
    assert list(ending_of(one).called.values()) == [["on_abort"]]


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_cancelling_the_caller_aborts_and_then_cancels(how: str) -> None:
    one = agent(hang(["so"]))

    async def call() -> None:
        if how == "run":
            await one.run("Go")
        else:
            async with one.stream("Go") as run:
                async for _ in run:
                    pass

    task = asyncio.create_task(call())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(ending_of(one).called.values()) == [["on_abort"]]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_hook_error_in_a_chunk_closes_what_is_open() -> None:
    def explode(ctx: Any, event: Any) -> None:
        if event.type == "TEXT_MESSAGE_CONTENT" and event.delta == "lo":
            raise ValueError("no more")

    played = await both(lambda log: agent(hello(), middleware=[on_chunk(explode)]))
    assert repr(played.error) == "ValueError('no more')"
    assert played.types[-1] == "RUN_ERROR"


async def test_an_undeclared_interrupt_fails_the_run() -> None:
    ask = on_interrupt_boundary(lambda ctx: [Review.request("one", "Look?")])
    played = await both(lambda log: agent("x", middleware=[ask]))
    assert played.error is not None
    assert "review" in str(played.error)
    assert played.endings == ["on_error"]


def test_the_watcher_of_these_tests_has_every_terminal_hook() -> None:
    assert {"on_finish", "on_abort", "on_error"} <= set(vars(Endings))
