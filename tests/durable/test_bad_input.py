"""What does not fit is refused at once, with what to change."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.durable.conftest import Place

from interpose import Agent, ConfigurationError
from interpose.durable.dbos import DBOSAgents, DBOSSteps
from interpose.durable.options import old_sqlite
from interpose.testing import ScriptedModel, text


def agent() -> Agent[Any]:
    return Agent(ScriptedModel(*[text("x")] * 5))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (None, "takes agents by name, such as {'researcher': Agent(...)}; got NoneType"),
        ({}, "got none"),
        ([1], "got list"),
        ({"a": "openai:gpt-5.5"}, "got 'a': str"),
        ({"": agent()}, "got '': Agent"),
        ({1: agent()}, "got 1: Agent"),
    ],
    ids=["None", "empty", "list", "text", "no name", "number"],
)
def test_agents_are_given_by_name(given: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(what)):
        DBOSAgents(given)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"database_url": "mysql://x/y"}, "expected 'postgresql://user@host/database' or 'sqlite:///file.db'"),
        ({"database_url": "file.db"}, "expected 'postgresql://user@host/database' or 'sqlite:///file.db'"),
        ({"database_url": "sqlite://"}, "is in memory, and nothing there outlives the process"),
        ({"worker_concurrency": 0}, "worker_concurrency=0: expected a whole number of runs, 1 or more"),
        ({"worker_concurrency": True}, "worker_concurrency=True: expected a whole number"),
        ({"concurrency": 2.5}, "concurrency=2.5: expected a whole number"),
        ({"concurrency": 2, "worker_concurrency": 5}, "concurrency=2 is below worker_concurrency=5"),
        ({"queue": ""}, "queue='': expected a name"),
        ({"queue": "_dbos_mine"}, "expected a name that does not begin with '_dbos_'"),
        ({"app": "My App"}, "app='My App': expected 3 to 256 lower-case letters"),
        ({"version": ""}, "version='': expected a text"),
        ({"version": 2}, "version=2: expected a text"),
        ({"executor": "a/b"}, "executor='a/b': expected letters, digits"),
        ({"poll_s": 0}, "poll_s=0: expected seconds, above 0"),
        ({"poll_s": float("nan")}, "poll_s=nan: expected seconds"),
        ({"options": {"executor_id": "x"}}, "options={'executor_id': ...} is set by an argument of its own"),
    ],
    ids=lambda one: ",".join(one) if isinstance(one, dict) else None,
)
def test_options_are_checked_when_they_are_given(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(what)):
        DBOSAgents({"a": agent()}, **options)


async def test_process_has_one_of_them_at_a_time(sqlite: Place, tmp_path: Path) -> None:
    async with DBOSAgents({"a": agent()}, database_url=sqlite.url):
        with pytest.raises(ConfigurationError, match="DBOS runs in this process already"):
            await DBOSAgents({"b": agent()}, database_url=f"sqlite:///{tmp_path}/other.db").launch()


async def test_use_before_launch_is_told(sqlite: Place) -> None:
    agents = DBOSAgents({"a": agent()}, database_url=sqlite.url)
    with pytest.raises(ConfigurationError, match=re.escape("are not launched: use `async with agents:`")):
        await agents.submit("a", "go")
    with pytest.raises(ConfigurationError, match="are not launched"):
        await agents.handle("r1").result()
    with pytest.raises(ConfigurationError, match="are not launched"):
        await agents.resume("r1", {})
    with pytest.raises(ConfigurationError, match="are not launched"):
        async with agents.stream("a", "go"):
            pass


@pytest.mark.usefixtures("sqlite")
async def test_file_that_is_no_database_is_told_and_nothing_is_left_running(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.write_text("no database at all, but long enough to be read as one" * 20)
    agents = DBOSAgents({"a": agent()}, database_url=f"sqlite:///{file}")
    with pytest.raises(ConfigurationError, match="the file cannot be used"):
        await agents.launch()
    async with DBOSAgents({"a": agent()}, database_url=f"sqlite:///{tmp_path}/y.db") as others:
        assert (await others.run("a", "go")).text == "x"


@pytest.mark.usefixtures("sqlite")
async def test_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the file cannot be used: unable to open database file"):
        await DBOSAgents({"a": agent()}, database_url=f"sqlite:///{tmp_path}/none/x.db").launch()


async def test_database_out_of_reach_is_told(tmp_path: Path) -> None:
    agents = DBOSAgents({"a": agent()}, database_url=f"postgresql://nobody@/nothing?host={tmp_path}")
    with pytest.raises(ConfigurationError, match="the database cannot be reached"):
        await agents.launch()


@pytest.mark.parametrize(
    ("arguments", "options", "what"),
    [
        (("b", "go"), {}, "there is no agent 'b'; this process has: 'a'"),
        (("a", "go"), {"run_id": ""}, "run_id must be a text that is not empty, or None; got ''"),
        (("a", "go"), {"run_id": " "}, "run_id must be a text"),
        (("a", "go"), {"run_id": 7}, "run_id must be a text"),
        (("a", "go"), {"thread_id": ""}, "thread_id must be a text"),
        (("a", "go"), {"context": object()}, "context= of a durable run travels as JSON, which this is not"),
        (("a", "go"), {"context": {1: {2}, (1, 2): 3}}, "context= of a durable run travels as JSON"),
    ],
    ids=["agent", "empty id", "blank id", "id", "thread", "object", "keys"],
)
async def test_submission_that_does_not_fit_is_refused(
    sqlite: Place, arguments: Any, options: dict[str, Any], what: str
) -> None:
    async with DBOSAgents({"a": agent()}, database_url=sqlite.url) as agents:
        with pytest.raises(ConfigurationError, match=re.escape(what)):
            await agents.submit(*arguments, **options)
        with pytest.raises(ConfigurationError, match=re.escape(what)):
            agents.stream(*arguments, **options)


async def test_prompt_that_is_none_is_refused(sqlite: Place) -> None:
    async with DBOSAgents({"a": agent()}, database_url=sqlite.url) as agents:
        with pytest.raises(TypeError, match="expected a prompt or a list of messages, got int"):
            await agents.submit("a", 7)
        with pytest.raises(ValueError, match="role"):
            await agents.submit("a", [{"role": "nobody", "content": "x"}])


async def test_run_that_is_not_there_is_told(sqlite: Place) -> None:
    async with DBOSAgents({"a": agent()}, database_url=sqlite.url) as agents:
        handle = agents.handle("r9")
        for act in (handle.result, handle.status, handle.cancel):
            with pytest.raises(LookupError, match="there is no run 'r9'"):
                await act()


async def test_steps_outside_a_workflow_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="is no workflow: start it with"):
        await agent().run("go", middleware=[DBOSSteps()])


async def test_run_of_an_agent_that_is_gone_fails_and_says_so(sqlite: Place) -> None:
    async with DBOSAgents({"gone": agent()}, database_url=sqlite.url, worker=False) as agents:
        await agents.submit("gone", "go", run_id="r1")
    async with DBOSAgents({"a": agent()}, database_url=sqlite.url) as agents:
        with pytest.raises(ConfigurationError, match="has no agent 'gone'; give all the same"):
            await agents.handle("r1").result()


async def test_damaged_record_fails_the_run_and_says_which(sqlite: Place) -> None:
    async with DBOSAgents({"a": agent()}, database_url=sqlite.url, worker=False) as agents:
        await agents.submit("a", "go", run_id="r1")
        file = sqlite.url.removeprefix("sqlite:///")
        with sqlite3.connect(file) as database:
            name = "model:0:agent:scripted/scripted#0"
            values = ("r1", 1, name, "[not json", "portable_json")
            columns = "workflow_uuid, function_id, function_name, output, serialization"
            database.execute(f"INSERT INTO operation_outputs ({columns}) VALUES (?, ?, ?, ?, ?)", values)
        database.close()
    async with DBOSAgents({"a": agent()}, database_url=sqlite.url) as agents:
        with pytest.raises(Exception, match="record 'model:0:agent:scripted/scripted#0' of run 'r1' is damaged"):
            await agents.handle("r1").result()


@pytest.mark.parametrize(
    ("python", "sqlite", "is_refused"),
    [((3, 11), (3, 40), False), ((3, 12), (3, 40), True), ((3, 13), (3, 41), True), ((3, 13), (3, 42), False)],
)
def test_sqlite_that_is_too_old_is_told_with_a_way_out(
    python: tuple[int, int], sqlite: tuple[int, int], is_refused: bool
) -> None:
    told = old_sqlite(python, sqlite)
    assert (told is not None) is is_refused
    if told is not None:
        assert f"needs SQLite 3.42 on Python 3.12 and newer, and here is 3.{sqlite[1]}" in told
        assert "use postgresql://" in told
