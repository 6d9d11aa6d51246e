"""The disk is full in the middle of a run: it fails with what to do, and goes on exactly once there is room."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.crash.played import Story, faults
from tests.crash.trouble import Before, Played

from interpose.stores import SQLStore

SIZE = "1m"
BALLAST = "ballast"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own that is soon full."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> None:
    """Leave no room on *disk*."""
    with (disk / BALLAST).open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)
    free = os.statvfs(disk).f_bfree
    assert free == 0, f"there are {free} blocks left"


def empty(disk: Path) -> None:
    for file in disk.iterdir():
        file.unlink()


async def clean(story: str, folder: Path) -> tuple[Story, int]:
    """Return the story as it goes with room enough, and how many writes it takes."""
    async with SQLStore(f"sqlite:///{folder}/clean.db") as store:
        played = Played(story, store, folder, "clean")
        assert await played.live() is None
        return Story(played.lives), played.writes


@pytest.mark.parametrize("story", ["steps", "nested", "structured"])
async def test_run_on_a_full_disk_says_so_and_goes_on_exactly_when_there_is_room(
    story: str, tmp_path: Path, small_disk: Path
) -> None:
    whole, writes = await clean(story, tmp_path)
    for number in range(writes):
        (small_disk / BALLAST).unlink(missing_ok=True)
        async with SQLStore(f"sqlite:///{small_disk}/{number}.db") as store:
            played = Played(story, store, tmp_path, f"{story}-{number}")
            failed = await played.live(at(number, lambda: fill(small_disk)))
            if played.writes <= number:
                break  # results came together that came one by one before, so there were fewer writes
            assert failed is not None, f"the disk was full at write {number}, and nobody noticed"
            assert "nothing was stored: make room" in str(failed)
            (small_disk / BALLAST).unlink()
            assert list(faults(await played.to_the_end(), whole)) == [], f"full at write {number}"
        empty(small_disk)


def at(number: int, act: Callable[[], None]) -> Before:
    """Return what acts before write *number*."""

    async def before(now: int) -> None:
        if now == number:
            act()

    return before
