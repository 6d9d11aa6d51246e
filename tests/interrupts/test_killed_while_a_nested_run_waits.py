"""A nested run that waits for a person goes on also where the outer run was killed before it paused."""

import asyncio
from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, by_id, guarded, paused, play, results_of
from tests.interrupts.snapshots import snapshot

from interpose import Agent, Approved, tool
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, text

BOB = ("mail", {"to": "bob"})


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


class Household:
    """An agent whose helper asks, beside a call that is still running when the process dies."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.left: list[MemoryStore] = []

    def agent(self, store: MemoryStore, outer: Any, inner: Any) -> Agent[Any]:
        """Return the agent on *store*, with the turns of its own model and those of its helper's."""

        @tool(effect="read")
        async def wait() -> str:
            """Wait until the helper has asked."""
            await asyncio.sleep(0.02)
            self.left.append(snapshot(store))
            return "waited"

        helper: Agent[Any] = Agent(ScriptedModel(*inner), tools=[guarded(self.log), look], name="helper")
        return agent(*outer, tools=[helper.as_tool("help", "Helps."), wait], store=store)


@pytest.mark.parametrize("beside", [(), (("look", {}),)], ids=["alone", "beside a finished call"])
async def test_the_nested_call_runs_once_it_is_approved(how: str, beside: Any) -> None:
    house = Household()
    turn = calls(("help", {"prompt": "Mail bob"}), ("wait", {}))
    await play(how, house.agent(MemoryStore(), [turn], [calls(*beside, BOB)]), run_id="r1", thread_id="t1")
    other = house.agent(house.left[0], [text("end")], [text("helped")])
    second = await paused(how, other, None, resume={}, parent_run_id="r1")
    assert house.log == []
    after = await by_id(second, answers_to(second, Approved()))
    assert (after.result.text, house.log) == ("end", [("mail", "bob", 1)])
    assert results_of(after.result.messages) == ["helped", "waited"]
