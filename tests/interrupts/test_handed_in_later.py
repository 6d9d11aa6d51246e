"""Open calls in messages handed in are dealt with also where the run was paused before it came to them."""

from typing import Any

from tests.interrupts.play import agent, answers_to, args_of, go_on, guarded, paused, results_of

from interpose import Approved, AssistantMessage, Middleware, Pause, Resolved, ToolCall, UserMessage, tool
from interpose.testing import text


class Start(Middleware):
    """Pauses at the start until it was answered."""

    def on_start(self, ctx: Any) -> Any:
        return None if ctx.answer("go?") else Pause("go?")


async def test_open_calls_are_dealt_with_after_a_pause_at_the_start(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        log.append("calc")
        return "42"

    call = ToolCall(id="c1", name="mail", args={"to": "bob"})
    given = [UserMessage("Mail bob"), AssistantMessage(tool_calls=(ToolCall(id="c0", name="calc"), call))]
    made = agent(text("done"), tools=[calc, guarded(log)], middleware=[Start()])
    first = await paused(how, made, given)
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert (second.result.status, args_of(second)["to"], log) == ("interrupted", "bob", [])
    third = await go_on(second, answers_to(second, Approved()))
    assert (third.result.text, log) == ("done", [("mail", "bob", 1)])
    assert len(results_of(third.result.messages)) == 2
