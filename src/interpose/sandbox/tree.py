"""The files of a workspace at one moment: a walk that leaves it nowhere, and what tells that a file has changed."""

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from interpose.sandbox.beneath import open_beneath

Ignored = Callable[[str, str], bool]
"""Whether to pass over a relative path, given with the name at its end."""
TEMPORARY = ".interpose-"
"""How the names of files begin that are written and then renamed."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW


class Stamp(NamedTuple):
    """What differs once a file was changed."""

    inode: int
    size: int
    mtime_ns: int
    mode: int


def stamp_of(state: os.stat_result) -> Stamp | None:
    """Return the stamp of a file or a link; None for what is neither."""
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISLNK(state.st_mode):
        return None
    return Stamp(state.st_ino, state.st_size, state.st_mtime_ns, state.st_mode)


def walk(
    root: int, ignored: Ignored, start: str = "", depth: int | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the state of all that is below *start*, folder by folder, names in order.

    Links are not followed. What goes away or cannot be opened meanwhile is left out. *depth* 1 is the folder alone.
    """
    todo = [(start, 1)]
    while todo:
        above, level = todo.pop()
        inner: list[tuple[str, int]] = []
        for name, state in in_folder(root, above):
            path = f"{above}/{name}" if above else name
            if ignored(path, name):
                continue
            yield path, state
            if stat.S_ISDIR(state.st_mode) and (depth is None or level < depth):
                inner.append((path, level + 1))
        todo.extend(reversed(inner))


def in_folder(root: int, path: str) -> list[tuple[str, os.stat_result]]:
    """Return the names in a folder with their states, in order; nothing where it is not there any more."""
    try:
        fd = open_beneath(root, path, _FOLDER)
    except OSError:
        return []
    found = []
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name.startswith(TEMPORARY):
                    continue
                try:
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
                except OSError:
                    continue
    except OSError:
        return found
    finally:
        os.close(fd)
    found.sort(key=lambda pair: pair[0])
    return found


def state_of(root: int, path: str) -> os.stat_result | None:
    """Return the state of what is at *path*, a link itself and not what it points to; None where there is nothing."""
    above, _, name = path.rpartition("/")
    try:
        fd = open_beneath(root, above, _FOLDER)
    except OSError:
        return None
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None
    finally:
        os.close(fd)


def content_of(root: int, path: str, max_bytes: int) -> bytes | None:
    """Return the content of a file; None where it is larger, no file, or gone."""
    try:
        fd = open_beneath(root, path, _READ)
    except OSError:
        return None
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_size > max_bytes:
            return None
        content = read_all(fd, max_bytes + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    return content if len(content) <= max_bytes else None


def read_all(fd: int, max_bytes: int) -> bytes:
    """Return what is in the file *fd*, at most *max_bytes* of it."""
    pieces: list[bytes] = []
    while max_bytes > 0 and (piece := os.read(fd, min(max_bytes, 1 << 20))):
        pieces.append(piece)
        max_bytes -= len(piece)
    return b"".join(pieces)
