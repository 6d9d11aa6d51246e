"""The lines of stdin as they come, read by a thread that keeps neither a cancellation nor the process waiting."""

from __future__ import annotations

import asyncio
import codecs
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from interpose.mcp.halves import mended

CHUNK = 65536


class StdinLines:
    """Lines of text, without end; the file descriptor is read bare, since a buffer's lock would outlive the loop."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="interpose-stdin", daemon=True).start()

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        parts: list[str] = []
        with suppress(OSError, RuntimeError):  # it was closed, or the loop was
            while chunk := os.read(self._fd, CHUNK):
                *lines, rest = decoder.decode(chunk).split("\n")
                for line in lines:
                    self._put("".join([*parts, line]))
                    parts = []
                parts.append(rest)
        with suppress(RuntimeError):
            self._put(None)

    def _put(self, line: str | None) -> None:
        self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            if line.strip():
                yield mended(line)


@contextmanager
def taken_stdin() -> Iterator[int]:
    """Take stdin for the messages: what else reads it meanwhile, here or in a child, finds it at its end."""
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield own
    finally:
        os.dup2(own, 0)  # `own` stays open: the thread may still read it
