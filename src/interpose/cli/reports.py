"""`interpose report` and `interpose diff`: stored reports, listed, opened and compared."""

import webbrowser
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from interpose.cli.screen import NOTE, PROBLEM, RESULT, Screen
from interpose.text import to_json

MAX_LISTED = 50
MAX_NAME = 40
"""How much of an agent's name a table shows: the figures beside it are to stay in sight."""


def list_reports(folder: Path, screen: Screen, *, as_json: bool) -> None:
    """Write a table of the runs in *folder*, newest first, or one JSON object a line.

    Raises:
        InterposeError: there is no such folder.
    """
    from interpose.report.stored import stored_runs

    runs = stored_runs(folder)
    if as_json:
        for run in runs:
            screen.plain(to_json(run))
        return
    if not runs:
        screen.line(f"no reports in {folder} yet", NOTE)
        return
    heads = ("run", "agent", "outcome", "started", "time", "steps", "tools", "tokens", "cost")
    screen.table(heads, [_row(run) for run in runs[:MAX_LISTED]], left=4)
    if len(runs) > MAX_LISTED:
        screen.line(f"and {len(runs) - MAX_LISTED} older ones; {folder / 'index.html'} lists them", NOTE)


def show_report(folder: Path, name: str, screen: Screen, *, open_page: bool | None) -> None:
    """Write what a run came to and where its page is, and open it: by default where a person looks on.

    Raises:
        InterposeError: no run, or several, fit *name*.
    """
    from interpose.report.stored import find_run

    run = find_run(folder, name)
    summary = run.summary
    rows = [("run", run.id), ("agent", str(summary.get("name"))), ("outcome", _outcome(summary))]
    rows += [("started", _when(summary)), ("time", _time(summary.get("duration_ms"))), ("tokens", _tokens(summary))]
    screen.summary(rows)
    screen.plain(str(run.page.resolve()))
    if screen.is_live if open_page is None else open_page:
        webbrowser.open(run.page.resolve().as_uri())


def show_difference(folder: Path, first: str, second: str, screen: Screen) -> bool:
    """Write where two runs differ, step by step; return whether they do.

    Raises:
        InterposeError: no run, or several, fit a name.
    """
    from interpose.report.comparison import compare
    from interpose.report.stored import find_run

    one, other = find_run(folder, first), find_run(folder, second)
    differences = compare(one, other)
    screen.line(f"- {one.id}  {_when(one.summary)}", PROBLEM)
    screen.line(f"+ {other.id}  {_when(other.summary)}", RESULT)
    if not differences:
        screen.line("no difference but in ids and times", NOTE)
    where = ""
    for found in differences:
        if found.where != where:
            where = found.where
            screen.line(f"\n{where}", "bold")
        screen.line(f"  {found.what}")
        screen.line(_indented("    - ", found.first), PROBLEM)
        screen.line(_indented("    + ", found.second), RESULT)
    return bool(differences)


def _indented(mark: str, text: str) -> str:
    return mark + text.replace("\n", "\n" + " " * len(mark))


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    usage = run.get("usage") or {}
    cost = usage.get("cost_usd")
    figures = (_time(run.get("duration_ms")), str(run.get("steps", "")), str(run.get("tool_calls", "")), _tokens(run))
    name = str(run.get("name"))
    name = name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"
    return (run["id"], name, _outcome(run), _when(run), *figures, "" if cost is None else f"${cost:.4f}")


def _outcome(run: Mapping[str, Any]) -> str:
    reason = run.get("finish_reason")
    outcome = str(run.get("outcome") or run.get("status") or "")
    return outcome if reason in (None, "stop", "error", "cancelled", "interrupt") else f"{outcome} ({reason})"


def _when(run: Mapping[str, Any]) -> str:
    return datetime.fromtimestamp(run["started_at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _time(ms: Any) -> str:
    if not isinstance(ms, int | float):
        return ""
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


def _tokens(run: Mapping[str, Any]) -> str:
    usage = run.get("usage") or {}
    known = [usage.get("input_tokens"), usage.get("output_tokens")]
    if all(one is None for one in known):
        total = usage.get("total_tokens")
        return "" if total is None else f"{total:,}"
    return " → ".join([f"{one or 0:,}" for one in known])
