"""Opening what is below a folder and nothing else, whatever is swapped for a link meanwhile.

Linux resolves such paths itself, by `openat2` with `RESOLVE_BENEATH` (since 5.6): links are followed as long as they
stay below the folder, and a path that leads out fails, also where a part of it is exchanged during the walk. Where it
is missing, or a container forbids it, the path is walked part by part, and no link is followed at all.

Source: openat2(2) of the Linux man-pages, 6.9.
"""

import ctypes
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from interpose.sandbox.errors import SandboxError

_SYS_OPENAT2 = 437  # the same on all architectures that have it, but alpha
_RESOLVE = 0x08 | 0x02  # RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS
_TRIES = 256  # EAGAIN: something was renamed during the walk
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MAX_PATH_BYTES = 4000


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: int, path: str, flags: int) -> int:
    """Return a descriptor of what is at *path* below the folder *root*, a descriptor; an empty path is that folder.

    Raises:
        OSError: it is not there, or (`EXDEV`, `ELOOP`) the path leads out of the folder.
    """
    flags |= os.O_CLOEXEC
    if has_openat2():
        return _openat2(root, path or ".", flags)
    return _walk(root, path, flags)


@cache
def has_openat2() -> bool:
    """Whether the kernel resolves such paths itself."""
    here = None
    try:
        here = os.open("/", _DIRECTORY)
        os.close(_openat2(here, ".", _DIRECTORY))
    except (OSError, AttributeError, ValueError):
        return False
    finally:
        if here is not None:
            os.close(here)
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(root: int, path: str, flags: int) -> int:
    how = _How(flags, 0, _RESOLVE)
    encoded = os.fsencode(path)
    for _ in range(_TRIES):
        fd = _libc().syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(root),
            ctypes.c_char_p(encoded),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return int(fd)
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _walk(root: int, path: str, flags: int) -> int:
    """Open *path* part by part; no link is followed, so that none can lead out."""
    here = os.dup(root)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    try:
        for part in parts[:-1]:
            inner = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW, dir_fd=here)
    finally:
        os.close(here)


def inner_path(path: object, *names_of_root: str) -> str:
    """Return *path*, as a model or a caller gives it, relative to the workspace: `a/b.txt`; the workspace itself is "".

    `..` is taken away where it stays inside. An absolute path is taken where it begins with one of *names_of_root*.

    Raises:
        SandboxError: it leads out, or is no path at all.
    """
    if not isinstance(path, str):
        raise SandboxError(f"a path is a text, such as 'notes/today.txt', got {type(path).__name__}")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise SandboxError(f"{path!r:.200} is no valid path: it holds half a character") from None
    if size > MAX_PATH_BYTES:
        raise SandboxError(f"the path is too long ({size} bytes): {path[:80]!r}...")
    if "\0" in path:
        raise SandboxError(f"{path!r:.200} is no valid path: it holds a zero byte")
    inner = posixpath.normpath(path) if path else "."
    if inner.startswith("/"):
        inner = f"/{inner.lstrip('/')}"
        for root in names_of_root:
            if inner == root or inner.startswith(f"{root}/"):
                inner = inner[len(root) + 1 :] or "."
                break
        else:
            raise SandboxError(f"{path!r:.200} is outside the workspace; give a path that is relative to it")
    if inner == ".." or inner.startswith("../"):
        raise SandboxError(f"{path!r:.200} leads out of the workspace; only what is inside can be used")
    return "" if inner == "." else inner


@contextmanager
def folder(root: int, path: str, *, make: bool = False) -> Iterator[int]:
    """Give a descriptor of the folder at *path* below *root*; with *make*, folders that are missing are made."""
    fd = _made(root, path) if make else open_beneath(root, path, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _made(root: int, path: str) -> int:
    try:
        return open_beneath(root, path, _DIRECTORY)
    except FileNotFoundError:
        if not path:
            raise
    above, name = posixpath.split(path)
    with folder(root, above, make=True) as fd, suppress(FileExistsError):
        os.mkdir(name, dir_fd=fd)
    return open_beneath(root, path, _DIRECTORY)


def regular(fd: int, path: str) -> os.stat_result:
    """Return the state of the open file *fd*.

    Raises:
        SandboxError: it is a folder, a pipe, a device, or a socket.
    """
    state = os.fstat(fd)
    if stat.S_ISREG(state.st_mode):
        return state
    kind = "a folder" if stat.S_ISDIR(state.st_mode) else "a pipe, a socket or a device"
    raise SandboxError(f"{path!r:.200} is {kind}, and no file")
