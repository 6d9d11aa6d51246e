"""What the kernel tells of changes below a folder, in order: Linux's inotify, one watch a folder.

Source: inotify(7) and inotify_add_watch(2) of the Linux man-pages, 6.9.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from typing import Literal, NamedTuple

from interpose.sandbox.beneath import open_beneath
from interpose.sandbox.tree import TEMPORARY, Ignored, in_folder

_ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x04, 0x08, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED_WATCH, _ONLYDIR, _ISDIR = 0x4000, 0x8000, 0x01000000, 0x40000000
_MASK = _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
_HEAD = struct.Struct("iIII")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Seen(NamedTuple):
    """One thing that happened to a file: it was made, perhaps to be written; written; moved here; or it went away."""

    path: str
    what: Literal["made", "wrote", "moved", "gone"]


class Inotify:
    """The watches of one folder, given as a descriptor.

    *whole* is False once something may have been missed: then only a walk tells what there is. *limited* says that
    the system had no watch left for some folder.
    """

    def __init__(self, root: int, ignored: Ignored) -> None:
        self.root = root
        self.ignored = ignored
        self.whole = True
        self.limited = False
        self.folders: dict[int, str] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def whole_again(self, folders: set[str]) -> None:
        """Watch those of *folders*, found by a walk, that are not watched; nothing is missed from now on."""
        for path in folders.difference(self.folders.values()):
            self.add(path)
        self.whole = not self.limited

    def close(self) -> None:
        """Give back the descriptor."""
        os.close(self.fd)

    def add(self, path: str) -> bool:
        """Watch one folder; False where it is gone, or no more can be watched."""
        try:
            fd = open_beneath(self.root, path, _FOLDER)
        except OSError:
            return False
        try:
            wd = self._libc.inotify_add_watch(self.fd, b"/proc/self/fd/%d" % fd, ctypes.c_uint32(_MASK))
            if wd < 0:
                if ctypes.get_errno() != errno.ENOENT:
                    self.limited, self.whole = True, False
                return False
            self.folders[wd] = path
            return True
        finally:
            os.close(fd)

    def read(self) -> list[Seen]:
        """Return what happened since the last time, in order; folders that are new are watched from now on."""
        seen: list[Seen] = []
        while True:
            try:
                told = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return seen
            except InterruptedError:
                continue
            at = 0
            while at < len(told):
                wd, mask, _, size = _HEAD.unpack_from(told, at)
                name = os.fsdecode(told[at + _HEAD.size : at + _HEAD.size + size].rstrip(b"\0"))
                at += _HEAD.size + size
                self._note(wd, mask, name, seen)

    def _note(self, wd: int, mask: int, name: str, seen: list[Seen]) -> None:
        if mask & _OVERFLOW:
            self.whole = False
            return
        if mask & _IGNORED_WATCH:
            self.folders.pop(wd, None)
            return
        above = self.folders.get(wd)
        if above is None or not name or name.startswith(TEMPORARY):
            return
        path = f"{above}/{name}" if above else name
        if self.ignored(path, name):
            return
        if not mask & _ISDIR:
            gone = mask & (_DELETE | _MOVED_FROM)
            seen.append(
                Seen(path, "made" if mask & _CREATE else "moved" if mask & _MOVED_TO else "gone" if gone else "wrote")
            )
        elif mask & (_CREATE | _MOVED_TO):
            self._enter(path, seen)
        elif mask & _MOVED_FROM:
            self._leave(path)
            self.whole = False  # what was in it went with it, untold

    def _enter(self, start: str, seen: list[Seen]) -> None:
        """Watch a new folder and those in it, and note what was made before the watch was there."""
        todo = [start]
        while todo:
            above = todo.pop()
            if not self.add(above):
                continue
            for name, state in in_folder(self.root, above):
                path = f"{above}/{name}"
                if self.ignored(path, name):
                    continue
                if stat.S_ISDIR(state.st_mode):
                    todo.append(path)
                else:
                    seen.append(Seen(path, "made"))

    def _leave(self, path: str) -> None:
        for wd, folder in list(self.folders.items()):
            if folder == path or folder.startswith(f"{path}/"):
                self._libc.inotify_rm_watch(self.fd, wd)
                self.folders.pop(wd, None)


def start(root: int, ignored: Ignored) -> Inotify | None:
    """Return watches of a folder; None where the system has none to give."""
    if sys.platform != "linux":
        return None
    try:
        return Inotify(root, ignored)
    except (OSError, AttributeError):
        return None
