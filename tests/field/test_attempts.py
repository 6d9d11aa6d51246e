"""Attempts, waits and made-up answers of one step: shown once, kept once, charged once."""

import asyncio
from typing import Any

from tests.layers.play import agent_of, both, echo, errors_of, results_of, roles

from interpose import (
    Limits,
    Middleware,
    Model,
    ModelProfile,
    ModelTimeout,
    ProviderDown,
    Retry,
    Usage,
    tool,
)
from interpose.testing import ScriptedModel, calls, fail, hang, make_response, text, text_of

ONE = ("echo", {"x": "1"})


async def again(ctx: Any, request: Any, call_next: Any) -> Any:
    try:
        return await call_next(request)
    except ProviderDown:
        return await call_next.again(request)


async def test_half_a_call_of_a_failed_attempt_is_closed_withdrawn_and_never_run() -> None:
    from interpose import ToolCallDelta

    def make(log: list[Any]) -> Any:
        async def pay(n: int) -> int:
            """Pay."""
            log.append(n)
            return n

        half = fail(ProviderDown("x"), after=[ToolCallDelta(0, "c1", "pay", '{"n')])
        return agent_of(half, calls(("pay", {"n": 1})), text("x"), tools=[pay], middleware=[again])

    played = await both(make)
    assert played.log == [1]
    withdrawn = [event.value for event in played.events if event.type == "CUSTOM"]
    assert withdrawn == [{"toolCallIds": ["c1"]}]


async def test_failed_attempts_leave_the_input_once_and_the_answer_once() -> None:
    played = await both(lambda log: agent_of(fail(ProviderDown("x")), text("ok"), middleware=[again]))
    assert roles(played.result.messages) == ["user", "assistant"]
    assert len(played.result.steps) == 1


async def test_an_attempt_may_be_dropped_for_an_answer_of_ones_own() -> None:
    async def instead(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return request.answer("sorry")

    played = await both(lambda log: agent_of(fail(ProviderDown("x"), after=["half"]), middleware=[instead]))
    assert text_of(played.events) == played.result.text == "sorry"


async def test_usage_of_a_failed_attempt_that_was_told_is_charged() -> None:
    from interpose import TextDelta, UsageUpdate

    told = fail(ProviderDown("x"), after=[UsageUpdate(Usage(input_tokens=10)), TextDelta("a")])
    played = await both(lambda log: agent_of(told, text("ok", usage=Usage(input_tokens=1)), middleware=[again]))
    assert played.result.usage.input_tokens == 11


async def test_a_timeout_error_of_a_tool_is_its_own_and_not_the_limits() -> None:
    async def times_out() -> str:
        """Time out."""
        raise TimeoutError("the server did not answer")

    limits = Limits(tool_timeout_s=5, max_duration_s=5)
    played = await both(lambda log: agent_of(calls("times_out"), text("x"), tools=[times_out], limits=limits))
    assert "the server did not answer" in results_of(played.result)[0]


async def test_a_timeout_error_of_a_provider_is_its_own_and_not_the_limits() -> None:
    played = await both(lambda log: agent_of(fail(TimeoutError("socket")), limits=Limits(model_timeout_s=5)))
    assert not isinstance(played.error, ModelTimeout)
    assert "socket" in str(played.error)


async def test_time_that_a_layer_waits_is_not_the_models() -> None:
    async def waits(ctx: Any, request: Any, call_next: Any) -> Any:
        await asyncio.sleep(0.05)
        return await call_next(request)

    played = await both(lambda log: agent_of(text("x"), middleware=[waits], limits=Limits(model_timeout_s=0.03)))
    assert played.result.text == "x"


async def test_a_tools_own_limit_of_time_comes_before_the_runs() -> None:
    @tool(timeout_s=0.02)
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(10)
        return "x"

    played = await both(lambda log: agent_of(calls("slow"), text("x"), tools=[slow], limits=Limits(tool_timeout_s=5)))
    assert errors_of(played.result) == [True]


async def test_a_retry_beyond_a_limit_ends_by_the_limit() -> None:
    class Asks(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return Retry("again", max_retries=5)

    played = await both(
        lambda log: agent_of(text("a"), text("b"), middleware=[Asks()], limits=Limits(max_model_calls=1))
    )
    assert (played.result.finish_reason, len(played.requests)) == ("limit", 1)


class Slow(Model):
    """Answers after a while; counts how many calls are under way."""

    provider = name = "slow"
    profile = ModelProfile(max_output_tokens=60)

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def stream(self, request: Any) -> Any:
        from interpose import Finish, TextDelta

        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.005)
        self.now -= 1
        yield TextDelta("x")
        yield Finish(usage=Usage(input_tokens=50, output_tokens=10))


async def test_tokens_set_aside_keep_parallel_children_within_the_limit() -> None:
    model = Slow()
    child = agent_of(model=model).as_tool("child", "Child.")
    turn = calls(*[("child", {"prompt": "x"}) for _ in range(20)], usage=Usage(input_tokens=1, output_tokens=1))
    agent = agent_of(model=ScriptedModel(turn, text("never")), tools=[child], limits=Limits(max_total_tokens=200))
    result = await agent.run("go")
    assert result.finish_reason == "limit"
    assert result.usage.total_tokens is not None
    assert result.usage.total_tokens < 200 + 60 * 2


async def test_what_was_set_aside_for_a_cancelled_call_is_given_back() -> None:
    async def hurried(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            async with asyncio.timeout(0.02):
                return await call_next(request.with_max_tokens(90))
        except TimeoutError:
            return await call_next.again(request.with_max_tokens(90))

    played = await both(
        lambda log: agent_of(hang(), text("ok"), middleware=[hurried], limits=Limits(max_total_tokens=100))
    )
    assert played.result.text == "ok"


async def test_made_up_calls_with_empty_and_equal_ids_are_told_apart() -> None:
    from interpose import ToolCall

    class Makes(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            same = [ToolCall(id, "echo", {"x": str(n)}) for n, id in enumerate(["", "", "k", "k"])]
            return make_response(same) if request.is_first_step else None

    played = await both(lambda log: agent_of(text("x"), tools=[echo], middleware=[Makes()]))
    assert results_of(played.result) == ["0", "1", "2", "3"]
