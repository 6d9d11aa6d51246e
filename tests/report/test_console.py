"""One line a node, indented, coloured where a person looks on, harmless whatever is in it."""

import io
import re
from typing import Any

import pytest
from tests.layers.play import agent_of, echo

from interpose import Usage
from interpose.report import ConsoleLog
from interpose.testing import calls, text

TIME = re.compile(r"\d\d:\d\d:\d\d\.\d\d\d")
MS = re.compile(r"\d+(\.\d+)? m?s\b")


async def log_of(*turns: Any, encoding: str = "utf-8", tools: Any = (echo,), name: str = "sums", **options: Any) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    agent = agent_of(*turns, tools=list(tools), middleware=[ConsoleLog(stream=stream, **options)], name=name)
    await agent.run("go")
    return raw.getvalue().decode(encoding)


def plain(log: str) -> list[str]:
    """The lines without what changes from run to run."""
    return [MS.sub("T", TIME.sub("T", line)) for line in log.splitlines()]


async def test_each_node_has_a_line_indented_by_its_depth() -> None:
    used = Usage(input_tokens=1200, output_tokens=30, cost_usd=0.01)
    log = await log_of(calls(("echo", {"x": "1"}), usage=used), text("x", usage=used))
    assert plain(log) == [
        "T   step 0",
        "T     ✓ scripted  T  1,200→30 tok  $0.0100",
        "T     ✓ echo  T",
        "T   step 1",
        "T     ✓ scripted  T  1,200→30 tok  $0.0100",
        "T ✓ sums  T  2,400→60 tok  $0.0200",
    ]


async def test_verbose_shows_what_went_in_and_came_out() -> None:
    log = await log_of(calls(("echo", {"x": "hello"})), text("two\nlines"), verbose=True)
    said = [line.strip() for line in plain(log)]
    assert '← echo({"x":"hello"})' in said
    assert '→ {"x":"hello"}' in said
    assert "← hello" in said
    assert said[-2:] == ["← two", "← lines"]


async def test_failure_is_on_the_line_of_its_node() -> None:
    async def breaks() -> str:
        """Break."""
        raise OSError("disk")

    log = await log_of(calls("breaks"), text("x"), tools=[breaks])
    assert plain(log)[2] == "T     ✗ breaks  T  OSError: disk"


async def test_control_characters_and_turned_text_are_shown_and_not_obeyed() -> None:
    log = await log_of(
        calls(("\x1b[31mred\x07\u202e", {"x": "\x1b]0;title\x07"})),
        text("\x1b[2J\u2028"),
        verbose=True,
        name="a\x1bb\nc",
    )
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", log)
    assert "a␛b␊c" in log


@pytest.mark.parametrize(
    ("options", "environment", "colored"),
    [
        ({}, {}, False),
        ({}, {"FORCE_COLOR": "1"}, True),
        ({}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"color": True}, {"NO_COLOR": "1"}, True),
        ({"color": False}, {"FORCE_COLOR": "1"}, False),
    ],
    ids=str,
)
async def test_colour_follows_the_stream_the_environment_and_the_option(
    options: Any, environment: dict[str, str], colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in await log_of(text("x"), **options)) == colored


async def test_stream_that_lacks_letters_gets_others() -> None:
    log = await log_of(calls(("echo", {"x": "ü"})), text("x"), encoding="ascii", verbose=True)
    assert "+ echo" in log


async def test_error_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    await agent_of(text("x"), middleware=[ConsoleLog()], name="sums").run("go")
    captured = capsys.readouterr()
    assert (captured.out, "sums" in captured.err) == ("", True)


async def test_runs_at_once_are_told_apart() -> None:
    stream = io.StringIO()
    log = ConsoleLog(stream=stream)

    async def inner() -> str:
        """Run another agent."""
        result = await agent_of(text("y"), middleware=[log], name="second").run("go")
        return result.text

    await agent_of(calls("inner"), text("x"), tools=[inner], middleware=[log], name="first").run("go")
    assert stream.getvalue().splitlines()[0][12:15] == "   "  # alone, the first needs none
    tags = {found[1] for line in stream.getvalue().splitlines() if (found := re.match(r"\S+ (\w{4}) ", line))}
    assert len(tags) == 1  # those of the second, while both are open
    assert log._depths == {}


async def test_closed_stream_harms_no_run(caplog: pytest.LogCaptureFixture) -> None:
    stream = io.StringIO()
    stream.close()
    result = await agent_of(
        calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[ConsoleLog(stream=stream)]
    ).run("go")
    assert result.text == "x"
    assert len(caplog.records) == 1
