"""`Watch` by itself: with the kernel's account, without it, and where that account has gaps."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose import FileEvent
from interpose.sandbox import inotify
from interpose.sandbox.ignoring import ignoring
from interpose.sandbox.watch import Watch

ACCOUNTS = [pytest.param(inotify.start, id="kernel"), pytest.param(lambda *_: None, id="walks alone")]
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
MAX_QUEUED = int(QUEUE.read_text()) if QUEUE.exists() else 0
Account = Callable[[int, Any], Any]


@asynccontextmanager
async def watching(folder: Path, account: Account = inotify.start) -> AsyncIterator[tuple[Watch, list[str]]]:
    told: list[str] = []

    async def tell(event: FileEvent) -> None:
        told.append(f"{event.kind} {event.path}")

    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    watch = Watch(root, ignoring([".git"]), tell, keeps_contents=True, account=account)
    await watch.begin()
    try:
        yield watch, told
        await watch.finish()
    finally:
        os.close(root)


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_lasting_changes_are_told_either_way(tmp_path: Path, account: Account) -> None:
    (tmp_path / "d").mkdir()
    for name in ("changed", "gone", "d/moved", "same"):
        (tmp_path / name).write_text("old")
    async with watching(tmp_path, account) as (watch, told):
        (tmp_path / "changed").write_text("new")
        (tmp_path / "gone").unlink()
        (tmp_path / "d").rename(tmp_path / "e")
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "made").touch()
        await watch.settle(whole=True)
        assert sorted(told) == ["change changed", "create e/moved", "create new/made", "delete d/moved", "delete gone"]


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_what_is_left_is_told_at_the_end(tmp_path: Path, account: Account) -> None:
    async with watching(tmp_path, account) as (_, told):
        (tmp_path / "a").touch()
    assert told == ["create a"]


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_nothing_is_told_twice(tmp_path: Path, account: Account) -> None:
    async with watching(tmp_path, account) as (watch, told):
        for number in range(5):
            (tmp_path / f"f{number}").write_text("x")
            await watch.settle(whole=number % 2 == 0)
            await watch.settle(whole=True)
    assert told == [f"create f{number}" for number in range(5)]


@pytest.mark.skipif(not 0 < MAX_QUEUED < 40_000, reason="the kernel has no queue, or one that is long")
async def test_queue_that_overflows_loses_no_file(tmp_path: Path) -> None:
    many = MAX_QUEUED // 3 + 500  # each is told three times by the kernel
    async with watching(tmp_path) as (watch, told):
        for number in range(many):
            (tmp_path / f"f{number}").touch()
        await watch.settle(whole=False)
    assert len(told) == len(set(told)) == many


async def test_folders_made_and_filled_at_once_are_watched(tmp_path: Path) -> None:
    async with watching(tmp_path) as (watch, told):
        (tmp_path / "a" / "b" / "c").mkdir(parents=True)
        (tmp_path / "a" / "b" / "c" / "deep").touch()
        await watch.settle(whole=False)
        (tmp_path / "a" / "b" / "c" / "deeper").touch()
        (tmp_path / "a" / "b" / "c" / "deeper").unlink()
        await watch.settle(whole=False)
    assert told == ["create a/b/c/deep", "create a/b/c/deeper", "delete a/b/c/deeper"]


async def test_files_are_told_in_order_while_one_of_them_is_still_written(tmp_path: Path) -> None:
    async with watching(tmp_path) as (_, told):
        with (tmp_path / "a").open("w") as slow:
            (tmp_path / "b").touch()
            await asyncio.sleep(0.2)
            assert told == []
            slow.write("whole")
        await asyncio.sleep(0.5)
        assert told == ["create a", "create b"]


async def test_file_that_stays_open_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with watching(tmp_path) as (_, told), asyncio.timeout(5):
        with (tmp_path / "log").open("w") as log:
            (tmp_path / "b").touch()
            while len(told) < 2:
                log.write("more\n")
                log.flush()
                await asyncio.sleep(0.05)
        assert told == ["create log", "create b"]


async def test_folder_behind_a_link_is_not_watched(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "link").symlink_to(outside)
    async with watching(workspace) as (watch, told):
        (outside / "secret").touch()
        await watch.settle(whole=True)
    assert told == []


async def test_finishing_twice_is_fine(tmp_path: Path) -> None:
    async with watching(tmp_path) as (watch, told):
        (tmp_path / "a").touch()
        await watch.finish()
        await watch.finish()
        await watch.settle(whole=True)
    assert told == ["create a"]


async def test_very_deep_folders_harm_nothing(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(60):  # 60 names of 100 bytes: longer than any path may be
        os.mkdir("n" * 100, dir_fd=here)
        inner = os.open("n" * 100, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    async with watching(tmp_path) as (watch, told):
        (tmp_path / "a").touch()
        await watch.settle(whole=True)
    assert told == ["create a"]
