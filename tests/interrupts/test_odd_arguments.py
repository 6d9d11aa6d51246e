"""A call whose typed arguments JSON has no words for (sets, keys that are numbers) is approved like any other."""

from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, by_id, paused, play

from interpose import Approved, tool
from interpose.stores import MemoryStore
from interpose.testing import calls, text

NUMBERED = (dict[int, str], {"1": "a"})
ODD = [(set[int], [10, 2, 1]), (frozenset[str], ["x", "y", "z", "a", "b"]), NUMBERED]


def taking(kind: Any, log: list[Any]) -> Any:
    """Return a tool "work" that needs approval, takes an *x* of *kind*, and writes it to *log*."""

    async def work(x: Any) -> str:
        """Work on x."""
        log.append(x)
        return "ok"

    work.__annotations__ = {"x": kind, "return": str}
    return tool(approval=True)(work)


@pytest.mark.parametrize("edited", [False, True], ids=["as it is", "edited"])
@pytest.mark.parametrize(("kind", "value"), ODD, ids=["set", "frozenset", "int keys"])
async def test_it_runs_once_it_is_approved(how: str, kind: Any, value: Any, edited: bool) -> None:
    log: list[Any] = []
    turns = (calls(("work", {"x": value})), text("done"))
    first = await paused(how, agent(*turns, tools=[taking(kind, log)], store=MemoryStore()))
    after = await by_id(first, answers_to(first, Approved({"x": value} if edited else None)))
    assert (after.result.status, len(log)) == ("finished", 1)


async def test_always_for_its_arguments_spares_the_next_question(how: str) -> None:
    kind, value = NUMBERED
    turns = [calls(("work", {"x": value})), text("done")] * 2
    made = agent(*turns, tools=[taking(kind, [])], store=MemoryStore())
    first = await paused(how, made, thread_id="t1")
    await by_id(first, answers_to(first, Approved(always="arguments")))
    assert (await play(how, made, thread_id="t1")).result.status == "finished"
