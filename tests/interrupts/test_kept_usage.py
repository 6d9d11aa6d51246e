"""What was paid for an answer that a hook paused on is told once; a pause round the structured call loses nothing."""

from typing import Any

import pytest
from tests.interrupts.play import Asks, agent, answers_to, asked, go_on, paused

from interpose import Middleware, Pause, Resolved, Usage, tool
from interpose.testing import calls, text

COST = Usage(input_tokens=10, output_tokens=1)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Judge(Middleware):
    """Pauses behind the model of step 0, until it was answered."""

    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        return Pause("fine?") if ctx.step == 0 and ctx.answer("fine?") is None else None


class Late(Middleware):
    """The same from a layer round the call."""

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        return Pause("fine?") if ctx.step == 0 and ctx.answer("fine?") is None else response


pausing = pytest.mark.parametrize(
    "judge", [Judge, Late, lambda: Asks("after_model")], ids=["after", "wrap", "boundary"]
)


@pausing
async def test_its_usage_is_counted_and_told_once(how: str, judge: Any) -> None:
    told: list[Any] = []

    class Tells(Middleware):
        def on_usage(self, ctx: Any, usage: Any) -> None:
            told.append(usage.input_tokens)

    first = await paused(how, agent(text("hi", usage=COST), middleware=[Tells(), judge()]))
    assert first.result.usage.input_tokens == 10
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.usage.input_tokens, told) == (10, [10])


async def test_a_call_for_the_structure_may_pause_and_is_made_once(how: str) -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            if request.call_class != "structured_output" or ctx.answer("ok?"):
                return None
            return Pause("ok?")

    @tool
    async def calc() -> str:
        """Work something out."""
        return "3"

    made = agent(calls("calc"), text("3"), text('{"n": 3}'), tools=[calc], middleware=[Gate()], output=SCHEMA)
    first = await paused(how, made)
    assert (len(first.requests), first.result.output) == (2, None)
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.output, len(after.requests)) == ({"n": 3}, 3)


async def test_a_pause_behind_the_call_for_the_structure_keeps_its_answer(how: str) -> None:
    class Gate(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            if request.call_class != "structured_output" or ctx.answer("ok?"):
                return None
            return Pause("ok?", response.text)

    @tool
    async def calc() -> str:
        """Work something out."""
        return "3"

    made = agent(calls("calc"), text("3"), text('{"n": 3}'), tools=[calc], middleware=[Gate()], output=SCHEMA)
    first = await paused(how, made)
    assert [one.value for one in asked(first)] == ['{"n": 3}']
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.output, len(after.requests)) == ({"n": 3}, 3)
