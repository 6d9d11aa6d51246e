"""A process is killed at every moment of a run, and others go on: nothing that was finished is done again.

A moment is a line of the diary of a run that nobody kills: before and after each write to the store, in the middle of
each model call and each tool, and after each. Of some stories a number of moments, evenly spread, stands for all;
with `INTERPOSE_EVERY_MOMENT=1` all are played.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.crash.played import Nursery, faults, play

ALL = "INTERPOSE_EVERY_MOMENT" in os.environ
CASES = [
    ("sqlite", "steps", 1_000),
    ("sqlite", "layered", 24),
    ("sqlite", "approved", 30),
    ("sqlite", "nested", 36),
    ("sqlite", "nested_approved", 30),
    ("sqlite", "structured", 24),
    ("sqlite", "streamed", 24),
    ("sqlite", "streamed_approved", 16),
    ("postgres", "steps", 24),
    ("postgres", "approved", 16),
    ("postgres", "nested", 16),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("place", "story", "most"), CASES, ids=[f"{story}-{place}" for place, story, _ in CASES])
def test_killed_at_any_moment_nothing_finished_is_done_again(
    place: str,
    story: str,
    most: int,
    request: pytest.FixtureRequest,
    nurseries: list[Nursery],
    threads: ThreadPoolExecutor,
    tmp_path: Path,
) -> None:
    url: str = request.getfixturevalue(place)
    clean = play(nurseries[0], story, url, tmp_path, "clean")
    moments = range(0, len(clean.lines), 1 if ALL else -(-len(clean.lines) // most))

    def killed(nursery: Nursery, mine: range) -> dict[str, list[str]]:
        found = {}
        for moment in mine:
            played = play(nursery, story, url, tmp_path, f"killed-{moment}", moment)
            if wrong := list(faults(played, clean)):
                found[f"{moment}: {clean.lines[moment]}"] = wrong
        return found

    assert together(killed, moments, nurseries, threads) == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("story", ["steps", "approved"])
def test_killed_again_while_it_goes_on_nothing_finished_is_done_again(
    story: str, nurseries: list[Nursery], threads: ThreadPoolExecutor, sqlite: str, tmp_path: Path
) -> None:
    clean = play(nurseries[0], story, sqlite, tmp_path, "clean")

    def killed(nursery: Nursery, mine: range) -> dict[str, list[str]]:
        found = {}
        for moment in mine:
            deaths = [moment + n * (2 + moment % 13) for n in range(4)]
            if wrong := list(faults(play(nursery, story, sqlite, tmp_path, f"killed-{moment}", *deaths), clean)):
                found[f"{deaths}"] = wrong
        return found

    moments = range(1, len(clean.lines), 1 if ALL else 7)
    assert together(killed, moments, nurseries, threads) == {}


def together(
    killed: Callable[[Nursery, range], dict[str, list[str]]],
    moments: range,
    nurseries: list[Nursery],
    threads: ThreadPoolExecutor,
) -> dict[str, list[str]]:
    """Return what *killed* finds, with the moments shared among the nurseries."""
    shares = [moments[start :: len(nurseries)] for start in range(len(nurseries))]
    return {moment: wrong for found in threads.map(killed, nurseries, shares) for moment, wrong in found.items()}


def test_run_that_nobody_kills_is_without_faults(nurseries: list[Nursery], sqlite: str, tmp_path: Path) -> None:
    clean = play(nurseries[0], "steps", sqlite, tmp_path, "clean")
    assert [life.killed for life in clean.lives] == [False]
    assert list(faults(clean, clean)) == []
    assert len(clean.began()) == 5 + 4 * 3
    assert [len(message[2]) for message in clean.thread() if message[0] == "assistant"] == [3, 3, 3, 3, 0]
