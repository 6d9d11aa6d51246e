"""What hooks may return, and what `call_next` allows."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import PLAIN_HOOKS, add, agent, both, hello, logged, plain, play, summary, two_steps

from interpose import (
    Agent,
    ConfigurationError,
    HookError,
    Limits,
    Middleware,
    NextCalledTwice,
    ProviderDown,
    Usage,
    after_model_call,
    before_tool_call,
    wrap_model_call,
    wrap_tool_call,
)
from interpose.testing import calls, fail, hang, make_response, text


@pytest.mark.parametrize("hook", [*PLAIN_HOOKS, "wrap_run"])
async def test_a_hook_that_returns_nothing_changes_nothing(hook: str) -> None:
    with_it = await both(lambda log: two_steps(middleware=[logged("A", log, hook)]))
    without = await both(lambda log: two_steps())
    assert summary(with_it.result) == summary(without.result)
    assert with_it.types == without.types


async def test_wrap_run_may_return_nothing() -> None:
    class Watches(Middleware):
        async def wrap_run(self, ctx: Any, call_next: Any) -> None:
            await call_next()

    played = await both(lambda log: agent(hello(), middleware=[Watches()]))
    assert played.result.text == "Hello"


async def test_a_rewritten_response_is_what_outer_layers_result_and_history_have() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def rewrite(ctx: Any, request: Any, call_next: Any) -> Any:
            return (await call_next(request)).with_text("Other")

        outer = after_model_call(lambda ctx, request, response: log.append(response.text))
        return agent(hello(), middleware=[outer, wrap_model_call(rewrite)])

    played = await both(make)
    assert played.log == ["Other"]
    assert played.result.text == "Other"
    assert [m.text for m in played.result.messages] == ["Go", "Other"]


async def test_a_vote_that_is_a_text_is_refused_with_all_that_helps_to_find_it() -> None:
    class Votes(Middleware):
        def on_should_continue(self, ctx: Any, state: Any) -> Any:
            return "yes"

    played = await both(lambda log: agent(hello(), middleware=[Votes()]))
    assert isinstance(played.error, HookError)
    for part in ("Votes", "on_should_continue", "'yes'", "False"):
        assert part in str(played.error)


async def test_a_response_where_a_call_belongs_is_refused() -> None:
    played = await both(lambda log: two_steps(middleware=[before_tool_call(lambda ctx, call: make_response("x"))]))
    assert isinstance(played.error, HookError)


@pytest.mark.parametrize("seam", [wrap_model_call, wrap_tool_call])
async def test_a_wrap_that_forgets_to_return_is_told_so(seam: Any) -> None:
    async def forgets(ctx: Any, given: Any, call_next: Any) -> None:
        await call_next(given)

    played = await both(lambda log: two_steps(middleware=[seam(forgets)]))
    assert isinstance(played.error, HookError)
    assert "return" in str(played.error)


async def test_every_layer_may_call_next_once_in_every_step() -> None:
    async def through(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request)

    played = await both(lambda log: two_steps(middleware=[wrap_model_call(through), wrap_model_call(through)]))
    assert played.result.text == "3"


async def test_a_second_next_in_one_layer_is_refused_and_pays_nothing() -> None:
    async def twice(ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)

    played = await both(lambda log: agent("a", "b", middleware=[wrap_model_call(twice)]))
    assert isinstance(played.error, NextCalledTwice)
    assert "call_next.again" in str(played.error)
    assert len(played.requests) == 1


async def test_a_swallowed_second_next_calls_no_model_either() -> None:
    async def twice(ctx: Any, request: Any, call_next: Any) -> Any:
        first = await call_next(request)
        try:
            await call_next(request)
        except Exception:
            return first

    played = await both(lambda log: agent("a", "b", middleware=[wrap_model_call(twice)]))
    assert len(played.requests) == 1
    assert played.result.text == "a"


async def again_colder(ctx: Any, request: Any, call_next: Any) -> Any:
    await call_next(request)
    return await call_next.again(request.with_temperature(0))


async def test_again_is_a_call_of_its_own_that_counts() -> None:
    turns = [text(word, usage=Usage(input_tokens=10, output_tokens=1)) for word in ("hot", "cold")]
    played = await both(lambda log: agent(*turns, middleware=[wrap_model_call(again_colder)]))
    assert [request.settings.temperature for request in played.requests] == [None, 0]
    assert played.result.usage.total_tokens == 22
    assert played.result.text == "cold"
    assert len(played.result.steps) == 1


async def test_again_is_refused_where_the_calls_are_used_up() -> None:
    played = await both(
        lambda log: agent("a", "b", middleware=[wrap_model_call(again_colder)], limits=Limits(max_model_calls=1))
    )
    assert len(played.requests) == 1
    assert played.result.finish_reason == "limit"


async def test_again_may_come_first_and_any_number_of_times() -> None:
    async def thrice(ctx: Any, request: Any, call_next: Any) -> Any:
        for _ in range(2):
            await call_next.again(request)
        return await call_next(request)

    played = await both(lambda log: agent("a", "b", "c", middleware=[wrap_model_call(thrice)]))
    assert played.result.text == "c"


async def test_then_shows_the_response_before_its_tools_run_and_what_it_gives_is_ignored() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def watch(ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next.then(request, lambda response: log.append(len(response.tool_calls)))

        tools = before_tool_call(lambda ctx, call: log.append(call.name))
        return two_steps(middleware=[wrap_model_call(watch), tools])

    assert (await both(make)).log == [1, "add", 0]


async def test_a_failing_callback_of_then_fails_the_run() -> None:
    def explode(response: Any) -> None:
        raise ValueError("seen too much")

    async def watch(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next.then(request, explode)

    played = await both(lambda log: agent("a", middleware=[wrap_model_call(watch)]))
    assert repr(played.error) == "ValueError('seen too much')"
    assert played.endings == ["on_error"]


async def test_a_layer_can_answer_for_a_failed_provider() -> None:
    async def mend(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return request.answer("later, please")

    played = await both(lambda log: agent(fail(ProviderDown("gone")), middleware=[wrap_model_call(mend)]))
    assert played.result.text == "later, please"
    assert played.endings == ["on_finish"]


async def test_a_plain_hook_may_return_the_call_of_next_unawaited() -> None:
    played = await both(
        lambda log: two_steps(
            middleware=[
                wrap_model_call(lambda ctx, request, call_next: call_next(request)),
                wrap_tool_call(lambda ctx, call, call_next: call_next(call)),
            ]
        )
    )
    assert played.result.text == "3"


async def test_a_plain_async_function_is_a_layer_of_the_model_seam() -> None:
    async def louder(ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        return response.with_text(response.text.upper())

    assert (await both(lambda log: agent("a", middleware=[louder]))).result.text == "A"


async def test_a_next_that_still_runs_when_its_layer_returns_is_cancelled() -> None:
    async def impatient(ctx: Any, request: Any, call_next: Any) -> Any:
        task = asyncio.create_task(call_next(request))
        await asyncio.sleep(0.005)
        assert not task.done()
        return request.answer("instead")

    played = await both(lambda log: agent(hang(), middleware=[wrap_model_call(impatient)]))
    assert played.result.text == "instead"


async def test_of_two_attempts_that_overlap_only_the_returned_one_is_shown() -> None:
    async def race(ctx: Any, request: Any, call_next: Any) -> Any:
        first, second = await asyncio.gather(call_next.again(request), call_next.again(request))
        return max(first, second, key=lambda response: response.text)

    def slowly(word: str, seconds: float) -> Any:
        async def turn(request: Any) -> str:
            await asyncio.sleep(seconds)
            return word

        return turn

    turns = slowly("a", 0.01), slowly("b", 0.005)
    played = await both(lambda log: agent(*turns, middleware=[wrap_model_call(race)]))
    assert played.result.text == "b"
    assert played.types.count("TEXT_MESSAGE_CONTENT") == 1


@pytest.mark.parametrize("timeout_s", [None, 0.01])
async def test_next_can_stand_inside_a_timeout(timeout_s: float | None) -> None:
    async def timed(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await call_next(request)
        except TimeoutError:
            return request.answer("too slow")

    turn = hang(["so"]) if timeout_s else text("in time")
    played = await both(lambda log: agent(turn, middleware=[wrap_model_call(timed)]))
    assert played.result.text == ("too slow" if timeout_s else "in time")


async def test_a_method_that_looks_like_a_hook_is_refused_with_the_right_name() -> None:
    class Slip(Middleware):
        def before_model(self, ctx: Any, request: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="before_model_call"):
        agent("a", middleware=[Slip()])


async def test_a_hook_that_cannot_take_its_arguments_is_refused() -> None:
    class Slip(Middleware):
        def on_start(self) -> None: ...  # type: ignore[override]  # the slip

    with pytest.raises(ConfigurationError, match="on_start"):
        agent("a", middleware=[Slip()])


async def test_a_plain_value_from_a_tool_layer_is_the_result() -> None:
    async def cached(ctx: Any, call: Any, call_next: Any) -> Any:
        return {"sum": 3}

    played = await both(lambda log: two_steps(middleware=[wrap_tool_call(cached)]))
    assert played.result.steps[0].tool_results[0].data == {"sum": 3}
    assert plain(played.result.messages)[2]["text"] == '{"sum":3}'


async def test_a_tool_result_that_answers_another_call_is_refused() -> None:
    def crossed(ctx: Any, call: Any) -> Any:
        return call.replace(id="other").answer(1)

    played = await play(
        "run", agent(calls(("add", {"a": 1, "b": 2})), "x", tools=[add], middleware=[before_tool_call(crossed)])
    )
    assert isinstance(played.error, HookError)
