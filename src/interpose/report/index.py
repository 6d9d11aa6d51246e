"""The index of runs, one page: each process adds its runs under a lock, and what was there is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from interpose.report.files import folder_name, locked, write_whole
from interpose.report.page import data_of, index_page

MAX_RUNS = 2000
"""How many runs the page lists, newest first; older ones stay in the folder."""
NAME = "index.html"


def add_to_index(folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Add *runs* to the page of *folder*; runs whose folders are gone leave it.

    Raises:
        OSError: it cannot be written.
    """
    with locked(folder / ".lock"):
        there = {entry.name for entry in folder.iterdir()}
        known = _listed(folder / NAME) if NAME in there else None
        if known is None:
            known = scan(folder)
        new = {run["id"]: run for run in runs}
        kept = [run for run in known if run["id"] not in new and folder_name(run["id"]) in there]
        listed = sorted([*new.values(), *kept], key=itemgetter("started_at"), reverse=True)[:MAX_RUNS]
        write_whole(folder / NAME, index_page(listed))


def _listed(path: Path) -> list[dict[str, Any]] | None:
    """Return the runs on the page, None where it is none of ours."""
    try:
        runs = msgspec.json.decode(data_of(path.read_bytes()))
        runs = runs["runs"]
        return [run for run in runs if isinstance(run["id"], str) and isinstance(run["started_at"], float | int)]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def scan(folder: Path) -> list[dict[str, Any]]:
    """Return the summaries of all reports in *folder*; a broken one is passed over."""
    found = []
    for path in folder.glob("*/report.json"):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=_Head).run)
        except (OSError, ValueError):
            continue
    return [run for run in found if isinstance(run.get("id"), str) and isinstance(run.get("started_at"), float | int)]


class _Head(msgspec.Struct):
    """What the index takes of a report."""

    run: dict[str, Any]
