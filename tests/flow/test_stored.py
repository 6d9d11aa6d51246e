"""Stored reports on the same page: `interpose flow`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.flow.client import ask, page

from interpose import Agent, InterposeError
from interpose.cli import main
from interpose.flow.shelf import Shelf
from interpose.report import Report
from interpose.testing import ScriptedModel, calls, text

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


async def look(where: str) -> str:
    """Look somewhere."""
    if where == "down":
        raise OSError("dark")
    return f"nothing {where}"


async def report(folder: Path, name: str = "scout") -> str:
    """Write a report of one run, and return its id."""
    inner = Agent(ScriptedModel(text("found")), name="inner").as_tool("ask", "Ask.")
    asked = calls(("look", {"where": "left"}), ("look", {"where": "down"}), ("ask", {"prompt": "p"}))
    agent = Agent(ScriptedModel(asked, text("done")), tools=[look, inner], middleware=[Report(folder)], name=name)
    async with agent:
        return (await agent.run("go")).run_id


@contextmanager
def command(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `interpose flow` on a folder, and yield the process and the port that it says."""
    arguments = [sys.executable, "-m", "interpose.cli", "flow", str(folder), "--port", "0", *options]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", first)
        assert found, first + process.stdout.read()
        yield process, int(found[1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_stored_runs_are_shown_as_live_ones_are(tmp_path: Path) -> None:
    ids = [await report(tmp_path, name) for name in ("first", "second")]
    with command(tmp_path) as (_, port):
        runs = (await ask(port, "/api/runs")).json["runs"]
        assert [(run["id"], run["name"], run["status"]) for run in runs] == [
            (ids[1], "second", "ok"),
            (ids[0], "first", "ok"),
        ]
        whole = (await ask(port, f"/api/runs/{ids[0]}")).json
        assert whole["run"]["nodes"] == runs[1]["nodes"] == len(whole["events"])
        assert [event["seq"] for event in whole["events"]] == list(range(len(whole["events"])))
        known: set[str | None] = {None}
        for event in whole["events"]:
            assert event["parent_id"] in known, "a node comes after the one above it"
            known.add(event["id"])
        model = next(event for event in whole["events"] if event["kind"] == "model")
        assert [message["text"] for message in model["content"]["in"]["messages"]] == ["go"]
        failed = [event for event in whole["events"] if event["status"] == "error"]
        assert [(event["name"], "dark" in event["error"]) for event in failed] == [("look", True)]
        assert (await ask(port, "/api/search?run=" + ids[0] + "&q=nothing%20left")).json["seqs"]
        async with page(port) as stream:
            assert (await stream.frame()).data["current"] == ids[1]


async def test_report_that_is_written_meanwhile_appears(tmp_path: Path) -> None:
    await report(tmp_path, "first")
    with command(tmp_path) as (_, port):
        async with page(port) as stream:
            await stream.frame()
            run_id = await report(tmp_path, "second")
            frame = (await stream.until("run"))[-1]
    assert (frame.data["id"], frame.data["name"]) == (run_id, "second")


async def test_ctrl_c_ends_the_command(tmp_path: Path) -> None:
    await report(tmp_path)
    with command(tmp_path) as (process, port):
        async with page(port) as stream:
            await stream.frame()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130


async def test_token_is_in_the_address_that_is_printed(tmp_path: Path) -> None:
    await report(tmp_path)
    with command(tmp_path, "--token", "sesame") as (_, port):
        assert (await ask(port, "/api/runs")).status == 401
        assert (await ask(port, "/?token=sesame")).status == 303


async def test_report_that_is_broken_is_passed_over(tmp_path: Path) -> None:
    run_id, other = await report(tmp_path, "broken"), await report(tmp_path, "whole")
    path = tmp_path / run_id / "report.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "nodes": 7}), "utf-8")
    (tmp_path / "stray").mkdir()
    (tmp_path / "stray" / "report.json").write_text("{", "utf-8")
    with command(tmp_path) as (_, port):
        assert (await ask(port, f"/api/runs/{run_id}")).status == 404
        assert (await ask(port, f"/api/runs/{other}")).status == 200


@pytest.mark.parametrize("run", ["../../secret", "/etc/passwd", "last", ""])
async def test_only_runs_that_are_listed_can_be_read(tmp_path: Path, run: str) -> None:
    await report(tmp_path / "reports")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "report.json").write_text("{}", "utf-8")
    with command(tmp_path / "reports") as (_, port):
        assert (await ask(port, f"/api/event?run={run}&seq=0")).status == 404


async def test_empty_folder_is_a_page_without_runs(tmp_path: Path) -> None:
    with command(tmp_path) as (_, port):
        assert (await ask(port, "/api/runs")).json == {"runs": []}


def test_folder_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flow", str(tmp_path / "nowhere")]) == 1
    assert "is no folder" in " ".join(capsys.readouterr().err.split())


def test_port_in_use_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        assert main(["flow", str(tmp_path), "--port", str(port)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"port {port} on 127.0.0.1 is in use" in said


class Library:
    """Stored runs that a test writes."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.read: list[str] = []

    def runs(self) -> list[Mapping[str, Any]]:
        return [{"id": name, "name": name, "status": "ok", "started_at": 1.0} for name in self.names]

    def nodes(self, run: str) -> list[Mapping[str, Any]]:
        self.read.append(run)
        if run == "broken":
            raise InterposeError("it is no report")
        return [{"kind": "run", "name": run, "run_id": run, "id": "n0", "started_at": 1.0}]


def shelf_of(library: Library) -> Shelf:
    shelf = Shelf(library.runs, library.nodes)
    shelf.refresh()
    return shelf


def test_run_is_read_when_it_is_looked_at_and_only_a_few_are_kept() -> None:
    library = Library(*(f"run {number}" for number in range(10)))
    shelf = shelf_of(library)
    assert library.read == []
    for name in [*library.names, "run 9", "run 0"]:
        assert shelf.find(name) is not None
    assert library.read == [*library.names, "run 0"]


def test_run_whose_end_was_never_written_is_not_running() -> None:
    log = shelf_of(Library("cut")).find("cut")
    assert log is not None
    assert (log.status, log.outcome) == ("error", "lost")


def test_newest_run_that_cannot_be_read_still_gives_a_page() -> None:
    frame, run = shelf_of(Library("broken", "whole")).snapshot()
    assert run == "broken"
    assert [one["id"] for one in json.loads(frame.data)["runs"]] == ["broken", "whole"]


def test_only_new_runs_are_told() -> None:
    library = Library("a")
    shelf = shelf_of(library)
    assert not shelf.refresh()
    library.names.insert(0, "b")
    assert shelf.refresh()
    frames, cursor = shelf.since(1) or ([], 0)
    assert [json.loads(frame.data)["id"] for frame in frames] == ["b"]
    assert shelf.since(cursor) == ([], cursor)
    assert shelf.since(cursor + 1) is None


def test_many_stored_runs_are_listed_quickly() -> None:
    library = Library(*(f"run {number}" for number in range(2000)))
    started = time.process_time()
    shelf_of(library).snapshot()
    assert time.process_time() - started < 1


async def test_list_counts_the_errors_of_a_stored_run_as_of_a_live_one(tmp_path: Path) -> None:
    await report(tmp_path)
    with command(tmp_path) as (_, port):
        (run,) = (await ask(port, "/api/runs")).json["runs"]
    assert run["errors"] == 1
