"""Ending, cancelling, leaving: the reason is kept, clean-up is awaited, exactly one terminal hook runs."""

import asyncio
import contextlib
import logging
import threading
from typing import Any

import pytest
from tests.layers.play import Ends, agent_of, both, echo, roles

from interpose import (
    Abort,
    End,
    FatalToolError,
    Limits,
    Middleware,
    ModelTimeout,
    ProviderDown,
    RunAborted,
    ToolContext,
)
from interpose.testing import ScriptedModel, calls, collect, event_types, fail, hang, text

ONE = ("echo", {"x": "1"})


class Finishes(Middleware):
    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.log.append(f"{self.name} {info.finish_reason}")


async def test_ending_early_still_calls_every_closing_hook_in_reverse() -> None:
    def make(log: list[Any]) -> Any:
        class Ender(Finishes):
            def before_model_call(self, ctx: Any, request: Any) -> Any:
                return End(finish_reason="cancelled") if request.number == 1 else None

        return agent_of(calls(ONE), text("never"), tools=[echo], middleware=[Finishes("M1", log), Ender("M2", log)])

    played = await both(make)
    assert played.log == ["M2 cancelled", "M1 cancelled"]
    assert roles(played.result.messages) == ["user", "assistant", "tool"]
    assert played.result.finish_reason == "cancelled"


@pytest.mark.parametrize("hook", ["on_start", "before_model_call", "wrap_model_call", "after_model_call",
                                  "before_tool_call", "wrap_tool_call", "after_tool_call"])  # fmt: skip
async def test_end_from_any_seam_ends_in_good_order_with_its_text(hook: str) -> None:
    def make(log: list[Any]) -> Any:
        kind = type("Ender", (Middleware,), {hook: lambda self, *args: End("bye")})
        return agent_of(calls(ONE, ONE), text("never"), tools=[echo], middleware=[kind()])

    played = await both(make)
    assert (played.result.status, played.result.text, played.end) == ("finished", "bye", "on_finish")
    assert played.result.messages[-1].text == "bye"
    assert len(played.requests) <= 1


@pytest.mark.parametrize("hook", ["on_start", "before_model_call", "wrap_model_call", "after_model_call",
                                  "before_tool_call", "wrap_tool_call", "after_tool_call"])  # fmt: skip
async def test_abort_from_any_seam_aborts_with_its_reason(hook: str) -> None:
    def make(log: list[Any]) -> Any:
        kind = type("Aborter", (Middleware,), {hook: lambda self, *args: Abort("enough")})
        return agent_of(calls(ONE, ONE), text("never"), tools=[echo], middleware=[kind()])

    played = await both(make)
    assert isinstance(played.error, RunAborted)
    assert (played.error.reason, played.end, played.info.reason) == ("enough", "on_abort", "enough")
    assert played.events[-1].code == "aborted"


async def test_no_model_call_follows_an_end_from_a_tool_hook() -> None:
    def make(log: list[Any]) -> Any:
        async def t1() -> str:
            """T1."""
            log.append("t1")
            return "1"

        async def t2() -> str:
            """T2."""
            await asyncio.sleep(5)
            return "2"

        class Ender(Middleware):
            def before_tool_call(self, ctx: Any, call: Any) -> Any:
                return End() if call.name == "t1" else None

        return agent_of(calls("t1", "t2"), text("never"), tools=[t1, t2], middleware=[Ender()])

    played = await both(make)
    assert len(played.requests) == 1
    assert roles(played.result.messages) == ["user", "assistant", "tool", "tool"]
    assert played.log == []


async def test_an_end_holds_even_if_a_layer_returns_in_finally() -> None:
    class Ender(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return End("ended")

    class Stubborn(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                await call_next(request)
            finally:
                return request.answer("stubborn")  # noqa: B012  # what some people write

    played = await both(lambda log: agent_of(middleware=[Stubborn(), Ender()]))
    assert played.result.text == "ended"


async def test_layers_outside_an_end_run_their_finally_and_not_their_after() -> None:
    def make(log: list[Any]) -> Any:
        class Outer(Middleware):
            async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
                try:
                    return await call_next.then(request, lambda response: log.append("then"))
                except Exception:
                    log.append("caught")
                    raise
                finally:
                    log.append("finally")

            def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
                log.append("after")

        class Ender(Middleware):
            def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
                return End()

        return agent_of(text("said"), middleware=[Outer(), Ender()])

    played = await both(make)
    assert played.log == ["finally"]
    assert played.result.text == "said"


async def test_the_first_error_is_raised_and_not_one_of_the_engine() -> None:
    async def breaks() -> str:
        """Break."""
        try:
            raise ValueError("boom")
        except ValueError as error:
            raise FatalToolError("fatal") from error

    agent = agent_of(calls("breaks"), tools=[breaks])
    async with agent.stream("go") as run:
        await collect(run)
        with pytest.raises(FatalToolError) as caught:
            await run.result()
    assert isinstance(caught.value.__cause__, ValueError)
    assert any("breaks" in frame.name for frame in caught.traceback)


async def test_failing_observers_do_not_mask_the_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Observer(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            raise RuntimeError("observer a")

    class BadEnd(Middleware):
        def on_error(self, ctx: Any, info: Any) -> None:
            raise RuntimeError("observer b")

    with caplog.at_level(logging.WARNING):
        played = await both(
            lambda log: agent_of(fail(ProviderDown("503", status_code=503)), middleware=[Ends(), Observer(), BadEnd()])
        )
    assert isinstance(played.error, ProviderDown)
    assert "observer a" in caplog.text
    assert "observer b" in caplog.text


async def test_an_abort_inside_a_tool_that_catches_everything_still_aborts() -> None:
    def make(log: list[Any]) -> Any:
        async def stubborn(ctx: ToolContext[Any]) -> str:
            """Catch all."""
            ctx.abort("user")
            with contextlib.suppress(BaseException):
                await asyncio.sleep(5)
            return "x"

        return agent_of(calls("stubborn"), text("never"), tools=[stubborn])

    played = await both(make)
    assert isinstance(played.error, RunAborted)
    assert (played.error.reason, played.end) == ("user", "on_abort")
    assert len(played.requests) == 1


async def test_an_abort_while_the_model_hangs_comes_at_once_with_the_steps_done() -> None:
    def make(log: list[Any]) -> Any:
        class Aborts(Middleware):
            async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
                if request.number == 1:
                    asyncio.get_running_loop().call_later(0.01, ctx.abort, "enough")
                return await call_next(request)

        return agent_of(calls(ONE), hang(after=["ha"]), tools=[echo], middleware=[Aborts()])

    played = await both(make)
    assert isinstance(played.error, RunAborted)
    assert len(played.partial.steps) == 1
    assert event_types(played.events)[-1] == "RUN_ERROR"


async def test_an_abort_from_another_thread_works() -> None:
    agent = agent_of(hang())
    async with agent.stream("go") as run:
        await anext(run)
        threading.Thread(target=run.abort, args=("elsewhere",)).start()
        with pytest.raises(RunAborted, match="elsewhere"):
            await run.result()


async def test_siblings_of_a_fatal_tool_are_cancelled_and_cleaned_up() -> None:
    def make(log: list[Any]) -> Any:
        async def t1() -> str:
            """Fail."""
            await asyncio.sleep(0.01)
            raise FatalToolError("fatal")

        async def t2() -> str:
            """Sleep."""
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(0.01)
                log.append("cleaned")
            return "x"

        return agent_of(calls("t1", "t2"), tools=[t1, t2])

    played = await both(make)
    assert isinstance(played.error, FatalToolError)
    assert played.log == ["cleaned"]


async def test_stopping_after_the_first_result_gives_one_step() -> None:
    class Stops(Middleware):
        def on_should_continue(self, ctx: Any, state: Any) -> Any:
            return state.tool_call_count < 1

    played = await both(lambda log: agent_of(calls(ONE), text("never"), tools=[echo], middleware=[Stops()]))
    assert len(played.result.steps) == 1
    assert played.result.finish_reason == "stopped"


async def test_every_vote_is_asked_and_one_no_is_enough() -> None:
    class Votes(Middleware):
        def __init__(self, vote: Any, log: list[Any]) -> None:
            self.vote, self.log = vote, log

        def on_should_continue(self, ctx: Any, state: Any) -> Any:
            self.log.append((self.vote, len(state.steps), state.last_step_tool_call_count))
            return self.vote

    def make(log: list[Any]) -> Any:
        turns = [calls(ONE), text("never")]
        return agent_of(*turns, tools=[echo], middleware=[Votes(False, log), Votes(True, log), Votes(None, log)])

    assert (await both(make)).log == [(False, 1, 1), (True, 1, 1), (None, 1, 1)]


async def test_a_time_limit_and_an_abort_do_not_look_alike() -> None:
    cut = await both(lambda log: agent_of(hang(), limits=Limits(max_duration_s=0.03)))
    timed = await both(lambda log: agent_of(hang(), limits=Limits(model_timeout_s=0.03)))
    assert (cut.end, cut.info.finish_reason) == ("on_finish", "limit")
    assert (timed.end, type(timed.info.error)) == ("on_error", ModelTimeout)


@pytest.mark.parametrize("hook", ["setup", "on_config", "on_start", "on_step", "on_usage", "on_tool_phase_complete",
                                  "on_should_continue", "before_model_call", "after_model_call", "before_tool_call",
                                  "wrap_tool_call", "wrap_run", "on_interrupt_boundary"])  # fmt: skip
async def test_an_exception_in_any_hook_fails_the_run_with_it(hook: str) -> None:
    from interpose import Usage

    def fails(self: Any, *args: Any) -> Any:
        raise ZeroDivisionError(hook)

    def make(log: list[Any]) -> Any:
        kind = type("Fails", (Middleware,), {hook: fails})
        return agent_of(calls(ONE, usage=Usage(input_tokens=1)), text("x"), tools=[echo], middleware=[kind()])

    played = await both(make)
    assert isinstance(played.error, ZeroDivisionError)
    assert played.end == "on_error"
    assert event_types(played.events)[-1] == "RUN_ERROR"


async def test_a_failing_on_finish_is_raised_after_all_have_run_and_after_the_last_event() -> None:
    def make(log: list[Any]) -> Any:
        class Fails(Middleware):
            def on_finish(self, ctx: Any, info: Any) -> None:
                log.append("fails")
                raise ZeroDivisionError("x")

        return agent_of(text("x"), middleware=[Finishes("outer", log), Fails()])

    played = await both(make)
    assert isinstance(played.error, ZeroDivisionError)
    assert played.log == ["fails", "outer stop"]
    assert event_types(played.events)[-1] == "RUN_FINISHED"


async def test_several_failing_on_finish_are_a_group() -> None:
    class Fails(Middleware):
        def on_finish(self, ctx: Any, info: Any) -> None:
            raise ZeroDivisionError("x")

    with pytest.raises(ExceptionGroup) as caught:
        await agent_of(text("x"), middleware=[Fails(), Fails()]).run("go")
    assert [type(one) for one in caught.value.exceptions] == [ZeroDivisionError] * 2


async def test_a_tool_that_aborts_in_a_nested_run_aborts_the_outer_one() -> None:
    def make(log: list[Any]) -> Any:
        async def stop(ctx: ToolContext[Any]) -> str:
            """Stop."""
            ctx.abort("from within")
            await asyncio.sleep(1)
            return "x"

        inner = agent_of(calls("stop"), text("never"), tools=[stop])
        return agent_of(calls(("child", {"prompt": "x"})), text("never"), tools=[inner.as_tool("child", "Child.")])

    played = await both(make)
    assert isinstance(played.error, RunAborted)
    assert played.error.reason == "from within"
    assert len(played.requests) == 1


async def test_a_scripted_model_that_runs_out_says_so() -> None:
    from interpose import ScriptExhausted

    played = await both(lambda log: agent_of(model=ScriptedModel()))
    assert isinstance(played.error, ScriptExhausted)


async def test_an_error_event_of_the_provider_has_its_code_everywhere() -> None:
    from interpose import ProviderError

    played = await both(lambda log: agent_of(fail(ProviderError("busy", code="overloaded"), after=["he"])))
    assert played.end == "on_error"
    assert played.events[-1].to_dict()["code"] == "overloaded"
    assert played.partial.text == "he"
