"""How far a run may go, and runs inside runs."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, ending_of, play, results_of

from interpose import (
    Agent,
    LimitExceeded,
    Limits,
    Middleware,
    ModelSettings,
    ModelTimeout,
    ProviderDown,
    RunAborted,
    Usage,
    before_model_call,
    on_chunk,
    wrap_model_call,
)
from interpose.testing import ScriptedModel, calls, fail, hang, text

ADD = calls(("add", {"a": 1, "b": 2}))


def endless(**options: Any) -> Agent[Any]:
    return agent(*[ADD] * 30, tools=[add], **options)


@pytest.mark.parametrize("steps", [1, 5])
async def test_the_number_of_steps_is_the_number_of_model_calls(steps: int) -> None:
    played = await both(lambda log: endless(limits=Limits(max_steps=steps)))
    assert len(played.requests) == steps
    results = [step.tool_results[0].is_error for step in played.result.steps]
    assert results == [False] * (steps - 1) + [True]
    assert played.result.finish_reason == "limit"


async def test_an_answer_within_the_last_step_is_no_limit() -> None:
    played = await both(lambda log: agent(ADD, text("3"), tools=[add], limits=Limits(max_steps=2)))
    assert played.result.finish_reason == "stop"


@pytest.mark.parametrize(
    "limit", [{"max_steps": 2}, {"max_model_calls": 2}, {"max_tool_calls": 1}, {"max_total_tokens": 20}], ids=str
)
async def test_raising_does_the_same_work_as_stopping(limit: dict[str, Any]) -> None:
    turn = calls(("add", {"a": 1, "b": 2}), usage=Usage(input_tokens=6, output_tokens=4))

    def make(mode: Any) -> Any:
        return lambda log: agent(*[turn] * 5, tools=[add], limits=Limits(**limit, on_exceeded=mode))

    stopped, raised = await both(make("stop")), await both(make("raise"))
    assert isinstance(raised.error, LimitExceeded)
    assert raised.error.limit == next(iter(limit))
    assert raised.error.value == next(iter(limit.values()))
    assert len(stopped.requests) == len(raised.requests)
    assert len(stopped.result.steps) == len(raised.partial.steps)
    assert len(results_of(stopped.result.messages)) == len(results_of(raised.partial.messages))
    assert (stopped.endings, raised.endings) == (["on_finish"], ["on_error"])


async def test_model_calls_are_refused_when_they_are_spent() -> None:
    played = await both(lambda log: endless(limits=Limits(max_model_calls=2)))
    assert len(played.requests) == 2
    assert results_of(played.result.messages) == ["3", "3"]


async def test_a_runs_limits_replace_the_agents() -> None:
    played = await both(lambda log: endless(limits=Limits(max_steps=9)), limits=Limits(max_steps=2))
    assert len(played.requests) == 2


async def test_a_duration_cuts_a_silent_model_and_keeps_what_was_said() -> None:
    played = await both(lambda log: agent(hang(["half"]), limits=Limits(max_duration_s=0.02)))
    assert played.result.finish_reason == "limit"
    assert played.result.text == "half"


async def test_a_duration_cuts_a_hanging_tool_and_answers_it() -> None:
    async def slow() -> None:
        """Wait."""
        await asyncio.sleep(10)

    played = await both(lambda log: agent(calls("slow"), "never", tools=[slow], limits=Limits(max_duration_s=0.02)))
    assert played.result.finish_reason == "limit"
    assert len(results_of(played.result.messages)) == 1


async def test_a_model_that_is_silent_for_too_long_times_out() -> None:
    played = await both(lambda log: agent(hang(["half"]), limits=Limits(model_timeout_s=0.02)))
    assert isinstance(played.error, ModelTimeout)
    assert played.endings == ["on_error"]


class Nested:
    """An outer agent with an inner one as its tool `ask`."""

    def __init__(self, inner: Agent[Any], *turns: Any, **options: Any) -> None:
        self.inner = inner
        self.outer = agent(*turns, tools=[inner.as_tool("ask", "Ask the other.")], **options)


ASK = calls(("ask", {"prompt": "Well?"}))


async def test_a_nested_run_knows_its_parent_and_has_ends_of_its_own() -> None:
    seen: list[Any] = []
    inners: list[Any] = []

    class Sees(Middleware):
        def on_start(self, ctx: Any) -> None:
            seen.append(ctx.parent_run_id)

    def make(log: list[Any]) -> Agent[Any]:
        nested = Nested(agent("inner answer", middleware=[Sees()]), ASK, "done")
        inners.append(nested.inner)
        return nested.outer

    played = await both(make)
    assert results_of(played.result.messages) == ["inner answer"]
    assert seen[1] == played.result.run_id
    assert [list(ending_of(one).called.values()) for one in inners] == [[["on_finish"]]] * 2
    assert played.endings == ["on_finish"]


async def test_a_nested_run_shares_the_callers_object_and_not_the_thread() -> None:
    seen: list[Any] = []

    class Sees(Middleware):
        def on_start(self, ctx: Any) -> None:
            seen.append((ctx.context, ctx.thread_id, [m.text for m in ctx.messages]))

    given = object()
    played = await both(
        lambda log: Nested(agent("inner", middleware=[Sees()]), ASK, "done").outer, context=given, thread_id="t"
    )
    assert played.result.text == "done"
    assert all(context is given for context, _, _ in seen)
    assert all(thread != "t" for _, thread, _ in seen)
    assert all(messages == ["Well?"] for _, _, messages in seen)


async def test_the_calls_of_a_nested_run_count_against_the_outer_limit() -> None:
    inners: list[Agent[Any]] = []

    def make(log: list[Any]) -> Agent[Any]:
        inner = agent(ADD, "inner", tools=[add])
        inners.append(inner)
        return Nested(inner, ASK, "never", limits=Limits(max_model_calls=3)).outer

    played = await both(make)
    assert len(played.requests) == 1
    assert played.result.finish_reason == "limit"
    assert all(len(one.model.requests) == 2 for one in inners)  # type: ignore[attr-defined]  # is scripted


async def test_a_nested_run_cut_by_an_outer_limit_finishes_and_the_outer_too() -> None:
    inners: list[Agent[Any]] = []

    def make(log: list[Any]) -> Agent[Any]:
        inner = agent(*[ADD] * 9, tools=[add])
        inners.append(inner)
        return Nested(inner, ASK, "never", limits=Limits(max_model_calls=3)).outer

    played = await both(make)
    assert played.result.finish_reason == "limit"
    assert [list(ending_of(one).called.values()) for one in inners] == [[["on_finish"]]] * 2
    assert all(len(one.model.requests) == 2 for one in inners)  # type: ignore[attr-defined]  # is scripted


async def test_a_nested_run_cut_by_its_own_limit_is_an_error_result_with_its_text() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        turn = calls(("add", {"a": 1, "b": 2}), text="so far")
        inner = agent(*[turn] * 9, tools=[add], limits=Limits(max_model_calls=1))
        return Nested(inner, ASK, "done").outer

    played = await both(make)
    (result,) = played.result.steps[0].tool_results
    assert result.is_error
    assert "so far" in result.text
    assert played.result.text == "done"


async def test_usage_of_a_nested_run_is_the_outers_too() -> None:
    used = Usage(input_tokens=10, output_tokens=0)

    def make(log: list[Any]) -> Agent[Any]:
        look = before_model_call(lambda ctx, request: log.append(request.usage.input_tokens))
        return Nested(agent(text("inner", usage=used)), ASK, text("done", usage=used), middleware=[look]).outer

    played = await both(make)
    assert played.result.usage.input_tokens == 20
    assert played.log == [None, 10]


@pytest.mark.parametrize("who", ["outer", "inner"])
async def test_an_abort_of_the_outer_run_aborts_the_inner(who: str) -> None:
    inners: list[Agent[Any]] = []

    def make(log: list[Any]) -> Agent[Any]:
        def stop(ctx: Any, event: Any) -> None:
            if event.type == "TOOL_CALL_END":
                asyncio.get_running_loop().call_later(0.01, ctx.abort, "enough")

        inner = agent(hang(["so"]))
        inners.append(inner)
        return Nested(inner, ASK, "never", middleware=[on_chunk(stop)]).outer

    played = await both(make)
    assert isinstance(played.error, RunAborted)
    assert played.endings == ["on_abort"]
    assert [list(ending_of(one).called.values()) for one in inners] == [[["on_abort"]]] * 2


async def test_a_failing_nested_run_is_an_error_result() -> None:
    def explode(request: Any) -> Any:
        raise ValueError("inner trouble")

    played = await both(lambda log: Nested(agent(explode), ASK, "done").outer)
    (result,) = played.result.steps[0].tool_results
    assert result.is_error
    assert "inner trouble" in result.text


async def test_middleware_that_says_so_takes_part_in_nested_runs_outermost() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Audits(Middleware):
            nested = True

            def before_model_call(self, ctx: Any, request: Any) -> None:
                log.append(f"audit {request.messages[0].text}")

        own = before_model_call(lambda ctx, request: log.append("own"))
        return Nested(agent("inner", middleware=[own]), ASK, "done", middleware=[Audits()]).outer

    assert (await both(make)).log == ["audit Go", "audit Well?", "own", "audit Go"]


async def test_parallel_sub_agents_cannot_pass_a_limit_together() -> None:
    inners: list[Agent[Any]] = []

    def slow(request: Any) -> Any:
        async def later() -> str:
            await asyncio.sleep(0.005)
            return "inner"

        return later()

    def make(log: list[Any]) -> Agent[Any]:
        inner = agent(model=ScriptedModel(*[slow] * 9))
        inners.append(inner)
        turn = calls(*[("ask", {"prompt": f"q{n}"}) for n in range(5)])
        return Nested(inner, turn, "never", limits=Limits(max_model_calls=3)).outer

    played = await both(make)
    assert played.result.finish_reason == "limit"
    assert all(len(one.model.requests) == 2 for one in inners)  # type: ignore[attr-defined]  # is scripted


async def test_parallel_sub_agents_cannot_pass_a_token_limit_together() -> None:
    used = Usage(input_tokens=40, output_tokens=10)
    inners: list[Agent[Any]] = []

    def slow(request: Any) -> Any:
        async def later() -> Any:
            await asyncio.sleep(0.002)
            return text("inner", usage=used)

        return later()

    def make(log: list[Any]) -> Agent[Any]:
        inner = agent(model=ScriptedModel(*[slow] * 20), settings=ModelSettings(max_tokens=50))
        inners.append(inner)
        turn = calls(*[("ask", {"prompt": f"q{n}"}) for n in range(10)], usage=used)
        return Nested(inner, turn, "never", limits=Limits(max_total_tokens=200)).outer

    played = await both(make)
    assert played.result.finish_reason == "limit"
    assert played.result.usage.total_tokens is not None
    assert played.result.usage.total_tokens <= 200
    assert all(len(one.model.requests) <= 3 for one in inners)  # type: ignore[attr-defined]  # is scripted


async def test_what_was_set_aside_for_a_failed_call_is_given_back() -> None:
    used = Usage(input_tokens=10, output_tokens=10)

    async def patient(ctx: Any, request: Any, call_next: Any) -> Any:
        for _ in range(4):
            try:
                return await call_next.again(request)
            except ProviderDown:
                continue
        return await call_next(request)

    turns = [*[fail(ProviderDown("gone"))] * 3, text("made it", usage=used)]
    limits = Limits(max_total_tokens=100, on_exceeded="raise")
    settings = ModelSettings(max_tokens=60)
    played = await both(
        lambda log: agent(*turns, settings=settings, limits=limits, middleware=[wrap_model_call(patient)])
    )
    assert played.result.text == "made it"
    assert played.result.usage.total_tokens == 20


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_a_tool_that_hangs_is_cut_at_any_moment(how: str) -> None:
    async def deaf() -> str:
        """Wait, whatever comes."""
        for _ in range(3):
            try:
                await asyncio.sleep(10)
            except Exception:
                continue
        return "done"

    one = agent(calls("deaf"), "x", tools=[deaf], limits=Limits(tool_timeout_s=0.02))
    played = await play(how, one)
    assert played.result.text == "x"
    assert played.result.steps[0].tool_results[0].is_error
