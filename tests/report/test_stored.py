"""Reports are found by id, by the beginning of one, as the last, or by path; what does not fit is said."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.layers.play import agent_of, echo

from interpose.errors import InterposeError
from interpose.report import Report, compare, find_run, stored_runs
from interpose.testing import calls, text


async def reported(folder: Path, run_id: str, *turns: Any, **options: Any) -> None:
    await agent_of(*turns, middleware=[Report(folder)], **options).run("go", run_id=run_id)


async def test_run_is_found_in_every_way_that_is_said(tmp_path: Path) -> None:
    for run_id in ("alpha", "beta"):
        await reported(tmp_path, run_id, text("x"))
    names = ["alpha", "al", str(tmp_path / "alpha"), str(tmp_path / "alpha" / "report.json")]
    assert [find_run(tmp_path, name).id for name in names] == ["alpha"] * 4
    assert find_run(tmp_path, "last").id == "beta"
    assert [run["id"] for run in stored_runs(tmp_path)] == ["beta", "alpha"]


async def test_what_fits_none_or_several_is_refused_with_what_there_is(tmp_path: Path) -> None:
    for run_id in ("run_a1", "run_a2"):
        await reported(tmp_path, run_id, text("x"))
    with pytest.raises(InterposeError, match="fits several runs.*run_a1"):
        find_run(tmp_path, "run_a")
    with pytest.raises(InterposeError, match="is no run in.*run_a2"):
        find_run(tmp_path, "run_b")
    with pytest.raises(InterposeError, match="no folder"):
        stored_runs(tmp_path / "nowhere")


BROKEN = {
    "no JSON": ("{", "is no report"),
    "another shape": ('{"format": "interpose-report/1"}', "is no report"),
    "a later format": ('{"format": "interpose-report/9"}', "this release reads"),
    "a list": ("[]", "is no report"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_report_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(InterposeError, match=re.escape(message)):
        find_run(tmp_path, str(path))


async def differences(tmp_path: Path, first: list[Any], second: list[Any], **options: Any) -> list[tuple[str, ...]]:
    await reported(tmp_path, "one", *first, tools=[echo])
    await reported(tmp_path, "two", *second, tools=[echo], **options)
    return [tuple(found) for found in compare(find_run(tmp_path, "one"), find_run(tmp_path, "two"))]


async def test_equal_runs_do_not_differ(tmp_path: Path) -> None:
    turns = [calls(("echo", {"x": "1"})), text("x")]
    assert await differences(tmp_path, turns, turns) == []


async def test_differences_are_told_step_by_step(tmp_path: Path) -> None:
    first = [calls(("echo", {"x": "1"})), text("one")]
    second = [calls(("echo", {"x": "2"})), text("two")]
    found = await differences(tmp_path, first, second)
    assert ("run", "text", "one", "two") in found
    assert ("step 0, echo", "args", '{"x":"1"}', '{"x":"2"}') in found
    assert ("step 0, echo", "result", "1", "2") in found
    assert ("step 1", "text", "one", "two") in found


async def test_instructions_and_steps_that_one_run_has_alone_are_told(tmp_path: Path) -> None:
    first = [text("x")]
    second = [calls(("echo", {"x": "2"})), text("x")]
    found = await differences(tmp_path, first, second, instructions="Be kind.")
    assert ("step 0", "instructions", "—", "Be kind.") in found
    assert ("step 0, echo", "called", "no", "yes") in found
    assert ("step 1", "only in one", "—", "scripted") in found


async def test_reports_without_content_can_be_compared(tmp_path: Path) -> None:
    for run_id, turns in (("one", [text("x")]), ("two", [calls(("echo", {"x": "1"})), text("y")])):
        await agent_of(*turns, tools=[echo], middleware=[Report(tmp_path, content=False)]).run("go", run_id=run_id)
    found = compare(find_run(tmp_path, "one"), find_run(tmp_path, "two"))
    assert ("run", "steps", "1", "2") in [tuple(one) for one in found]


async def test_document_is_what_the_docs_say(tmp_path: Path) -> None:
    await reported(tmp_path, "one", text("x"))
    document = json.loads((tmp_path / "one" / "report.json").read_text())
    assert list(document) == ["format", "run", "nodes", "messages", "tools"]
    assert document["nodes"][2]["content"]["in"]["messages"] == [[0, 1]]
