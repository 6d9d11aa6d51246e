"""An approval for always holds for the very tool that a person saw, not for others of its name."""

from typing import Any

from tests.interrupts.play import agent, answers_to, by_id, guarded, paused

from interpose import Approved, tool
from interpose.stores import MemoryStore
from interpose.testing import calls, text

ALWAYS = Approved(always="tool")
BOB = ("mail", {"to": "bob"})


def mail_to_all(log: list[Any]) -> Any:
    """Return another tool of the name "mail", which takes other arguments."""

    @tool(approval=True, name="mail")
    async def body(group: str, everyone: bool = True) -> str:
        """Send something to many."""
        log.append(group)
        return "sent to all"

    return body


async def test_it_does_not_let_a_changed_tool_of_its_name_run(how: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    first = await paused(how, agent(calls(BOB), text("end"), tools=[guarded([])], store=store), thread_id="t1")
    await by_id(first, answers_to(first, ALWAYS))
    changed = agent(calls(("mail", {"group": "staff"})), text("end"), tools=[mail_to_all(log)], store=store)
    await paused(how, changed, thread_id="t1")
    assert log == []


async def test_it_does_not_reach_a_nested_agents_own_tool_of_that_name(how: str) -> None:
    log: list[Any] = []
    inner = agent(calls(("mail", {"group": "staff"})), text("sent"), tools=[mail_to_all(log)], name="inner")
    turns = (calls(BOB), calls(("help", {"prompt": "x"})), text("end"))
    outer = agent(*turns, tools=[guarded([]), inner.as_tool("help", "Helps.")], store=MemoryStore())
    first = await paused(how, outer, thread_id="t1")
    after = await by_id(first, answers_to(first, ALWAYS))
    assert (after.result.status, log) == ("interrupted", [])
