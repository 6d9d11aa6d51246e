"""Reaching a limit counts, spends nothing more, answers every call and leaves a history that goes on."""

from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, errors_of, results_of, roles

from interpose import (
    Agent,
    ConfigurationError,
    LimitExceeded,
    Limits,
    Middleware,
    ModelProfile,
    ProviderDown,
    Usage,
)
from interpose.testing import ScriptedModel, calls, fail, text

ONE = ("echo", {"x": "1"})


def loop_of(*limits: Any, **options: Any) -> Agent[Any]:
    return agent_of(*[calls(ONE, usage=options.pop("usage", None)) for _ in range(30)], tools=[echo], **options)


def endless(limits: Limits, used: Usage | None = None) -> Any:
    return lambda log: agent_of(*[calls(ONE, usage=used, text="t") for _ in range(40)], tools=[echo], limits=limits)


async def test_a_limit_on_model_calls_ends_the_run_in_good_order() -> None:
    played = await both(endless(Limits(max_model_calls=2)))
    assert (len(played.requests), len(played.result.steps)) == (2, 2)
    assert (played.result.status, played.result.finish_reason, played.result.text) == ("finished", "limit", "t")
    assert played.end == "on_finish"
    assert played.info.finish_reason == "limit"


async def test_the_same_limit_may_raise_and_gives_the_partial_result() -> None:
    played = await both(endless(Limits(max_model_calls=2, on_exceeded="raise")))
    assert isinstance(played.error, LimitExceeded)
    assert "max_model_calls" in str(played.error)
    assert len(played.partial.steps) == 2
    assert played.end == "on_error"


async def test_spent_tokens_at_the_limit_refuse_the_next_call() -> None:
    played = await both(endless(Limits(max_total_tokens=60), Usage(input_tokens=50, output_tokens=10)))
    assert len(played.requests) == 1


async def test_the_last_step_asks_for_tools_in_vain() -> None:
    ran: list[int] = []

    async def work() -> str:
        """Work."""
        ran.append(1)
        return "x"

    played = await both(lambda log: agent_of(calls("work"), tools=[work], limits=Limits(max_steps=1)))
    assert ran == []
    assert "limit" in results_of(played.result)[0]
    assert len(played.requests) == 1
    assert played.result.finish_reason == "limit"


async def test_a_step_limit_that_raises_does_so_after_the_answered_step() -> None:
    played = await both(endless(Limits(max_steps=2, on_exceeded="raise")))
    assert isinstance(played.error, LimitExceeded)
    assert played.error.limit == "max_steps"
    assert roles(played.partial.messages) == ["user", "assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_step_limit_gives_exactly_that_many_steps(steps: int) -> None:
    assert len((await both(endless(Limits(max_steps=steps)))).result.steps) == steps


async def test_a_final_answer_within_the_step_limit_is_no_cut() -> None:
    played = await both(lambda log: agent_of(text("x"), limits=Limits(max_steps=1, on_exceeded="raise")))
    assert played.result.finish_reason == "stop"


async def test_a_failing_model_call_counts_without_tokens() -> None:
    async def again(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    played = await both(
        lambda log: agent_of(
            fail(ProviderDown("x")), text("never"), middleware=[again], limits=Limits(max_model_calls=1)
        )
    )
    assert len(played.requests) == 1
    assert played.result.finish_reason == "limit"


async def test_an_attempt_without_usage_leaves_tokens_unknown() -> None:
    async def again(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    played = await both(lambda log: agent_of(fail(ProviderDown("x")), text("ok"), middleware=[again]))
    assert played.result.usage == Usage()


async def test_a_tool_that_fails_forever_ends_at_the_step_limit_with_every_call_answered() -> None:
    async def breaks() -> str:
        """Break."""
        raise OSError("no")

    played = await both(
        lambda log: agent_of(*[calls("breaks") for _ in range(9)], tools=[breaks], limits=Limits(max_steps=4))
    )
    assert len(played.result.steps) == 4
    assert len(results_of(played.result)) == 4


async def test_usage_is_counted_without_any_limit() -> None:
    used = Usage(input_tokens=10, output_tokens=5)
    played = await both(
        lambda log: agent_of(calls(ONE, usage=used), text("x", usage=used), tools=[echo], limits=Limits(max_steps=None))
    )
    assert played.result.usage == Usage(input_tokens=20, output_tokens=10)


def batch(limits: Limits) -> Any:
    def make(log: list[Any]) -> Any:
        async def search(n: int) -> int:
            """Search."""
            log.append(n)
            return n

        turns = [calls(*[("search", {"n": n}) for n in range(5)]), calls(*[("search", {"n": n}) for n in range(5, 8)])]
        return agent_of(*turns, text("x"), tools=[search], limits=limits)

    return make


async def test_with_raise_a_batch_that_would_pass_the_limit_does_not_start() -> None:
    played = await both(batch(Limits(max_tool_calls=6, on_exceeded="raise")))
    assert isinstance(played.error, LimitExceeded)
    assert played.error.limit == "max_tool_calls"
    assert played.log == [0, 1, 2, 3, 4]


async def test_with_stop_a_batch_runs_as_far_as_the_limit_goes() -> None:
    played = await both(batch(Limits(max_tool_calls=6)))
    assert played.log == [0, 1, 2, 3, 4, 5]
    assert errors_of(played.result) == [False] * 6 + [True] * 2
    assert "limit" in results_of(played.result)[-1]
    assert len(played.requests) == 2


async def test_of_two_hundred_calls_those_over_the_limit_are_answered() -> None:
    def make(log: list[Any]) -> Any:
        async def one(n: int) -> int:
            """One."""
            log.append(n)
            return n

        return agent_of(calls(*[("one", {"n": n}) for n in range(200)]), tools=[one], limits=Limits(max_tool_calls=10))

    played = await both(make)
    assert len(played.log) == 10
    assert len(results_of(played.result)) == 200


async def test_refused_arguments_and_unknown_tools_spend_no_tool_calls() -> None:
    turn = calls(("echo", {"y": 1}), ("nope", {}), ONE)
    played = await both(lambda log: agent_of(turn, text("x"), tools=[echo], limits=Limits(max_tool_calls=2)))
    assert results_of(played.result)[2] == "1"
    assert played.result.text == "x"


async def test_a_cost_limit_without_a_price_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_cost_usd"):
        await agent_of(text("x"), limits=Limits(max_cost_usd=1.0)).run("go")


async def test_a_cost_limit_stops_when_it_is_spent() -> None:
    profile = ModelProfile(input_price=1_000_000.0, output_price=0.0)
    used = Usage(input_tokens=1, output_tokens=0)

    def make(log: list[Any]) -> Any:
        model = ScriptedModel(*[calls(ONE, usage=used) for _ in range(9)], profile=profile)
        return agent_of(model=model, tools=[echo], limits=Limits(max_cost_usd=2.0))

    played = await both(make)
    assert played.result.usage.cost_usd == pytest.approx(len(played.requests))
    assert len(played.requests) <= 2


async def test_a_limit_for_a_run_replaces_those_of_the_agent() -> None:
    played = await both(endless(Limits(max_steps=9)), limits=Limits(max_model_calls=3))
    assert len(played.requests) == 3


async def test_a_limit_is_not_swallowed_by_a_layer() -> None:
    class Swallows(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            except Exception:
                return request.answer("swallowed")
            finally:
                pass

    def make(log: list[Any]) -> Any:
        turns = [calls(ONE) for _ in range(9)]
        return agent_of(*turns, tools=[echo], middleware=[Swallows()], limits=Limits(max_model_calls=1))

    assert (await both(make)).result.finish_reason == "limit"


async def test_a_limit_of_zero_is_refused_and_never_no_limit() -> None:
    with pytest.raises(ConfigurationError, match="max_steps=0"):
        Limits(max_steps=0)
