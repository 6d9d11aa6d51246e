"""Reports that were written, read again: which runs there are, and what happened in one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from interpose.errors import InterposeError
from interpose.report.collected import FORMAT
from interpose.report.files import folder_name
from interpose.report.index import scan

LAST = "last"
MAX_NAMED = 8


class StoredRun:
    """One run's report: its `summary`, and its `nodes` with whole messages and tools in them."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self.path = path
        self.summary: Mapping[str, Any] = document["run"]
        self._messages: Sequence[Any] = document.get("messages", ())
        self._tools: Sequence[Any] = document.get("tools", ())
        self.nodes: list[dict[str, Any]] = [self._whole(node) for node in document["nodes"]]

    @property
    def id(self) -> str:
        """The id of the run."""
        return str(self.summary["id"])

    @property
    def page(self) -> Path:
        """Where its page is."""
        return self.path.with_name("index.html")

    def _whole(self, node: Mapping[str, Any]) -> dict[str, Any]:
        content = node.get("content") or {}
        given = content.get("in")
        if node["kind"] == "model" and isinstance(given, Mapping):
            given = {**given, "messages": _picked(self._messages, given["messages"])}
            if "tools" in given:
                given["tools"] = _picked(self._tools, given["tools"])
        whole = {name: value for name, value in node.items() if name not in ("phase", "content")}
        return {**whole, "in": given, "out": content.get("out")}


def _picked(table: Sequence[Any], ranges: Sequence[Sequence[int]]) -> list[Any]:
    return [one for first, count in ranges for one in table[first : first + count]]


def read_run(path: Path) -> StoredRun:
    """Return the report in the file at *path*.

    Raises:
        InterposeError: it is no report, or cannot be read.
    """
    try:
        document = msgspec.json.decode(path.read_bytes())
        if document["format"] != FORMAT:
            raise InterposeError(f"{path} has the format {document['format']!r}; this release reads {FORMAT!r}")
        return StoredRun(path, document)
    except OSError as error:
        raise InterposeError(f"{path} cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, KeyError, TypeError, IndexError) as error:
        raise InterposeError(f"{path} is no report: {error!r}") from error


def stored_runs(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the summaries of the runs in *folder*, newest first.

    Raises:
        InterposeError: there is no such folder.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InterposeError(f"{path} is no folder: name the one that Report(...) writes to")
    return sorted(scan(path), key=itemgetter("started_at"), reverse=True)


def find_run(folder: str | os.PathLike[str], name: str) -> StoredRun:
    """Return the report that *name* means: a run's id or the beginning of one, `last`, or a path.

    Raises:
        InterposeError: none, or several, fit.
    """
    given = Path(name)
    for path in (given, given / "report.json"):
        if path.suffix == ".json" and os.path.isfile(path):  # which takes any name, as that of a path does not
            return read_run(path)
    exact = Path(folder) / folder_name(name) / "report.json"
    if exact.is_file():
        return read_run(exact)
    runs = stored_runs(folder)
    fitting = [run["id"] for run in runs if run["id"].startswith(name)]
    if name == LAST:
        fitting = [run["id"] for run in runs[:1]]
    if len(fitting) == 1:
        return read_run(Path(folder) / folder_name(fitting[0]) / "report.json")
    which = fitting or [run["id"] for run in runs]
    shown = ", ".join(which[:MAX_NAMED]) + (f" and {len(which) - MAX_NAMED} more" if len(which) > MAX_NAMED else "")
    problem = "fits several runs" if fitting else "is no run"
    raise InterposeError(f"{name!r} {problem} in {folder}: {shown or 'there is none yet'}")
