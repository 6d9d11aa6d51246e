"""Values that steer a run: which hook may return which, what each does, and that none can be swallowed."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import agent, both, results_of

from interpose import (
    Abort,
    Agent,
    End,
    HookError,
    Limits,
    Middleware,
    Pause,
    Retry,
    RunAborted,
    RunResult,
    Skip,
    Usage,
    UserMessage,
    wrap_model_call,
    wrap_tool_call,
)
from interpose.testing import calls, text

STEER = {
    "on_start": (End, Pause, Abort),
    "before_model_call": (End, Pause, Abort),
    "wrap_model_call": (End, Pause, Abort),
    "after_model_call": (End, Pause, Abort),
    "before_tool_call": (End, Pause, Abort),
    "wrap_tool_call": (End, Pause, Abort),
    "after_tool_call": (End, Abort),
}
MAKE: dict[Any, Any] = {
    End: lambda: End(),
    Pause: lambda: Pause("ask", {"x": 1}),
    Abort: lambda: Abort("no"),
    Retry: lambda: Retry("again"),
    Skip: lambda: Skip(1),
}
ALLOWED = [(hook, kind) for hook, kinds in STEER.items() for kind in kinds]
ARGUMENTS = {
    "setup": 0,
    "on_start": 0,
    "on_interrupt_boundary": 0,
    "after_model_call": 2,
    "after_tool_call": 2,
    "wrap_model_call": 2,
    "wrap_tool_call": 2,
}
OTHERS = {
    "setup": (End, Pause, Abort),
    "on_config": (End, Pause, Abort),
    "on_start": (Retry, Skip),
    "wrap_run": (End, Pause, Abort),
    "on_step": (End, Abort),
    "on_interrupt_boundary": (End, Pause),
    "before_model_call": (Retry, Skip),
    "wrap_model_call": (Retry, Skip),
    "on_chunk": (End, Abort, Skip),
    "after_model_call": (Skip,),
    "on_usage": (End,),
    "before_tool_call": (Retry,),
    "wrap_tool_call": (Retry, Skip),
    "after_tool_call": (Pause, Retry, Skip),
    "on_tool_phase_complete": (End, Abort),
    "on_should_continue": (End, Abort),
    "on_finish": (End,),
}
REFUSED = [(hook, kind) for hook, kinds in OTHERS.items() for kind in kinds]


def returns(hook: str, outcome: Any) -> Middleware:
    """Return a middleware whose *hook* returns *outcome*; in the tool seam, for the first call only."""

    def chosen(given: Any) -> bool:
        return "tool_call" not in hook or given.args["n"] == 0

    async def none(self: Any, ctx: Any) -> Any:
        return outcome

    async def one(self: Any, ctx: Any, given: Any) -> Any:
        return outcome if chosen(given) else None

    async def two(self: Any, ctx: Any, given: Any, came: Any) -> Any:
        if chosen(given):
            return outcome
        return await came(given) if hook.startswith("wrap_") else None

    made: Middleware = type("Steers", (Middleware,), {hook: (none, one, two)[ARGUMENTS.get(hook, 1)]})()
    return made


def two_calls(log: list[Any], *middleware: Any, **options: Any) -> Agent[Any]:
    """Return an agent that asks for work(n=0) and a slower work(n=1) before it speaks."""

    async def work(n: int) -> str:
        """Work."""
        await asyncio.sleep(0.005 * n)
        log.append(f"did {n}")
        return f"did {n}"

    turn = calls(("work", {"n": 0}), ("work", {"n": 1}), text="hm")
    return agent(turn, text("end"), tools=[work], middleware=middleware, **options)


@pytest.mark.parametrize(("hook", "kind"), ALLOWED, ids=lambda one: getattr(one, "__name__", one))
async def test_an_outcome_does_what_it_says_wherever_it_may_stand(hook: str, kind: Any) -> None:
    played = await both(lambda log: two_calls(log, returns(hook, MAKE[kind]())))
    assert len(played.requests) == (0 if hook in ("on_start", "before_model_call", "wrap_model_call") else 1)
    if kind is Abort:
        assert isinstance(played.error, RunAborted)
        assert played.error.reason == "no"
        assert played.endings == ["on_abort"]
        return
    assert played.endings == ["on_finish"]
    assert played.types[-1] == "RUN_FINISHED"
    if kind is End:
        assert (played.result.status, played.result.finish_reason) == ("finished", "stop")
        return
    assert (played.result.status, played.result.finish_reason) == ("interrupted", "interrupt")
    (asked,) = played.result.interrupts
    assert (asked.reason, asked.value) == ("ask", {"x": 1})
    assert (asked.tool_call is not None) == ("tool" in hook)
    assert played.events[-1].outcome["type"] == "interrupt"


@pytest.mark.parametrize(("hook", "kind"), REFUSED, ids=lambda one: getattr(one, "__name__", one))
async def test_an_outcome_where_it_may_not_stand_is_refused(hook: str, kind: Any) -> None:
    used = Usage(input_tokens=1)

    async def work(n: int) -> str:
        """Work."""
        return "done"

    def make(log: list[Any]) -> Agent[Any]:
        turns = calls(("work", {"n": 0}), usage=used), text("end", usage=used)
        return agent(*turns, tools=[work], middleware=[returns(hook, MAKE[kind]())])

    played = await both(make)
    assert isinstance(played.error, HookError)
    for part in ("Steers", hook, kind.__name__):
        assert part in str(played.error)


@pytest.mark.parametrize("hook", [hook for hook, kinds in STEER.items() if End in kinds])
async def test_an_end_with_a_text_says_it_last(hook: str) -> None:
    played = await both(lambda log: two_calls(log, returns(hook, End("bye"))))
    assert played.result.text == played.result.messages[-1].text == "bye"
    assert played.result.messages[-1].role == "assistant"


@pytest.mark.parametrize("hook", ["before_tool_call", "wrap_tool_call", "after_tool_call"])
async def test_an_end_in_a_tool_call_cancels_its_siblings_and_answers_them(hook: str) -> None:
    played = await both(lambda log: two_calls(log, returns(hook, End())))
    assert "did 1" not in played.log
    assert len(results_of(played.result.messages)) == 2
    assert played.result.text == "hm"


@pytest.mark.parametrize("hook", ["before_tool_call", "wrap_tool_call"])
async def test_a_pause_in_a_tool_call_lets_its_siblings_finish(hook: str) -> None:
    played = await both(lambda log: two_calls(log, returns(hook, Pause("ask"))))
    assert played.log == ["did 1"]
    (asked,) = played.result.interrupts
    assert asked.tool_call is not None
    assert asked.tool_call.args["n"] == 0
    assert played.types.count("TOOL_CALL_RESULT") == 1


async def swallow(ctx: Any, given: Any, call_next: Any) -> Any:
    try:
        return await call_next(given)
    except BaseException:
        return fallback(given)


async def return_in_finally(ctx: Any, given: Any, call_next: Any) -> Any:
    try:
        return await call_next(given)
    finally:
        return fallback(given)  # noqa: B012, SIM107  # the point of the test


async def gather(ctx: Any, given: Any, call_next: Any) -> Any:
    came: Any
    (came,) = await asyncio.gather(call_next(given), return_exceptions=True)
    return fallback(given) if isinstance(came, BaseException) else came


async def grouped(ctx: Any, given: Any, call_next: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(call_next(given))
    return task.result()


async def timed(ctx: Any, given: Any, call_next: Any) -> Any:
    async with asyncio.timeout(5):
        return await call_next(given)


def fallback(given: Any) -> Any:
    return given.answer("never mind")


PASS_ON = [swallow, gather, grouped, timed]
"""What gives on a response where there is one; of these, two make up one where there is none."""
SWALLOW = [*PASS_ON, return_in_finally]


@pytest.mark.parametrize("layer", SWALLOW)
@pytest.mark.parametrize("kind", [End, Pause, Abort])
@pytest.mark.parametrize("seam", ["model", "tool"])
async def test_no_layer_can_swallow_an_outcome(seam: str, kind: Any, layer: Any) -> None:
    wrap = wrap_model_call if seam == "model" else wrap_tool_call
    steers = returns(f"before_{seam}_call", MAKE[kind]())
    played = await both(lambda log: two_calls(log, wrap(layer), steers))
    assert len(played.requests) == (0 if seam == "model" else 1)
    if kind is Abort:
        assert isinstance(played.error, RunAborted)
    else:
        assert played.result.status == ("interrupted" if kind is Pause else "finished")
        assert "never mind" not in played.result.text


@pytest.mark.parametrize("layer", PASS_ON)
async def test_no_layer_can_swallow_a_limit(layer: Any) -> None:
    played = await both(lambda log: two_calls(log, wrap_model_call(layer), limits=Limits(max_model_calls=1)))
    assert len(played.requests) == 1
    assert played.result.finish_reason == "limit"
    assert played.result.text == "hm"


@pytest.mark.parametrize("layer", PASS_ON)
@pytest.mark.parametrize("seam", ["model", "tool"])
async def test_layers_that_pass_on_change_nothing(seam: str, layer: Any) -> None:
    wrap = wrap_model_call if seam == "model" else wrap_tool_call
    played = await both(lambda log: two_calls(log, wrap(layer)))
    assert played.result.text == "end"
    assert sorted(played.log) == ["did 0", "did 1"]


async def test_an_error_outranks_an_end() -> None:
    class Both(Middleware):
        async def before_tool_call(self, ctx: Any, call: Any) -> Any:
            if call.args["n"] == 0:
                await asyncio.sleep(0.01)  # the other call has begun
                return End()
            try:
                await asyncio.sleep(10)
            finally:
                raise ValueError("worse")  # an error on the way out

    played = await both(lambda log: two_calls(log, Both()))
    assert repr(played.error) == "ValueError('worse')"
    assert played.endings == ["on_error"]


async def test_an_abort_outranks_an_error() -> None:
    class Both(Middleware):
        async def before_tool_call(self, ctx: Any, call: Any) -> Any:
            ctx.abort("first")
            raise ValueError("second")

    played = await both(lambda log: two_calls(log, Both()))
    assert isinstance(played.error, RunAborted)
    assert played.endings == ["on_abort"]


@pytest.mark.parametrize("way", ["end", "limit", "pause", "finish"])
async def test_wrap_run_gets_the_result_of_every_run_in_good_order(way: str) -> None:
    outcomes: dict[str, Any] = {"end": End("bye"), "pause": Pause("ask")}

    def make(log: list[Any]) -> Agent[Any]:
        class Sees(Middleware):
            async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
                result = await call_next()
                log.append((result.status, result.finish_reason))
                return result

        more = [returns("before_model_call", outcomes[way])] if way in outcomes else []
        return two_calls([], Sees(), *more, limits=Limits(max_model_calls=1) if way == "limit" else Limits())

    wanted = {
        "end": ("finished", "stop"),
        "pause": ("interrupted", "interrupt"),
        "limit": ("finished", "limit"),
        "finish": ("finished", "stop"),
    }
    assert (await both(make)).log == [wanted[way]]


async def test_an_error_of_wrap_run_after_the_run_fails_it() -> None:
    class Fails(Middleware):
        async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
            await call_next()
            raise ValueError("afterwards")

    played = await both(lambda log: two_calls(log, Fails()))
    assert repr(played.error) == "ValueError('afterwards')"
    assert played.endings == ["on_error"]
    assert played.types[-1] == "RUN_ERROR"


async def test_wrap_run_that_does_not_go_on_answers_in_the_runs_place() -> None:
    class Answers(Middleware):
        async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
            return RunResult(text="instead", messages=(UserMessage("Go"),))

    one = two_calls([], Answers())
    result = await one.run("Go")
    assert result.text == "instead"
    assert one.model.requests == []  # type: ignore[attr-defined]  # is scripted
