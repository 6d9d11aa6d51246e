"""Questions asked in a wrong way, or from a place that may not ask."""

from typing import Any

import pytest
from tests.interrupts.play import Asks, agent, asked, guarded, paused, play

from interpose import HookError, Middleware, Pause, Usage
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


@pytest.mark.parametrize("odd", ["review", {"a": 1}, [5], [None], 5, True, ["review"]], ids=repr)
async def test_what_is_no_list_of_questions_is_a_hook_error(how: str, odd: Any) -> None:
    class Odd(Middleware):
        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return odd

    played = await play(how, agent(text("never"), middleware=[Odd()]))
    assert isinstance(played.error, HookError)


@pytest.mark.parametrize(
    "hook", ["after_tool_call", "on_step", "on_usage", "on_chunk", "on_should_continue", "on_finish"]
)
async def test_a_pause_from_a_hook_that_may_not_is_a_hook_error(how: str, hook: str) -> None:
    def two(self: Any, ctx: Any, given: Any) -> Any:
        return Pause("no")

    def three(self: Any, ctx: Any, given: Any, came: Any) -> Any:
        return Pause("no")

    one = type("Odd", (Middleware,), {hook: three if hook.startswith("after") else two})()
    turns = (calls(BOB, usage=Usage(input_tokens=1)), text("done"))
    played = await play(how, agent(*turns, tools=[guarded([], approval=False)], middleware=[one]))
    assert isinstance(played.error, HookError)


async def test_questions_of_one_batch_keep_the_order_of_asking(how: str) -> None:
    keys = [f"k{n}" for n in (3, 1, 2)]
    first = await paused(how, agent(text("hi"), middleware=[Asks("before_model", keys=keys)]))
    assert [one.message for one in asked(first)] == [f"Look at {key}?" for key in keys]
