"""Any stack of middleware round any script: run and stream agree, and what holds for every run holds."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lifecycle.play import add, agent, both

from interpose import (
    DROP,
    Abort,
    Agent,
    End,
    Limits,
    Middleware,
    Pause,
    ProviderDown,
    Retry,
    Skip,
    Usage,
)
from interpose.testing import calls, fail, text

USED = Usage(input_tokens=3, output_tokens=2)
ADD = ("add", {"a": 1, "b": 2})
TURNS = {
    "text": lambda: text("Hello you", chunks=("Hel", "lo", " you"), usage=USED),
    "thought": lambda: text("so", reasoning="well", usage=USED),
    "silent": lambda: text(),
    "call": lambda: calls(ADD, usage=USED),
    "two calls": lambda: calls(ADD, ("add", {"a": 3, "b": 4}), text="look", usage=USED),
    "unknown": lambda: calls("nothing", ADD),
    "broken": lambda: calls(("add", '{"a": ')),
    "cut": lambda: calls(ADD, text="long", finish_reason="length"),
    "fail": lambda: fail(ProviderDown("gone")),
    "fail late": lambda: fail(ProviderDown("gone"), after=["ha", "lf"]),
}


class Again(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next.again(request)


class Patient(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return request.answer("later")


class Deaf(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except BaseException:
            return request.answer("never mind")


class Rewrites(Middleware):
    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        return response.with_text(response.text.upper()) if response.text else None


class Retries(Middleware):
    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        return Retry("better")


class Answers(Middleware):
    def before_model_call(self, ctx: Any, request: Any) -> Any:
        return request.answer("made up") if request.number == 1 else None


class Holds(Middleware):
    holds_stream = True


class Drops(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> Any:
        return DROP if getattr(event, "delta", "").startswith("l") else None


class HidesCalls(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> Any:
        return DROP if event.type.startswith("TOOL_CALL") else None


class Splits(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> Any:
        if event.type != "TEXT_MESSAGE_CONTENT":
            return None
        return [event.replace(delta=letter) for letter in event.delta]


class Ends(Middleware):
    def before_model_call(self, ctx: Any, request: Any) -> Any:
        return End("bye") if request.number == 1 else None


class EndsInTool(Middleware):
    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> Any:
        return End()


class Asks(Middleware):
    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        return Pause("ask")


class AsksAfter(Middleware):
    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        return Pause("ask") if request.number == 1 else None


class Aborts(Middleware):
    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> Any:
        return Abort("no")


class AbortsInChunk(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> Any:
        if getattr(event, "delta", "") == "lo":
            ctx.abort("enough")


class Fails(Middleware):
    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        if request.number == 1:
            raise ValueError("no")


class Skips(Middleware):
    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        return Skip("skipped")


class Votes(Middleware):
    def on_should_continue(self, ctx: Any, state: Any) -> Any:
        return len(state.steps) < 2


class Emits(Middleware):
    def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
        ctx.emit("judged", True)


LAYERS = [
    *(Again, Patient, Deaf, Rewrites, Retries, Answers, Holds, Drops, HidesCalls, Splits),
    *(Ends, EndsInTool, Asks, AsksAfter, Aborts, AbortsInChunk, Fails, Skips, Votes, Emits),
]
LIMITS = [
    Limits(),
    Limits(max_steps=2),
    Limits(max_model_calls=2),
    Limits(max_tool_calls=1, tool_concurrency=1),
    Limits(max_model_calls=2, on_exceeded="raise"),
    Limits(max_total_tokens=6, on_exceeded="raise"),
]


@settings(max_examples=250, deadline=None)
@given(
    turns=st.lists(st.sampled_from(sorted(TURNS)), min_size=1, max_size=4),
    layers=st.lists(st.sampled_from(LAYERS), max_size=4),
    limits=st.sampled_from(LIMITS),
)
def test_run_and_stream_agree_and_every_run_is_in_order(turns: list[str], layers: list[Any], limits: Limits) -> None:
    def make(log: list[Any]) -> Agent[Any]:
        script = [TURNS[turn]() for turn in turns] + ["end"] * 12
        return agent(*script, tools=[add], middleware=[layer() for layer in layers], limits=limits)

    asyncio.run(both(make))
