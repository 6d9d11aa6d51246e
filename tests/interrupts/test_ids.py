"""Questions that differ have ids that differ."""

from typing import Any

from tests.interrupts.play import agent, asked, paused

from interpose import Interrupt, Middleware
from interpose.testing import text


async def test_questions_whose_ids_look_alike_when_joined_are_told_apart(how: str) -> None:
    first, second = Interrupt[Any, Any]("a/b"), Interrupt[Any, Any]("a")

    class AsksBoth(Middleware):
        interrupts = (first, second)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [first.request("c"), second.request("b/c")] if ctx.phase == "before_model" else None

    played = await paused(how, agent(text("x"), middleware=[AsksBoth()]))
    assert len({one.id for one in asked(played)}) == 2
