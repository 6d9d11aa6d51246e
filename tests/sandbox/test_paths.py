"""Paths of file tools never leave the workspace, whatever is in it and however they are written."""

import asyncio
import ctypes
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.kit import box_in

from interpose.sandbox import Box, SandboxError
from interpose.sandbox.beneath import _walk, has_openat2, inner_path, open_beneath

SECRET = "the secret outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    (folder / "secret.txt").write_text(SECRET)
    (folder / "sub" / "deep.txt").write_text(SECRET)
    return folder


@pytest.fixture
def workspace(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("inside")
    (folder / "inner" / "b.txt").write_text("deep inside")
    (folder / "to_file").symlink_to(outside / "secret.txt")
    (folder / "to_folder").symlink_to(outside)
    (folder / "up").symlink_to("..")
    (folder / "up_file").symlink_to("../outside/secret.txt")
    (folder / "chain").symlink_to("to_folder")
    (folder / "loop").symlink_to("loop")
    (folder / "proc").symlink_to("/proc/self/root")
    (folder / "inner" / "climb").symlink_to("../../outside")
    (folder / "link").symlink_to("inner/b.txt")
    return folder


def names_below(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


LEADING_OUT = [
    "../outside/secret.txt",
    "inner/../../outside/secret.txt",
    "./../outside/secret.txt",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "/workspace/../etc/passwd",
    "/workspaces/secret",
    "to_file",
    "to_folder/secret.txt",
    "to_folder/sub/deep.txt",
    "up/outside/secret.txt",
    "up_file",
    "chain/secret.txt",
    "proc/etc/passwd",
    "inner/climb/secret.txt",
    "loop",
]
NO_PATHS = ["\0", "a\0b", "a/" * 3000 + "x", "x" * 300, "half\ud800", ""]


@pytest.mark.parametrize("path", LEADING_OUT + NO_PATHS)
async def test_no_path_reads_outside(workspace: Path, path: str) -> None:
    async with box_in(workspace, "none") as box:
        with pytest.raises(SandboxError):
            await box.read(path)


@pytest.mark.parametrize("path", LEADING_OUT + NO_PATHS)
async def test_no_path_writes_outside(workspace: Path, outside: Path, path: str) -> None:
    before = names_below(outside)
    async with box_in(workspace, "none") as box:
        with pytest.raises(SandboxError):
            await box.write(path, "changed")
    assert (outside / "secret.txt").read_text() == SECRET
    assert names_below(outside) == before


@pytest.mark.parametrize("path", LEADING_OUT)
async def test_no_path_edits_outside(workspace: Path, outside: Path, path: str) -> None:
    async with box_in(workspace, "none") as box:
        with pytest.raises(SandboxError):
            await box.edit(path, "secret", "public")
    assert (outside / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("path", ["to_folder/new.txt", "up/new.txt", "inner/climb/x/y.txt", "chain/sub/new.txt"])
async def test_new_files_are_not_made_behind_a_link(workspace: Path, outside: Path, path: str) -> None:
    async with box_in(workspace, "none") as box:
        with pytest.raises(SandboxError):
            await box.write(path, "new")
    assert not {"new.txt", "y.txt"} & {name.rpartition("/")[2] for name in names_below(outside.parent)}


@pytest.mark.parametrize("path", ["..", "/etc", "to_folder/sub", "up", "inner/climb/sub", "proc/etc"])
async def test_no_path_lists_outside(workspace: Path, path: str) -> None:
    async with box_in(workspace, "none") as box:
        try:
            found = await box.list(path, depth=3)
        except SandboxError:
            return
    assert [entry.kind for entry in found] == ["link"]


async def test_list_does_not_follow_links(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        found = await box.list(depth=5)
    assert not [entry.path for entry in found if entry.path.startswith(("to_folder/", "up/", "chain/"))]
    assert {entry.path: entry.kind for entry in found}["to_file"] == "link"


@pytest.mark.parametrize("path", ["..", "/etc", "to_folder", "to_file", "up", "to_folder/sub"])
async def test_no_path_searches_outside(workspace: Path, path: str) -> None:
    async with box_in(workspace, "none") as box:
        with pytest.raises(SandboxError):
            await box.search("secret", path)


async def test_search_does_not_follow_links(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        assert await box.search("secret") == ()


async def test_link_that_stays_inside_is_read(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        assert await box.read("link") == "deep inside"


async def test_writing_to_a_link_names_what_it_points_to(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        with pytest.raises(SandboxError, match=r"a link to 'inner/b.txt'; write to that path instead"):
            await box.write("link", "new")


@pytest.mark.parametrize(
    "path", ["a.txt", "./a.txt", "inner/../a.txt", "/workspace/a.txt", "inner//..//a.txt", "a.txt/"], ids=str
)
async def test_path_that_stays_inside_is_read_however_it_is_written(workspace: Path, path: str) -> None:
    async with box_in(workspace, "none") as box:
        assert await box.read(path) == "inside"


async def test_error_names_no_path_of_the_host(workspace: Path, tmp_path: Path) -> None:
    async with box_in(workspace, "none") as box:
        for path in LEADING_OUT:
            with pytest.raises(SandboxError) as raised:
                await box.read(path)
            assert str(tmp_path) not in str(raised.value)


# Hard links, pipes, devices, sockets.


async def test_writing_to_a_hard_link_leaves_the_other_file(workspace: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", workspace / "hard.txt")
    async with box_in(workspace, "none") as box:
        await box.write("hard.txt", "changed")
        await box.edit("hard.txt", "changed", "again")
    assert (outside / "secret.txt").read_text() == SECRET
    assert (workspace / "hard.txt").read_text() == "again"


async def test_pipe_is_neither_read_nor_written(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    async with box_in(workspace, "none") as box, asyncio.timeout(5):
        with pytest.raises(SandboxError, match="a pipe, a socket or a device"):
            await box.read("pipe")
        with pytest.raises(SandboxError, match="a pipe, a socket or a device"):
            await box.write("pipe", "x")


async def test_socket_is_not_read(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        async with box_in(workspace, "none") as box:
            with pytest.raises(SandboxError):
                await box.read("socket")


async def test_folder_is_neither_read_nor_written(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        for path in ("inner", "."):
            with pytest.raises(SandboxError, match="a folder, and no file"):
                await box.read(path)
            with pytest.raises(SandboxError, match="a folder, and no file"):
                await box.write(path, "x")


async def test_file_in_the_place_of_a_folder_is_told(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        with pytest.raises(SandboxError, match="a file, and no folder"):
            await box.write("a.txt/b.txt", "x")


async def test_name_that_is_no_unicode_is_listed_and_harms_nothing(workspace: Path) -> None:
    (workspace / os.fsdecode(b"bad\xff.txt")).write_text("odd")
    async with box_in(workspace, "none") as box:
        found = await box.list()
    assert [entry.path for entry in found if entry.path.startswith("bad")]


async def test_longest_name_is_written_and_read(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        await box.write("n" * 255, "x")
        assert await box.read("n" * 255) == "x"


async def test_failed_write_leaves_nothing_behind(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        before = sorted(os.listdir(workspace))
        with pytest.raises(SandboxError):
            await box.write("n" * 256, "x")
    assert sorted(os.listdir(workspace)) == before


async def test_write_keeps_the_mode_of_the_file(workspace: Path) -> None:
    (workspace / "run.sh").write_text("echo")
    (workspace / "run.sh").chmod(0o750)
    async with box_in(workspace, "none") as box:
        await box.write("run.sh", "echo more")
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o750


# Races.


@pytest.fixture
def swapping(workspace: Path, outside: Path) -> Iterator[None]:
    """Exchange, as fast as it goes, a folder of the workspace for a link that leads out, and back."""
    stop = threading.Event()
    folder, link = workspace / "swap", workspace / "swap_link"
    folder.mkdir()
    (folder / "secret.txt").write_text("inside")
    link.symlink_to(outside)
    exchange = ctypes.CDLL(None).renameat2
    here, at_once = -100, 2  # AT_FDCWD, RENAME_EXCHANGE

    def swap() -> None:
        while not stop.is_set():
            exchange(here, bytes(folder), here, bytes(link), at_once)

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    stop.set()
    thread.join()


async def race(box: Box, rounds: int) -> set[str]:
    found = set()
    for _ in range(rounds):
        try:
            found.add(await box.read("swap/secret.txt"))
        except SandboxError as error:
            found.add(type(error).__name__)
    return found


@pytest.mark.usefixtures("swapping")
async def test_exchanged_folder_is_never_read_through(workspace: Path) -> None:
    async with box_in(workspace, "none") as box:
        assert await race(box, 1500) <= {"inside", "SandboxError"}


@pytest.mark.usefixtures("swapping")
async def test_exchanged_folder_is_never_written_through(workspace: Path, outside: Path) -> None:
    async with box_in(workspace, "none") as box:
        for number in range(800):
            try:
                await box.write(f"swap/new{number % 3}.txt", "x")
            except SandboxError:
                continue
    assert sorted(os.listdir(outside)) == ["secret.txt", "sub"]


@pytest.mark.usefixtures("swapping")
def test_walk_without_the_kernels_help_is_never_led_out(workspace: Path) -> None:
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    found = set()
    for _ in range(3000):
        try:
            fd = _walk(root, "swap/secret.txt", os.O_RDONLY)
        except OSError:
            continue
        found.add(os.read(fd, 100).decode())
        os.close(fd)
    os.close(root)
    assert found <= {"inside"}


@pytest.mark.parametrize(
    "path", ["to_file", "to_folder/secret.txt", "up/outside/secret.txt", "..", "a/../../x", "loop"]
)
def test_walk_without_the_kernels_help_follows_no_link(workspace: Path, path: str) -> None:
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError, match="."):
            _walk(root, path, os.O_RDONLY)
    finally:
        os.close(root)


def test_both_ways_open_the_same_file(workspace: Path) -> None:
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    ways = [_walk, open_beneath] if has_openat2() else [_walk]
    for way in ways:
        fd = way(root, "inner/b.txt", os.O_RDONLY)
        assert os.read(fd, 100) == b"deep inside"
        os.close(fd)
    os.close(root)


def test_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(SandboxError, match="a path is a text"):
        inner_path(None)
