"""`ContentGuard(block=True)`: which answer counts as blocked, where attempts, pauses and other layers stand between."""

from collections.abc import Callable
from typing import Any

import pytest

from interpose import (
    Agent,
    Middleware,
    ModelRequest,
    ModelResponse,
    Pause,
    PostModelHookContext,
    PostModelHookResult,
    ProviderDown,
    Resolved,
    Retry,
    RunContext,
    tool,
)
from interpose.builtin import ContentGuard, Fallback, RetryModelCalls
from interpose.messages import AssistantMessage
from interpose.stores import MemoryStore
from interpose.testing import FakeClock, ScriptedModel, assert_events_valid, calls, collect, fail, text, text_of

BAD = "secret " * 30  # cut at once, so that nothing of it is shown
HALF = "hello " * 20 + BAD


def guard() -> ContentGuard:
    return ContentGuard([("secret", "")], block=True)


def down(*after: str) -> Any:
    return fail(ProviderDown("down"), after=after)


async def both(make: Callable[[], Agent]) -> tuple[str, str]:
    """Text and finish reason, which are the same in a run and in a stream, and as they were shown."""
    result = await make().run("go")
    async with make().stream("go") as run:
        events = await collect(run)
        streamed = await run.result()
    assert_events_valid(events)
    assert (streamed.text, streamed.finish_reason) == (result.text, result.finish_reason)
    assert text_of(events).endswith(result.text)
    return result.text, result.finish_reason


class Judge(Middleware):
    """Sends back what has no text."""

    def after_model_call(self, ctx: RunContext, request: ModelRequest, response: ModelResponse) -> Retry | None:
        return None if response.text == "clean" else Retry("again")


class Hold(Middleware):
    holds_stream = True


def ask_again(context: PostModelHookContext) -> PostModelHookResult | None:
    return None if context.response.text == "clean" else PostModelHookResult(retry=Retry("again"))


AGAIN: dict[str, Callable[[Any], Agent]] = {
    "a retry": lambda bad: agent(down(bad), text("clean"), middleware=[guard(), RetryModelCalls()]),
    "a retry, the stream held": lambda bad: agent(
        down(bad), text("clean"), middleware=[guard(), Hold(), RetryModelCalls()]
    ),
    "a fallback": lambda bad: agent(down(bad), text("clean"), middleware=[guard(), Fallback("other")]),
    "a layer inside": lambda bad: agent(text(bad), text("clean"), middleware=[guard(), Judge()]),
    "a layer outside": lambda bad: agent(text(bad), text("clean"), middleware=[Judge(), guard()]),
    "a model hook": lambda bad: agent(text(bad), text("clean"), middleware=[guard()], post=[ask_again]),
}


def agent(*turns: Any, middleware: Any, post: Any = ()) -> Agent:
    return Agent(ScriptedModel(*turns), middleware=middleware, post_model_hooks=post, clock=FakeClock(auto=True))


@pytest.mark.parametrize("bad", [BAD, HALF], ids=["nothing shown", "half shown"])
@pytest.mark.parametrize("asked_by", AGAIN)
async def test_answer_that_came_after_a_blocked_attempt_is_not_blocked(asked_by: str, bad: str) -> None:
    assert await both(lambda: AGAIN[asked_by](bad)) == ("clean", "stop")


@pytest.mark.parametrize("asked_by", ["a retry", "a fallback"])
async def test_blocked_attempt_after_a_clean_one_is_blocked(asked_by: str) -> None:
    layer = RetryModelCalls() if asked_by == "a retry" else Fallback("other")
    made = await both(lambda: agent(down("fine " * 30), text(BAD), middleware=[guard(), layer]))
    assert made == ("", "content_filter")


async def test_match_in_the_reasoning_blocks_whether_it_was_streamed_or_made_up() -> None:
    class Canned(Middleware):
        def before_model_call(self, ctx: RunContext, request: ModelRequest) -> ModelResponse:
            return ModelResponse(AssistantMessage("fine", reasoning="my secret"))

    streamed = await both(lambda: agent(text("fine", reasoning="my secret"), middleware=[guard()]))
    made_up = await both(lambda: agent(middleware=[guard(), Canned()]))
    assert streamed == made_up == ("fine", "content_filter")


async def test_reasoning_blocked_in_an_attempt_that_failed_does_not_block_the_next() -> None:
    first = text("x", reasoning="I know the secret")
    mine = agent(first, text("clean", reasoning="nothing"), middleware=[Judge(), guard()])
    result = await mine.run("go")
    assert (result.text, result.finish_reason) == ("clean", "stop")


@pytest.mark.parametrize("stored", [True, False], ids=["store", "checkpoint"])
async def test_calls_of_a_blocked_answer_do_not_run_after_a_pause_either(stored: bool) -> None:
    ran: list[int] = []

    @tool
    async def pay() -> None:
        ran.append(1)

    class Ask(Middleware):
        def after_model_call(self, ctx: RunContext, request: ModelRequest, response: ModelResponse) -> Pause | None:
            return None if ctx.answer("fine?") else Pause("fine?")

    mine = Agent(
        ScriptedModel(calls("pay", text="a secret thing"), text("end")),
        tools=[pay],
        middleware=[guard(), Ask()],
        store=MemoryStore() if stored else None,
        post_model_hooks=(),
    )
    paused = await mine.run("go")
    where = paused.run_id if stored else paused.checkpoint
    assert where is not None
    result = await mine.resume(where, {paused.interrupts[0].id: Resolved(True)})
    assert (result.finish_reason, result.text, ran) == ("content_filter", "a ", [])
