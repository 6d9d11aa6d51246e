"""Whatever the model plays and whatever stands round it, `run` and `stream` agree and every standing check holds."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.layers.play import Ends, agent_of, both, echo

from interpose import DROP, Abort, End, FatalToolError, Limits, Middleware, Pause, ProviderDown, Retry, Usage
from interpose.testing import calls, fail, make_response, text

PIECES = st.lists(st.sampled_from(["a", "b ", "", "\n", "sk-123", "ä", "\ud83d", "\ude00"]), max_size=4)
CALLS = st.lists(
    st.sampled_from(
        [
            ("echo", {"x": "1"}),
            ("echo", {"x": "2"}),
            ("echo", {}),
            ("echo", "{broken"),
            ("nope", {}),
            ("breaks", {}),
            ("fatal", {}),
        ]
    ),
    min_size=1,
    max_size=3,
)
USED = st.sampled_from([None, Usage(input_tokens=3, output_tokens=2)])
TURNS = st.one_of(
    st.builds(lambda pieces, used: text(chunks=pieces, usage=used), PIECES, USED),
    st.builds(lambda pieces: text(chunks=pieces, reasoning="hmm"), PIECES),
    st.builds(lambda items, said, used: calls(*items, text=said, usage=used), CALLS, st.sampled_from(["", "so"]), USED),
    st.builds(lambda items: calls(*items, finish_reason="length"), CALLS),
    st.builds(lambda pieces: fail(ProviderDown("down"), after=pieces), PIECES),
)


async def breaks() -> str:
    """Break."""
    raise OSError("broken")


async def fatal() -> str:
    """Break for good."""
    raise FatalToolError("fatal")


class Tries(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)


class Races(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        task = asyncio.ensure_future(call_next(request))
        return await task


class Shouts(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> Any:
        return event.replace(delta=event.delta.upper()) if event.type == "TEXT_MESSAGE_CONTENT" else None


class Drops(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> Any:
        return DROP if event.type == "TEXT_MESSAGE_CONTENT" and event.delta == "a" else None


class Doubles(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> Any:
        return [event, event] if event.type == "TEXT_MESSAGE_CONTENT" and len(event.delta) < 4 else None


class Holds(Middleware):
    holds_stream = True


class Rewrites(Middleware):
    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        return response.with_text(response.text + "!") if response.text and "!" not in response.text else None


class Answers(Middleware):
    def before_model_call(self, ctx: Any, request: Any) -> Any:
        return make_response([("echo", {"x": "made"})]) if request.number == 1 else None


class Asks(Middleware):
    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        return Retry("again") if request.number == 0 else None


class Refuses(Middleware):
    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        return call.refuse("no") if call.args.get("x") == "1" else None


class Steers(Middleware):
    """Ends, pauses or aborts at one place."""

    def __init__(self, hook: str, outcome: Any) -> None:
        self.hook, self.outcome = hook, outcome

    def before_model_call(self, ctx: Any, request: Any) -> Any:
        return self.outcome if self.hook == "before" and request.number == 1 else None

    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        here = self.hook == "after" and request.number == 1 and not isinstance(self.outcome, Pause)
        return self.outcome if here else None

    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        return self.outcome if self.hook == "tool" and call.args.get("x") == "2" else None


LAYERS = st.lists(
    st.one_of(
        st.sampled_from([Tries, Races, Shouts, Drops, Doubles, Holds, Rewrites, Answers, Asks, Refuses]),
        st.builds(
            lambda hook, outcome: lambda: Steers(hook, outcome),
            st.sampled_from(["before", "after", "tool"]),
            st.sampled_from([End("bye"), End(), Abort("enough"), Pause("ok?")]),
        ),
    ),
    max_size=4,
)
LIMITS = st.sampled_from(
    [
        Limits(),
        Limits(max_steps=2),
        Limits(max_model_calls=2),
        Limits(max_tool_calls=2),
        Limits(max_total_tokens=8),
        Limits(max_model_calls=2, on_exceeded="raise"),
        Limits(max_steps=1, on_exceeded="raise"),
    ]
)


@pytest.mark.timeout(60)
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(turns=st.lists(TURNS, min_size=1, max_size=4), layers=LAYERS, limits=LIMITS)
def test_run_and_stream_agree_and_the_standing_checks_hold(turns: Any, layers: Any, limits: Any) -> None:
    def make(log: list[Any]) -> Any:
        middleware = [layer() for layer in layers]
        tools = [echo, breaks, fatal]
        return agent_of(*turns, text("end"), tools=tools, middleware=middleware, limits=limits)

    asyncio.run(both(make))


@pytest.mark.timeout(60)
@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(turns=st.lists(TURNS, min_size=1, max_size=3), layers=LAYERS, after=st.integers(1, 15), slow=st.booleans())
def test_a_reader_may_leave_at_any_event(turns: Any, layers: Any, after: int, slow: bool) -> None:
    async def play() -> None:
        ends = Ends()
        middleware = [layer() for layer in layers]
        agent = agent_of(*turns, text("end"), tools=[echo, breaks, fatal], middleware=[*middleware, ends])
        before = asyncio.all_tasks()
        with contextlib.suppress(Exception):
            async with agent.stream("go") as run:
                for _ in range(after):
                    await anext(run)
                    if slow:
                        await asyncio.sleep(0)
        assert len(ends.seen) == 1
        assert agent.model.open_streams == 0  # type: ignore[attr-defined]  # a scripted model
        assert asyncio.all_tasks() == before

    asyncio.run(play())
