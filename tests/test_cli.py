"""The command line, as a person or a script meets it."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from interpose.cli import main
from interpose.cli.plain import MAX_CHARS, call_line, harmless, one_line
from interpose.events import event_from_dict

FILE = '''
from interpose import Agent, Middleware, tool
from interpose.testing import ScriptedModel, calls, fail, hang, text

@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

class Figures(Middleware):
    async def wrap_run(self, ctx, call_next):
        result = await call_next()
        ctx.emit("summary", {"time in tools": "2 ms", "[bold]hits[/bold]": 4})
        return result

def answers(*turns, **options):
    return Agent(ScriptedModel(*turns), tools=[add], **options)

agent = answers(calls(("add", {"a": 1, "b": 2})), text(chunks=("It is", " 3.")), middleware=[Figures()], name="sums")
twice = answers(text("first"), text("second"))
rude = answers(text("\\x1b[31mred\\x07 [bold]x[/bold]\\r"))
broken = answers(fail(ValueError("the model\\nbroke"), after=("Hal",)))
stopped = answers(text("Hal", finish_reason="length"))
waiting = answers(hang(after=("Well",)), lambda request: text(f"{len(request.messages)} messages"))
counting = answers(*[lambda request: text(f"{len(request.messages)} messages")] * 3)
long = answers(text("x" * 1_000_000))
number = 3
'''


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Command:
    """Calls the command line in this process, in a folder that holds `app.py`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capsys = capsys
        self.folder = folder

    def __call__(self, *arguments: str) -> Ran:
        code = main(list(arguments))
        return Ran(code, *self.capsys.readouterr())

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
        return name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with `app.py`, from which nothing stays imported."""
    (tmp_path / "app.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "app", raising=False)  # of another folder
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, folder)


# interpose run


def test_run_shows_calls_results_and_answer_in_order(command: Command) -> None:
    out = command("run", "app.py:agent", "1 + 2?").out
    positions = [out.index(text) for text in ("→ add(a=1, b=2)", "← 3", "It is 3.")]
    assert positions == sorted(positions)


def test_summary_counts_steps_and_tool_calls(command: Command) -> None:
    lines = [line.split() for line in command("run", "app.py:agent", "1 + 2?").out.splitlines()]
    assert ["steps", "2"] in lines
    assert ["tool", "calls", "1"] in lines


def test_summary_has_the_rows_of_middleware(command: Command) -> None:
    out = command("run", "app.py:agent", "1 + 2?").out
    assert "time in tools" in out
    assert "[bold]hits[/bold]" in out


def test_summary_says_what_cut_the_run_off(command: Command) -> None:
    assert "length" in command("run", "app.py:stopped", "?").out


def test_run_in_good_order_exits_with_0(command: Command) -> None:
    assert command("run", "app.py:agent", "1 + 2?")[::2] == (0, "")


def test_quiet_prints_the_answer_alone(command: Command) -> None:
    assert command("run", "app.py:agent", "1 + 2?", "--quiet").out == "It is 3.\n"


def test_each_prompt_is_a_run_of_its_own(command: Command) -> None:
    assert command("run", "app.py:counting", "a", "b", "-q").out == "1 messages\n1 messages\n"


def test_json_prints_one_event_a_line(command: Command) -> None:
    events = [
        event_from_dict(json.loads(line)) for line in command("run", "app.py:agent", "?", "--json").out.splitlines()
    ]
    assert (events[0].type, events[-1].type) == ("RUN_STARTED", "RUN_FINISHED")
    assert "TOOL_CALL_RESULT" in [event.type for event in events]


def test_json_of_a_failed_run_ends_with_its_error(command: Command) -> None:
    ran = command("run", "app.py:broken", "?", "--json")
    assert json.loads(ran.out.splitlines()[-1])["type"] == "RUN_ERROR"
    assert ran.code == 1


def test_agent_of_a_module_runs(command: Command) -> None:
    assert command("run", "app:twice", "?", "-q").out == "first\n"


def test_file_may_import_its_neighbour(command: Command) -> None:
    command.write("neighbour.py", "from app import twice")
    command.write("outer.py", "from neighbour import twice as agent")
    assert command("run", "outer.py:agent", "?", "-q").out == "first\n"


def test_file_named_like_a_module_of_python_runs(command: Command) -> None:
    command.write("queue.py", "from app import twice as agent")
    assert command("run", "queue.py:agent", "?", "-q").out == "first\n"


# What comes from a model is text, not a command for the terminal


def test_control_characters_do_not_reach_the_terminal(command: Command) -> None:
    assert set("\x1b\x07\r") & set(command("run", "app.py:rude", "?").out) == set()


def test_markup_in_text_is_not_taken_as_markup(command: Command) -> None:
    assert "red␇ [bold]x[/bold]" in command("run", "app.py:rude", "?").out


def test_colours_are_there_when_asked_for(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[36m→ add" in command("run", "app.py:agent", "?").out


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)], ids=hex)
def test_harmless_keeps_line_ends_and_tabs_alone(code: int) -> None:
    kept = chr(code) in "\n\t"
    assert (chr(code) in harmless(f"a{chr(code)}b")) == kept


def test_long_value_is_cut_to_one_line() -> None:
    line = one_line("a\n" * 1000)
    assert len(line) == MAX_CHARS
    assert "\n" not in line


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ('{"city": "Lyon", "n": 2}', 'f(city="Lyon", n=2)'),
        ("", "f()"),
        ('{"city": ', 'f({"city": )'),
        ("[1]", "f([1])"),
    ],
    ids=["object", "none", "broken", "list"],
)
def test_call_is_shown_as_one_would_write_it(args: str, line: str) -> None:
    assert call_line("f", args) == line


# What goes wrong is one line


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.py:agent", ["nowhere.py", "does not exist", "FILE.py:NAME"]),
        (".:agent", ["neither a .py file nor"]),
        ("./:agent", ["is a folder"]),
        ("app.py", ["'app.py' names no agent", "FILE.py:NAME"]),
        ("app.py:", ["names no agent"]),
        ("app.py:agnet", ["no 'agnet'", "'agent'", "'twice'"]),
        ("app.py:number", ["'number'", "type int", "not an Agent", "'agent'"]),
        ("app.py:Figures", ["the class Figures", "not an Agent"]),
        ("nowhere:agent", ["no module 'nowhere'"]),
        ("app.inner:agent", ["no module 'app.inner'"]),
    ],
)
def test_wrong_target_is_one_line_that_says_what_was_expected(command: Command, target: str, words: list[str]) -> None:
    assert_one_line(command("run", target, "?"), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n1 / 0", ["line 2", "ZeroDivisionError"]),
        ("def f(:", ["SyntaxError"]),
        ("import nowhere_at_all", ["line 1", "nowhere_at_all"]),
        ("from . import app", ["MODULE:NAME"]),
        ("raise SystemExit(3)", ["SystemExit: 3"]),
        ("from interpose import Agent\nagent = Agent('opnai:gpt-5.5')", ["'opnai:gpt-5.5'", "'openai:gpt-5.5'"]),
        ("from interpose import Agent\nagent = Agent('openai:x', middleware=[3])", ["middleware"]),
    ],
    ids=["raises", "syntax", "import", "relative", "exits", "provider", "middleware"],
)
def test_file_that_cannot_be_loaded_is_one_line(command: Command, text: str, words: list[str]) -> None:
    assert_one_line(command("explain", f"{command.write('bad.py', text)}:agent"), ["bad.py", *words])


def test_failed_run_is_one_line_after_what_was_said(command: Command) -> None:
    ran = command("run", "app.py:broken", "?")
    assert ran.out == "Hal\n"
    assert_one_line(ran, ["ValueError: the model broke", "--debug"])


def test_debug_gives_the_traceback(command: Command) -> None:
    with pytest.raises(ValueError, match="broke"):
        command("run", "app.py:broken", "?", "--debug")


def test_missing_key_names_the_variable(command: Command) -> None:
    command.write("named.py", "from interpose import Agent\nagent = Agent('openai:gpt-5.5')")
    assert_one_line(command("run", "named.py:agent", "?"), ["OPENAI_API_KEY"])


def test_unreachable_server_is_one_line_with_its_address(command: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound but not listening, so that it refuses
        command.write(
            "far.py",
            f"""
            from interpose import Agent
            from interpose.models import OpenAIChat
            agent = Agent(OpenAIChat("m", base_url="http://127.0.0.1:{port}/v1", api_key="x"))
            """,
        )
        assert_one_line(command("run", "far.py:agent", "?"), [f"127.0.0.1:{port}"])


@pytest.mark.parametrize("package", ["cyclopts", "rich"])
def test_missing_extra_is_named(command: Command, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(("interpose.cli.", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    assert_one_line(command("run", "app.py:agent", "?"), ["interpose[cli]", package])


def assert_one_line(ran: Ran, words: list[str]) -> None:
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert [word for word in words if word not in ran.err] == []


# interpose explain


def test_explain_prints_the_order_of_the_middleware(command: Command) -> None:
    ran = command("explain", "app.py:agent")
    assert "Figures" in ran.out
    assert ran.code == 0


# interpose chat, and Ctrl-C: as processes of their own


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "interpose.cli", *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what the process wrote until *text*; it is written without a line end, so read it letter by letter."""
    assert process.stdout is not None
    seen = ""
    while not seen.endswith(text):
        letter = process.stdout.read(1)
        assert letter, f"the process ended after {seen!r}"
        seen += letter
    return seen


def test_chat_remembers_what_was_said(folder: Path) -> None:
    with start(folder, "chat", "app.py:counting") as process:
        out, _ = process.communicate("hello\n\nand?\n")
    assert "1 messages" in out
    assert "3 messages" in out
    assert process.returncode == 0


def test_chat_goes_on_after_a_failed_answer(folder: Path) -> None:
    with start(folder, "chat", "app.py:broken") as process:
        out, err = process.communicate("hello\nagain\n")
    assert "the model broke" in err
    assert out.count("> ") == 3
    assert process.returncode == 0


def test_ctrl_c_cancels_the_answer_and_keeps_the_chat(folder: Path) -> None:
    with start(folder, "chat", "app.py:waiting") as process:
        assert process.stdin is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        read_until(process, "Well")
        process.send_signal(signal.SIGINT)
        read_until(process, "> ")
        out, _ = process.communicate("and now?\n")
    assert "1 messages" in out
    assert process.returncode == 0


def test_ctrl_c_ends_a_run_with_130(folder: Path) -> None:
    with start(folder, "run", "app.py:waiting", "?") as process:
        read_until(process, "Well")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "interrupted\n")


def test_reader_who_leaves_ends_the_run_quietly(folder: Path) -> None:
    with start(folder, "run", "app.py:long", "?", "--json") as process:
        read_until(process, "\n")
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate()
    assert (process.returncode, err) == (1, "")
