"""An edit changes the call and nothing round it."""

from tests.interrupts.play import agent, answers_to, go_on, guarded, paused

from interpose import Approved, AssistantMessage
from interpose.messages import ToolCall
from interpose.models import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from interpose.testing import text
from interpose.testing.turns import Turn


async def test_an_edit_leaves_reasoning_and_text_of_the_message_as_they_were(how: str) -> None:
    turn = Turn(
        chunks=(
            ReasoningDelta("I think", "sig-1"),
            TextDelta("Let me"),
            ToolCallDelta(0, "c1", "mail", '{"to":"bob"}'),
            TextDelta("and so on"),
            ToolCallDelta(1, "c2", "mail", '{"to":"ada"}'),
            Finish("tool_calls"),
        )
    )
    first = await paused(how, agent(turn, text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved({"to": "eve", "n": 1}), Approved()))
    before, now = first.result.messages[1], after.requests[-1].messages[1]
    assert isinstance(before, AssistantMessage)
    assert isinstance(now, AssistantMessage)
    assert (now.id, now.text, now.reasoning) == (before.id, before.text, before.reasoning)
    assert [dict(call.args) for call in now.tool_calls] == [{"to": "eve", "n": 1}, {"to": "ada"}]
    assert [type(part) for part in now.parts] == [type(part) for part in before.parts]
    assert [dict(part.args) for part in now.parts if isinstance(part, ToolCall)] in (
        [],
        [{"to": "eve", "n": 1}, {"to": "ada"}],
    )
