"""Backends: where text goes that is too long for a conversation, and how it is read back."""

import asyncio
import hashlib
import os
import re
from typing import Any, Protocol, runtime_checkable

from interpose.errors import ConfigurationError
from interpose.text import clean

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_MAX_PART_CHARS = 200  # most file systems take names of 255 bytes, endings included


class Backend(Protocol):
    """Keeps texts by path, such as `evicted/run_1/search/call_1.txt`."""

    async def write(self, path: str, text: str, /) -> None:
        """Keep *text* under *path*, in place of what was there."""
        ...


@runtime_checkable
class ReadableBackend(Protocol):
    """A backend whose texts can be read back."""

    async def write(self, path: str, text: str, /) -> None:
        """Keep *text* under *path*, in place of what was there."""
        ...

    async def read(self, path: str, /) -> str:
        """Return the text under *path*.

        Raises:
            FileNotFoundError: there is none.
        """
        ...


def path_part(text: str) -> str:
    """Return *text* as one part of a path: what is no ASCII letter, digit, `_` or `-` becomes `_`.

    Of a text that is too long for a file's name the beginning and a hash of the whole are left.
    """
    part = _UNSAFE.sub("_", text) or "_"
    if len(part) <= _MAX_PART_CHARS:
        return part
    digest = hashlib.sha256(clean(text).encode()).hexdigest()[:16]
    return f"{part[: _MAX_PART_CHARS - len(digest) - 1]}-{digest}"


class FileBackend:
    """Keeps texts as UTF-8 files below *url*: a folder, or what fsspec opens: `memory://`, `s3://bucket/folder`, ….

    *options* go to fsspec as they are. S3 and others need a package of their own, which fsspec names where it is
    missing. Nothing outside *url* is read or written.

    Raises:
        ConfigurationError: fsspec, or the package that *url* needs, is not installed, or *url* is empty.
    """

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        if not os.fspath(url):
            raise ConfigurationError("FileBackend needs a folder or a URL, got an empty text; '.' is this folder")
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # fsspec ships no types
        except ImportError as error:
            raise ConfigurationError("FileBackend needs fsspec: pip install 'interpose[files]'") from error
        try:
            self._fs, root = url_to_fs(os.fspath(url), **options)
        except (ImportError, ValueError) as error:
            raise ConfigurationError(f"FileBackend cannot open {os.fspath(url)!r}: {error}") from error
        self._root = str(root).rstrip("/")
        self._is_local = "file" in self._fs.protocol

    def __repr__(self) -> str:
        return f"FileBackend({self._root!r})"

    async def write(self, path: str, text: str, /) -> None:
        """Write *text* to the file *path*, and make the folders that it needs, in a worker thread.

        Raises:
            ValueError: *path* leads out of the root.
        """
        await asyncio.to_thread(self._write, self._full(path), clean(text).encode())

    async def read(self, path: str, /) -> str:
        """Return the text of the file *path*.

        Raises:
            FileNotFoundError: there is none.
            ValueError: *path* leads out of the root.
        """
        data: bytes = await asyncio.to_thread(self._fs.cat_file, self._full(path))
        return data.decode()

    def _write(self, full: str, data: bytes) -> None:
        self._fs.makedirs(full.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(full, data)

    def _full(self, path: str) -> str:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\0]", path):
            raise ValueError(f"{path!r} is no path below the backend's root: write it as 'folder/name.txt'")
        full = f"{self._root}/{path}"
        if self._is_local:
            root = os.path.realpath(self._root or os.sep)
            if os.path.commonpath([root, os.path.realpath(full)]) != root:
                raise ValueError(f"{path!r} leads out of the backend's root by a symbolic link")
        return full
