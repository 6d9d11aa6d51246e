"""Each run becomes files that stand alone; the index lists all, also of several processes; no run is harmed."""

import asyncio
import json
import logging
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo

from interpose import Agent, ConfigurationError, Middleware, Node, Usage
from interpose.report import Report, find_run, stored_runs
from interpose.report.files import folder_name
from interpose.report.index import add_to_index
from interpose.report.page import data_of
from interpose.testing import ScriptedModel, calls, fail, make_context, text

ONE = ("echo", {"x": "1"})
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def listed(folder: Path) -> list[dict[str, Any]]:
    """The runs on the index page, newest first."""
    runs: list[dict[str, Any]] = json.loads(data_of((folder / "index.html").read_bytes()))["runs"]
    return runs


def texts(folder: Path) -> list[str]:
    """What is in the files below *folder*."""
    return [path.read_text() for path in folder.rglob("*") if path.is_file()]


async def test_run_leaves_a_report_a_page_and_an_index(tmp_path: Path) -> None:
    used = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    turns = [calls(ONE, usage=used), text("x", usage=used)]
    result = await agent_of(*turns, tools=[echo], middleware=[Report(tmp_path)], name="sums").run("go")
    folder = tmp_path / result.run_id
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "report.json"]
    document = json.loads((folder / "report.json").read_text())
    assert json.loads(data_of((folder / "index.html").read_bytes())) == document
    (run,) = listed(tmp_path)
    assert run.pop("folder") == result.run_id
    assert run == document["run"]
    figures = [run[name] for name in ("id", "name", "outcome", "steps", "model_calls", "tool_calls", "nodes")]
    assert figures == [result.run_id, "sums", "finished", 2, 2, 1, 6]
    assert run["usage"]["cost_usd"] == 1.0


async def test_both_ways_of_running_leave_the_same_nodes(tmp_path: Path) -> None:
    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Report(tmp_path)]))
    assert played.result.text == "x"
    shapes = [
        [(node["kind"], node["name"], node["status"]) for node in find_run(tmp_path, run["id"]).nodes]
        for run in stored_runs(tmp_path)
    ]
    assert len(shapes) == 2
    assert shapes[0] == shapes[1]


async def test_shared_messages_stand_once_and_are_whole_when_read(tmp_path: Path) -> None:
    turns = [calls(("echo", {"x": f"call {n}"})) for n in range(20)]
    result = await agent_of(*turns, text("x"), tools=[echo], middleware=[Report(tmp_path)]).run("go")
    document = json.loads((tmp_path / result.run_id / "report.json").read_text())
    assert (len(document["messages"]), len(document["tools"])) == (41, 1)
    last = [node for node in find_run(tmp_path, result.run_id).nodes if node["kind"] == "model"][-1]
    assert [message["text"] for message in last["in"]["messages"]][:3] == ["go", "", "call 0"]
    assert len(last["in"]["messages"]) == 41
    assert last["in"]["tools"][0]["name"] == "echo"


async def test_nested_runs_stand_in_the_report_of_the_outermost(tmp_path: Path) -> None:
    report = Report(tmp_path)
    child = agent_of(text("c"), name="inner", middleware=[report]).as_tool("child", "Child.")
    agent = agent_of(calls(("child", {"prompt": "p"})), text("x"), tools=[child], middleware=[report], name="outer")
    result = await agent.run("go")
    assert [run["name"] for run in stored_runs(tmp_path)] == ["outer"]
    names = [node["name"] for node in find_run(tmp_path, result.run_id).nodes if node["kind"] == "run"]
    assert names == ["outer", "inner"]
    assert report._runs == {}


async def test_password_in_an_error_is_in_no_file_and_the_model_read_it(tmp_path: Path) -> None:
    async def breaks() -> str:
        """Break."""
        raise OSError("cannot reach postgres://bob:hunter2@db.example.com/x")

    result = await agent_of(calls("breaks"), text("x"), tools=[breaks], middleware=[Report(tmp_path)]).run("go")
    assert not any("hunter2" in one for one in texts(tmp_path))
    assert "bob:[REDACTED]@db.example.com" in (tmp_path / result.run_id / "report.json").read_text()
    assert "hunter2" in result.messages[2].text


async def test_without_content_the_structure_alone_is_told(tmp_path: Path) -> None:
    class Notes(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            ctx.meta(said="whisper", tries=3)
            return request.append_instructions("whisper")

    async def breaks() -> str:
        """Break."""
        raise OSError("whisper")

    report = Report(tmp_path, content=False)
    agent = agent_of(calls("breaks", text="whisper"), text("whisper"), tools=[breaks], middleware=[report, Notes()])
    result = await agent.run("whisper")
    raw = (tmp_path / result.run_id / "report.json").read_text()
    assert "whisper" not in raw
    model = next(node for node in json.loads(raw)["nodes"] if node["kind"] == "model")
    assert model["changes"] == [{"middleware": "Notes", "hook": "before_model_call", "field": "instructions"}]
    assert model["meta"] == {"tries": 3}
    assert next(node["error"] for node in json.loads(raw)["nodes"] if node["kind"] == "tool") == "OSError"


@pytest.mark.parametrize("said", ["whisper: no", "whisper", "Whisper"])
async def test_report_without_content_leaves_out_what_a_refusal_says(tmp_path: Path, said: str) -> None:
    class Refuses(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.refuse(said)

    report = Report(tmp_path, content=False)
    result = await agent_of(calls(ONE), text("x"), tools=[echo], middleware=[report, Refuses()]).run("go")
    nodes = find_run(tmp_path, result.run_id).nodes
    assert [node["error"] for node in nodes if node["kind"] == "tool"] == ["error"]


async def test_reader_that_changes_what_it_is_shown_loses_nobody_the_report(tmp_path: Path) -> None:
    class Changes(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            if node.content and node.kind == "model":
                node.content.clear()

    result = await agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Changes(), Report(tmp_path)]).run("go")
    nodes = find_run(tmp_path, result.run_id).nodes
    assert [(node["kind"], node["out"] is not None) for node in nodes[2:4]] == [("model", False), ("tool", True)]


async def test_failed_and_aborted_runs_leave_reports_too(tmp_path: Path) -> None:
    class Aborts(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> None:
            ctx.abort("enough")

    for agent in (agent_of(fail(ValueError("broke")), middleware=[Report(tmp_path)]),
                  agent_of(text("x"), middleware=[Report(tmp_path), Aborts()])):  # fmt: skip
        with pytest.raises(Exception, match="broke|enough"):
            await agent.run("go")
    assert sorted(run["outcome"] for run in listed(tmp_path)) == ["aborted", "failed"]


async def test_markup_in_names_and_texts_stays_text(tmp_path: Path) -> None:
    agent = agent_of(calls((HOSTILE[:40], {"x": HOSTILE})), text(HOSTILE), tools=[echo], name=HOSTILE)
    agent = agent.copy(middleware=[Report(tmp_path)])
    result = await agent.run(HOSTILE)
    for page in (tmp_path / result.run_id / "index.html", tmp_path / "index.html"):
        markup = page.read_text()
        assert "<img" not in markup
        assert markup.count("</script>") == 2
    assert find_run(tmp_path, result.run_id).summary["name"] == HOSTILE


IDS = [
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "index.html",
    ".hidden",
    "con",
    "x" * 300,
    "täglich · 7",
    "a\x00b",
    "..",
    "%41",
]


@pytest.mark.parametrize("run_id", IDS, ids=lambda value: value[:12].encode("unicode_escape").decode())
async def test_any_run_id_becomes_a_folder_of_its_own(tmp_path: Path, run_id: str) -> None:
    folder = tmp_path / "reports"
    await agent_of(text("x"), middleware=[Report(folder)]).run("go", run_id=run_id)
    assert find_run(folder, run_id).id == run_id
    assert os.listdir(tmp_path) == ["reports"]
    assert (folder / folder_name(run_id) / "report.json").is_file()


def test_folder_names_of_different_runs_differ() -> None:
    names = [folder_name(one) for one in (*IDS, "%2E.", "a%2Fb", "x" * 301, "%index.html")]
    assert len(set(names)) == len(names)
    assert not any("/" in name or name.startswith(".") or len(name) > 120 for name in names)


@pytest.mark.parametrize("run_id", ["con", "AUX.json", "Com1", "nul"])
def test_folder_is_not_named_like_a_device_of_windows(run_id: str) -> None:
    assert folder_name(run_id) == f"%{run_id}"


async def test_runs_at_once_are_all_listed(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel(*[text("x")] * 30), middleware=[Report(tmp_path)])
    results = await asyncio.gather(*[agent.run("go") for _ in range(30)])
    assert {run["id"] for run in listed(tmp_path)} == {result.run_id for result in results}


PROCESS = """
import asyncio, sys
from interpose import Agent
from interpose.report import Report
from interpose.testing import ScriptedModel, text

async def main():
    agent = Agent(ScriptedModel(*[text("x")] * 15), middleware=[Report(sys.argv[1])], name=sys.argv[2])
    for _ in range(15):
        await agent.run("go")
    await agent.aclose()

asyncio.run(main())
"""


def test_several_processes_write_one_index(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    processes = [subprocess.Popen([*command, f"process {n}"]) for n in range(4)]
    assert [process.wait(50) for process in processes] == [0] * 4
    runs = listed(tmp_path)
    assert len(runs) == 60
    assert {run["name"] for run in runs} == {f"process {n}" for n in range(4)}
    assert {run["id"] for run in runs} == {run["id"] for run in stored_runs(tmp_path)}
    assert [path.name for path in tmp_path.rglob(".*")] == [".lock"]


async def test_index_that_was_lost_or_broken_is_made_anew(tmp_path: Path) -> None:
    agent = agent_of(*[text("x")] * 3, middleware=[Report(tmp_path)])
    await agent.run("go")
    (tmp_path / "index.html").write_text("broken")
    await agent.run("go")
    assert len(listed(tmp_path)) == 2
    (tmp_path / "index.html").unlink()
    await agent.run("go")
    assert len(listed(tmp_path)) == 3


async def test_run_whose_folder_was_removed_leaves_the_index(tmp_path: Path) -> None:
    agent = agent_of(text("x"), text("y"), middleware=[Report(tmp_path)])
    first = await agent.run("go")
    for path in (tmp_path / first.run_id).iterdir():
        path.unlink()
    (tmp_path / first.run_id).rmdir()
    second = await agent.run("go")
    assert [run["id"] for run in listed(tmp_path)] == [second.run_id]


def test_index_passes_over_what_is_no_report(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "report.json").write_text('{"run": {"id": 3}}')
    (tmp_path / "note.txt").write_text("mine")
    add_to_index(tmp_path, [])
    assert listed(tmp_path) == []
    assert stored_runs(tmp_path) == []


async def test_folder_that_cannot_be_written_is_told_once_and_runs_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file in the way")
    agent = agent_of(text("a"), text("b"), middleware=[Report(tmp_path / "taken" / "reports")])
    assert [(await agent.run("go")).text for _ in range(2)] == ["a", "b"]
    (record,) = caplog.records
    assert "taken" in record.getMessage()
    assert "Report another one" in record.getMessage()


FULL = """
import asyncio, logging, resource, signal, sys
from interpose import Agent
from interpose.report import Report
from interpose.testing import ScriptedModel, text

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
logging.basicConfig(stream=sys.stdout, format="%(message)s")
agent = Agent(ScriptedModel(text("a"), text("b")), middleware=[Report(sys.argv[1])])
print(agent.run_sync("go").text, agent.run_sync("go").text)
"""


def test_disk_without_room_leaves_nothing_half_written(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=50)
    assert ran.returncode == 0, ran.stderr
    first, *others = ran.stdout.splitlines()
    assert "File too large" in first
    assert others == ["a b"]
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"]
    assert all(json.loads(path.read_text())["format"] for path in left)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may become somebody else")
def test_folder_of_somebody_else_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    code = textwrap.dedent("""
        import logging, os, sys
        from interpose import Agent
        from interpose.report import Report
        from interpose.testing import ScriptedModel, text
        os.seteuid(65534)
        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        agent = Agent(ScriptedModel(text("a"), text("b")), middleware=[Report(sys.argv[1])])
        print(agent.run_sync("go").text, agent.run_sync("go").text)
    """)
    ran = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=50)
    assert [line.partition(":")[0] for line in ran.stdout.splitlines()][-1] == "a b"
    assert ran.stdout.count("Permission denied") == 1


@pytest.mark.parametrize("given", ["", None, 3])
def test_what_is_no_folder_is_refused_at_once(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="Report takes the folder"):
        Report(given)


async def test_huge_and_binary_results_make_no_huge_report(tmp_path: Path) -> None:
    async def dump() -> Any:
        """Dump."""
        return {"rows": ["x" * 100] * 20_000}

    async def blob() -> Any:
        """Blob."""
        return bytes(range(256)) * 4000

    turns = [calls("dump", "blob"), text("x")]
    result = await agent_of(*turns, tools=[dump, blob], middleware=[Report(tmp_path)]).run("go")
    assert (tmp_path / result.run_id / "report.json").stat().st_size < 250_000


async def test_forked_process_writes_with_a_thread_of_its_own(tmp_path: Path) -> None:
    report = Report(tmp_path)
    await agent_of(text("x"), middleware=[report]).run("go")
    report._process = -1  # as it looks to a process that was forked after that
    await agent_of(text("x"), middleware=[report]).run("go")
    assert len(listed(tmp_path)) == 2


async def test_report_says_nothing_while_all_is_well(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "interpose"):
        async with agent_of(text("x"), middleware=[Report(tmp_path)]) as agent:
            await agent.run("go")
    assert caplog.records == []


def test_node_that_outlives_its_run_is_passed_over(tmp_path: Path) -> None:
    node = Node("end", kind="tool", name="stubborn", run_id="r", id="tool_1", parent_id="step_1")
    assert Report(tmp_path).on_node(make_context(), node) is None
