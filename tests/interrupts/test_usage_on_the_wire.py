"""The end of a resumed stream tells what its own calls cost, not those before the pause."""

from tests.interrupts.play import agent, answers_to, go_on, guarded, paused

from interpose import Approved, Usage
from interpose.testing import calls, text

COST = Usage(input_tokens=10, output_tokens=1)


async def test_a_resumed_run_tells_the_usage_of_its_own_calls_alone() -> None:
    turns = (calls(("mail", {"to": "bob"}), usage=COST), text("end", usage=COST))
    first = await paused("stream", agent(*turns, tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert [one["inputTokens"] for one in after.events[-1].usage] == [10]
