"""Reading, writing, editing and listing files below one folder; blocking, and called in a thread."""

import errno
import os
import stat
import threading
from contextlib import suppress
from secrets import token_hex
from typing import Literal
from weakref import WeakValueDictionary

from interpose.messages import Value
from interpose.sandbox.beneath import folder, inner_path, open_beneath, regular
from interpose.sandbox.errors import SandboxError, refused
from interpose.sandbox.tree import TEMPORARY, Ignored, read_all, state_of, walk

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY  # a pipe without a writer must not keep anybody waiting
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Turn:
    """One writer at a time in a folder, also of several runs and loops of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_turns: WeakValueDictionary[tuple[int, int], _Turn] = WeakValueDictionary()
_turns_lock = threading.Lock()


def _turn_in(root: int) -> _Turn:
    state = os.fstat(root)
    with _turns_lock:
        return _turns.setdefault((state.st_dev, state.st_ino), _Turn())


class Entry(Value, frozen=True, kw_only=True):
    """One entry of a folder; *size_bytes* is that of a file."""

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size_bytes: int = 0


class Files:
    """The files below the folder *root*, a descriptor; absolute paths may begin with one of *names*.

    Nothing outside is read or written, also where links are exchanged meanwhile. Every method raises `SandboxError`.
    """

    def __init__(self, root: int, names: tuple[str, ...], ignored: Ignored, max_file_bytes: int) -> None:
        self.root = root
        self.names = names
        self.ignored = ignored
        self.max_file_bytes = max_file_bytes
        self._turn = _turn_in(root)

    def inner(self, path: str) -> str:
        """Return *path* relative to the workspace."""
        return inner_path(path, *self.names)

    def folder(self, path: str) -> str:
        """Return *path* relative to the workspace, where it is a folder."""
        inner = self.inner(path)
        try:
            with folder(self.root, inner):
                return inner
        except OSError as error:
            raise refused(path, error) from error

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        inner = self.inner(path)
        try:
            fd = open_beneath(self.root, inner, _READ)
        except OSError as error:
            raise refused(path, error) from error
        try:
            size = regular(fd, path).st_size
            content = read_all(fd, self.max_file_bytes + 1) if size <= self.max_file_bytes else b""
        except OSError as error:
            raise refused(path, error) from error
        finally:
            os.close(fd)
        if max(size, len(content)) > self.max_file_bytes:
            raise SandboxError(f"{path!r:.200} is too large: {size} bytes, and {self.max_file_bytes} may be read")
        return content

    def read_text(self, path: str) -> str:
        """Return the content of a text file, in UTF-8."""
        content = self.read(path)
        try:
            if b"\0" not in content:
                return content.decode()
        except UnicodeDecodeError:
            pass
        raise SandboxError(f"{path!r:.200} is no text file ({len(content)} bytes of binary data)")

    def state(self, path: str) -> os.stat_result:
        """Return the state of what is at *path*: of a link itself, and not of what it points to."""
        inner = self.inner(path)
        state = state_of(self.root, inner) if inner else os.fstat(self.root)
        if state is not None:
            return state
        try:
            os.close(open_beneath(self.root, inner, _READ))
        except OSError as error:
            raise refused(path, error) from error
        raise refused(path, FileNotFoundError(errno.ENOENT, "gone"))

    def write(self, path: str, content: bytes) -> None:
        """Put *content* in the place of the file, or make it, with the folders above it.

        The old file is replaced as a whole, so that nobody sees half of it, and what else is linked to it stays.
        """
        if len(content) > self.max_file_bytes:
            raise SandboxError(f"{path!r:.200}: {len(content)} bytes are too many; the limit is {self.max_file_bytes}")
        inner = self.inner(path)
        above, _, name = inner.rpartition("/")
        if not name:
            raise SandboxError("the workspace itself is a folder, and no file")
        try:
            with self._turn.lock, folder(self.root, above, make=True) as fd:
                _replace(fd, name, path, content)
        except OSError as error:
            raise refused(path, error) from error

    def edit(self, path: str, old: str, new: str, every: bool) -> int:
        """Put *new* in the place of *old*, which must be there once; *every* time it is there. Returns how often."""
        if not old:
            raise SandboxError("the text to replace is empty; to write a whole file, write it")
        with self._turn.lock:
            return self._edit(path, old, new, every)

    def _edit(self, path: str, old: str, new: str, every: bool) -> int:
        text = self.read_text(path)
        found = text.count(old)
        if found == 0 and "\r\n" in text and old.replace("\n", "\r\n") in text:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
            found = text.count(old)
        if found == 0:
            raise SandboxError(_not_found(path, text, old))
        if found > 1 and not every:
            raise SandboxError(
                f"the text is {found} times in {path!r:.200}; give more of the lines around it, or replace all"
            )
        self.write(path, text.replace(old, new).encode(errors="replace"))
        return found

    def list(self, path: str, depth: int, limit: int) -> tuple[Entry, ...]:
        """Return what is in a folder, *depth* levels deep, at most *limit* entries; without what is ignored."""
        inner = self.inner(path)
        state = self.state(path) if inner else None
        if state is not None and not stat.S_ISDIR(state.st_mode):
            return (_entry(inner, state),)
        found: list[Entry] = []
        for one, state in walk(self.root, self.ignored, inner, depth):
            found.append(_entry(one, state))
            if len(found) >= limit:
                break
        return tuple(sorted(found, key=lambda entry: entry.path))


def _replace(fd: int, name: str, path: str, content: bytes) -> None:
    mode = None
    with suppress(FileNotFoundError):
        state = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode):
            target = os.readlink(name, dir_fd=fd)
            raise SandboxError(f"{path!r:.200} is a link to {target!r:.200}; write to that path instead")
        if not stat.S_ISREG(state.st_mode):
            what = "a folder" if stat.S_ISDIR(state.st_mode) else "a pipe, a socket or a device"
            raise SandboxError(f"{path!r:.200} is {what}, and no file")
        mode = stat.S_IMODE(state.st_mode) & 0o777
    temporary = f"{TEMPORARY}{token_hex(8)}"
    new = os.open(temporary, _NEW, 0o666, dir_fd=fd)
    try:
        with os.fdopen(new, "wb") as file:
            file.write(content)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=fd)
        raise


def _not_found(path: str, text: str, old: str) -> str:
    hint = "read the file and copy the text exactly, with its spaces and line ends"
    if " ".join(old.split()) in " ".join(text.split()):
        hint = f"it is there with other spaces or line ends; {hint}"
    return f"the text to replace is not in {path!r:.200}; {hint}"


def _entry(path: str, state: os.stat_result) -> Entry:
    mode = state.st_mode
    if stat.S_ISREG(mode):
        return Entry(path=path, kind="file", size_bytes=state.st_size)
    return Entry(path=path, kind="folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other")
