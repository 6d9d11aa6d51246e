"""A client that takes the snapshot sent after an edit has the result of every call of the step."""

from typing import Any

from tests.interrupts.play import agent, answers_to, go_on, guarded, paused, worker

from interpose import Approved
from interpose.testing import calls, text


async def test_the_snapshot_has_the_result_of_a_call_that_finished_before_the_pause() -> None:
    turns = (calls(("work", {"x": "a"}), ("mail", {"to": "bob"})), text("end"))
    first = await paused("stream", agent(*turns, tools=[worker([]), guarded([])]))
    after = await go_on(first, answers_to(first, Approved({"to": "ada"})))
    (messages,) = [event.messages for event in after.events if event.type == "MESSAGES_SNAPSHOT"]
    results: list[Any] = [one["content"] for one in messages if one["role"] == "tool"]
    results += [event.content for event in after.events if event.type == "TOOL_CALL_RESULT"]
    assert results == ["worked on a", "sent to ada"]
