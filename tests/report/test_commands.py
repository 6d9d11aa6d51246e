"""`interpose report` and `interpose diff` on real reports, and the live line of `interpose run` in a real terminal."""

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.layers.play import agent_of, echo

from interpose.cli import main
from interpose.report import Report
from interpose.testing import calls, text

pytest.importorskip("rich", reason="needs the extra cli")
pytest.importorskip("cyclopts", reason="needs the extra cli")


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Command:
    """Calls the command line in this process, in *folder*."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capsys = capsys
        self.folder = folder

    def __call__(self, *arguments: str) -> Ran:
        self.capsys.readouterr()
        with contextlib.chdir(self.folder):
            code = main(list(arguments))
        return Ran(code, *self.capsys.readouterr())


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    return Command(capsys, tmp_path)


@pytest.fixture
async def reports(tmp_path: Path) -> None:
    for run_id, word in (("run_one", "left"), ("run_two", "right")):
        turns = [calls(("echo", {"x": word})), text(f"It is {word}.")]
        agent = agent_of(*turns, tools=[echo], middleware=[Report(tmp_path / "reports")], name="scout")
        await agent.run("Where?", run_id=run_id)


@pytest.mark.usefixtures("reports")
def test_report_lists_runs_newest_first(command: Command) -> None:
    ran = command("report")
    lines = ran.out.splitlines()
    assert (ran.code, [line.split()[0] for line in lines]) == (0, ["run", "run_two", "run_one"])
    assert "scout" in lines[1]
    assert command("report", "reports", "--json").out.count('"outcome":"finished"') == 2


@pytest.mark.usefixtures("reports")
def test_report_of_one_run_says_where_its_page_is(command: Command) -> None:
    ran = command("report", "reports", "run_o")
    page = Path(ran.out.splitlines()[-1])
    assert (ran.code, page.parent.name, page.is_file()) == (0, "run_one", True)
    assert command("report", "reports", "last").out.splitlines()[-1].endswith("run_two/index.html")


@pytest.mark.usefixtures("reports")
def test_report_opens_the_page_in_a_browser_where_asked(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    code = "from interpose.cli import main; raise SystemExit(main(['report', 'reports', 'run_one', '--open']))"
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert opened.read_text().endswith("run_one/index.html")
    assert opened.read_text().startswith("file:///")


@pytest.mark.usefixtures("reports")
def test_diff_tells_step_by_step_what_differs(command: Command) -> None:
    ran = command("diff", "run_one", "run_two")
    said = [line.strip() for line in ran.out.splitlines()]
    assert ran.code == 0
    for line in ("step 0, echo", '- {"x":"left"}', '+ {"x":"right"}', "- It is left.", "+ It is right."):
        assert line in said


@pytest.mark.usefixtures("reports")
def test_diff_of_a_run_with_itself_finds_nothing(command: Command) -> None:
    assert "no difference" in command("diff", "run_one", "reports/run_one/report.json").out


MISFITS = [
    ("report", "nowhere"),
    ("report", "reports", "run_x"),
    ("diff", "run_one", "run_x"),
    ("diff", "run_", "last"),
]


@pytest.mark.parametrize("arguments", MISFITS)
@pytest.mark.usefixtures("reports")
def test_what_does_not_fit_is_one_line_on_the_error_output(command: Command, arguments: tuple[str, ...]) -> None:
    ran = command(*arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)


def test_report_of_an_empty_folder_says_so(command: Command, tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    assert "no reports" in command("report").out


SLOW = '''
import asyncio
from interpose import Agent, Usage, tool
from interpose.testing import ScriptedModel, calls, text

@tool
async def dig(where: str) -> str:
    """Dig."""
    await asyncio.sleep(0.8)
    return "gold"

class Slow(ScriptedModel):
    async def stream(self, request):
        await asyncio.sleep(0.8)
        async for chunk in super().stream(request):
            yield chunk

used = Usage(input_tokens=1200, output_tokens=34, cost_usd=0.0042)
agent = Agent(Slow(calls(("dig", {"where": "here"}), usage=used), text("There is gold.")), tools=[dig])
'''


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_run_shows_in_a_terminal_what_it_waits_for(tmp_path: Path) -> None:
    import pty

    (tmp_path / "app.py").write_text(textwrap.dedent(SLOW))
    leader, follower = pty.openpty()
    code = "import sys; from interpose.cli import main; sys.exit(main(['run', 'app.py:agent', 'Dig']))"
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=follower, stdout=follower, stderr=follower, cwd=tmp_path, env=environment
    )
    os.close(follower)
    pieces = []
    with contextlib.suppress(OSError):  # the other end is closed
        while piece := os.read(leader, 65536):
            pieces.append(piece)
    os.close(leader)
    shown = b"".join(pieces).decode()
    assert process.wait() == 0
    assert "step 0 · waiting for scripted" in shown
    assert "step 0 · dig" in shown
    assert "1,234 tokens · $0.0042" in shown
    assert "\x1b[2KThere is gold." in shown  # the line is gone when the answer comes
    assert "waiting" not in shown[shown.rindex("There is gold.") :]


def test_run_shows_no_live_line_where_nobody_looks_on(command: Command, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(textwrap.dedent(SLOW))
    ran = command("run", "app.py:agent", "Dig")
    assert "waiting" not in ran.out + ran.err


async def test_list_of_runs_keeps_its_columns_where_a_name_is_long_and_turns_text_around(
    command: Command, tmp_path: Path
) -> None:
    name = "evil\u202egnp.exe\x1b[31m" + "x" * 200
    await agent_of(text("x"), middleware=[Report(tmp_path / "reports")], name=name).run("Where?")
    listed = (await asyncio.to_thread(command, "report", str(tmp_path / "reports"))).out
    assert not {"\u202e", "\x1b"} & set(listed)
    assert max(map(len, listed.splitlines())) < 160
