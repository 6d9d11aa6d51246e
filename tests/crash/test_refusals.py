"""A killed run's checkpoint that is cut, of a newer release or of another agent: refused with what differs."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.crash.diary import Diary
from tests.crash.played import KILLED, Nursery
from tests.crash.stories import STORIES

from interpose import Agent, Middleware, ResumeError, tool
from interpose.stores import SQLStore


class Dead:
    """A run that was killed, on a SQLite file."""

    def __init__(self, story: str, at: str, folder: Path, nursery: Nursery) -> None:
        self.path = folder / "store.db"
        self.url = f"sqlite:///{self.path}"
        self._diary = folder / "diary"
        self._story = story
        job = {"story": story, "url": self.url, "diary": str(self._diary), "dies_at": at, "number": 0}
        assert nursery.live(job | {"given": "Go", "options": {"run_id": "r1", "thread_id": "t1"}}) == KILLED

    def execute(self, sql: str) -> None:
        """Change the database."""
        with sqlite3.connect(self.path) as connection:
            assert connection.execute(sql).rowcount != 0
        connection.close()

    def content(self) -> list[str]:
        """Return all that is in the database."""
        connection = sqlite3.connect(self.path)
        found = list(connection.iterdump())
        connection.close()
        return found

    async def resumed(self, change: Callable[[Agent[Any]], Agent[Any]] = lambda agent: agent) -> str:
        """Resume it with the agent that ran it, or with what *change* makes of that; return what the result says."""
        async with SQLStore(self.url) as store:
            return (await change(STORIES[self._story](Diary(self._diary), store=store)).resume("r1")).text

    async def refused(self, change: Callable[[Agent[Any]], Agent[Any]] = lambda agent: agent) -> str:
        """Resume it, which must be refused, and change nothing in the database and the world; return what it says."""
        before, lines = self.content(), self._diary.read_text()
        with pytest.raises(ResumeError) as refusal:
            await self.resumed(change)
        assert self.content() == before
        assert self._diary.read_text() == lines
        return str(refusal.value)


@pytest.fixture
def dead(tmp_path: Path, nurseries: list[Nursery]) -> Dead:
    return Dead("steps", "agent said step 2 begins", tmp_path, nurseries[0])


@pytest.mark.parametrize("part", [0, 1, 3])
async def test_checkpoint_that_is_cut_is_refused_and_goes_on_when_it_is_whole(part: int, dead: Dead) -> None:
    where = f"WHERE run_id = 'r1' AND part = {part}"
    dead.execute(f"CREATE TABLE kept AS SELECT * FROM interpose_parts {where}")
    dead.execute(f"UPDATE interpose_parts SET data = substr(data, 1, length(data) / 2) {where}")
    assert "run 'r1' cannot be gone on with" in await dead.refused()
    dead.execute(f"UPDATE interpose_parts SET data = (SELECT data FROM kept) {where}")
    assert await dead.resumed() == "done"


async def test_checkpoint_without_its_beginning_is_refused(dead: Dead) -> None:
    dead.execute("DELETE FROM interpose_parts WHERE run_id = 'r1' AND part = 0")
    assert "first part" in await dead.refused()


async def test_newer_checkpoint_is_refused_with_both_versions(dead: Dead) -> None:
    newer = "UPDATE interpose_parts SET data = replace(data, '\"version\":1', '\"version\":9') WHERE part = 2"
    dead.execute(newer)
    said = await dead.refused()
    assert "version 9" in said
    assert "up to 1" in said
    dead.execute(newer.replace(":1", ":0").replace(":9", ":1").replace(":0", ":9"))
    assert await dead.resumed() == "done"


@tool(name="mail")
async def other_mail(n: int, to: str) -> str:
    """Mail it to somebody."""
    return f"mailed {n} to {to}"


def without_mail(agent: Agent[Any]) -> Agent[Any]:
    return agent.copy(tools=[one for one in agent.tools if one.name != "mail"])


def with_other_mail(agent: Agent[Any]) -> Agent[Any]:
    return agent.copy(tools=[other_mail if one.name == "mail" else one for one in agent.tools])


async def test_agent_with_other_tools_is_refused_with_what_differs_and_the_right_one_goes_on(dead: Dead) -> None:
    assert "tool 'mail' is gone" in await dead.refused(without_mail)
    assert "tool 'mail' takes other arguments now" in await dead.refused(with_other_mail)
    assert await dead.resumed() == "done"


async def test_agent_with_more_tools_may_go_on(dead: Dead) -> None:
    assert await dead.resumed(lambda agent: agent.copy(tools=[*agent.tools, other_mail.renamed("send")])) == "done"


async def test_helper_with_other_tools_is_refused_with_what_differs(tmp_path: Path, nurseries: list[Nursery]) -> None:
    dead = Dead("nested", "helper said step 101 begins", tmp_path, nurseries[0])

    def changed(agent: Agent[Any]) -> Agent[Any]:
        (ask,) = [one for one in agent.tools if one.agent is not None]
        helper = without_mail(ask.agent)
        return agent.copy(tools=[*[one for one in agent.tools if one is not ask], helper.as_tool("helper", "Helps.")])

    assert "'mail' is gone" in await dead.refused(changed)
    assert "that this one does not have any more" in await dead.refused(
        lambda agent: agent.copy(tools=[one.replace(agent=None) for one in agent.tools])
    )
    assert await dead.resumed() == "done"


class Remembers(Middleware[Any]):
    saved = True

    def before_model_call(self, ctx: Any, request: Any) -> None:
        ctx.private(self)["calls"] = ctx.private(self).get("calls", 0) + 1


async def test_saved_state_of_another_version_is_refused_with_both(dead: Dead) -> None:
    class Other(Remembers):
        name = "Remembers"
        state_version = 2

    async with SQLStore(dead.url) as store:
        checkpoint = await store.get("r1")
        assert checkpoint is not None
    part = checkpoint.part + 1
    data = f'{{"version":1,"run_id":"r1","part":{part},"number":{checkpoint.number},"phase":"{checkpoint.phase}",'
    data += '"private":{"Remembers":{"version":1,"data":{"calls":2}}}}'
    dead.execute(f"INSERT INTO interpose_parts VALUES ('r1', {part}, '{data}')")
    assert "middleware 'Remembers', which saved state, is gone" in await dead.refused()
    assert "saved state of version 1, now it is 2" in await dead.refused(lambda a: a.copy(middleware=[Other()]))
    assert await dead.resumed(lambda agent: agent.copy(middleware=[Remembers()])) == "done"
