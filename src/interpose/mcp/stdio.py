"""A tool server as a process of ours, which reads and writes one message a line.

The SDK has such a transport too. This one holds what the server says on stderr, knows with which code it ended, and
lets no line grow without bound.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import shutil
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from interpose.mcp.sdk import SessionMessage, get_default_environment, types
from interpose.text import clean_value

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

logger = logging.getLogger("interpose.mcp")

CHUNK = 65536
MAX_STDERR_LINE = 4000
KEPT_STDERR_LINES = 8
MAX_BABBLE = 20
"""How many lines on stdout that are no messages are logged."""
EXIT_S = 2.0
"""How long a server may take to leave after its stdin was closed, and again after SIGTERM."""


class Process:
    """A server's process as a transport of the SDK: entering starts it, leaving ends it with all that it started.

    *on_end* is called once, with the reason, when the server has left or sends what cannot be read.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        label: str,
        max_bytes: int,
        on_end: Callable[[str], None],
    ) -> None:
        self._command = tuple(command)
        self._env = env
        self._cwd = cwd
        self._label = label
        self._max_bytes = max_bytes
        self._on_end = on_end
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving = False
        self.said: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self.babble = ""
        self._babbled = 0

    async def __aenter__(self) -> Streams:
        program = shutil.which(self._command[0], path=(self._env or {}).get("PATH")) or self._command[0]
        self._process = await asyncio.create_subprocess_exec(
            program,
            *self._command[1:],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**get_default_environment(), **(self._env or {})},
            cwd=self._cwd,
            start_new_session=True,
        )
        self._inbox, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        # Without bound, so that a server that does not read cannot keep a cancelled call from ending.
        outbox, self._outbox = anyio.create_memory_object_stream[SessionMessage](math.inf)
        self._streams = (inbox, outbox)
        self._tasks = [asyncio.create_task(one) for one in (self._read(), self._write(), self._listen())]
        return self._streams

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving = True
        reader, writer, listener = self._tasks
        try:
            self._streams[1].close()
            await asyncio.wait([writer], timeout=0.5)
            await self._stop()
            await asyncio.wait([listener], timeout=0.5)
        finally:
            for task in (reader, writer, listener):
                task.cancel()
            await asyncio.gather(reader, writer, listener, return_exceptions=True)
            for stream in (*self._streams, self._inbox, self._outbox):
                stream.close()
            self._process._transport.close()  # type: ignore[attr-defined]  # or a child that holds a pipe keeps it open

    async def _read(self) -> None:
        """Hand on one message a line; what is no message is logged."""
        assert self._process.stdout is not None
        parts: list[bytes] = []
        size = 0
        reason = ""
        try:
            while chunk := await self._process.stdout.read(CHUNK):
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    parts.append(line)
                    await self._deliver(b"".join(parts))
                    parts, size = [], 0
                parts.append(rest)
                size += len(rest)
                if size > self._max_bytes:
                    reason = f"sent a message of more than {self._max_bytes:,} bytes (max_message_bytes)"
                    break
            reason = reason or await self._how_it_left()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            reason = "was closed"
        except OSError as error:
            reason = f"could not be read from: {error}"
        if not self._leaving:
            self._on_end(reason)
        self._inbox.close()

    async def _deliver(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            messages = [types.jsonrpc_message_adapter.validate_json(line, by_name=False)]
        except ValueError:
            messages = _messages_in(line)
        if not messages:
            self._note_babble(line)
        for message in messages:
            await self._inbox.send(SessionMessage(message))

    def _note_babble(self, line: bytes) -> None:
        self.babble = _shown(line)
        self._babbled += 1
        if self._babbled <= MAX_BABBLE:
            logger.warning("%s wrote something to stdout that is no message: %s", self._label, self.babble)
        if self._babbled == MAX_BABBLE:
            logger.warning("%s goes on writing what is no message to stdout; no more of it is logged", self._label)

    async def _how_it_left(self) -> str:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), EXIT_S)
        code = self._process.returncode
        if code is None:
            return "closed its stdout"
        return f"ended with code {code}" if code >= 0 else f"was killed by signal {-code}"

    async def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            async for message in self._outbox:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(text.encode() + b"\n")
                await self._process.stdin.drain()
        except (OSError, anyio.ClosedResourceError):
            return  # its end is noticed by the reader
        except ValueError as error:
            self._on_end(f"could not be told: {error}")

    async def _listen(self) -> None:
        """Log what the server says on stderr, line by line."""
        assert self._process.stderr is not None
        rest = b""
        with suppress(OSError):
            while chunk := await self._process.stderr.read(CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > MAX_STDERR_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._note(line)
            self._note(rest)

    def _note(self, line: bytes) -> None:
        if line.strip():
            self.said.append(_shown(line))
            logger.info("%s: %s", self._label, _shown(line, MAX_STDERR_LINE))

    async def _stop(self) -> None:
        """Close its stdin, as the protocol asks; end it where that is not enough."""
        process = self._process
        assert process.stdin is not None
        process.stdin.close()
        for step in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            if step is not None:
                self._signal(step)
            # Not `wait()`: that waits for the pipes too, which a child of the server may hold.
            for _ in range(int(EXIT_S / 0.01)):
                if process.returncode is not None:
                    return
                await asyncio.sleep(0.01)
        logger.warning("%s: process %d does not end", self._label, process.pid)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()


def _messages_in(line: bytes) -> list[Any]:
    """Return the messages in a line that is not one itself.

    Servers of 2025-03-26 may send several as a list; those in JavaScript send half characters, as of a text that was
    cut; and an answer of a wrong form is still known by its id, so that nobody has to wait for it until the time is up.
    """
    try:
        told = clean_value(json.loads(line))
    except ValueError:
        return []
    found: list[Any] = []
    for one in told if isinstance(told, list) else [told]:
        try:
            found.append(types.jsonrpc_message_adapter.validate_python(one, by_name=False))
        except ValueError:
            if isinstance(one, dict) and isinstance(one.get("id"), int | str) and "method" not in one:
                error = types.ErrorData(
                    code=types.INTERNAL_ERROR, message="its answer has neither a result nor an error"
                )
                found.append(types.JSONRPCError(jsonrpc="2.0", id=one["id"], error=error))
    return found


def _shown(line: bytes, limit: int = 300) -> str:
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= limit else f"{text[:limit]}…"


def as_command(given: Any) -> tuple[str, ...]:
    """Return a list of words as a command.

    Raises:
        TypeError: it is none; the text says why.
    """
    words = tuple(os.fspath(word) if isinstance(word, os.PathLike) else word for word in given)
    if not words or not words[0]:
        raise TypeError("the command is empty; expected for instance ['npx', '-y', 'some-server']")
    if wrong := [word for word in words if not isinstance(word, str)]:
        raise TypeError(f"every word of the command must be a string; got {wrong[0]!r}")
    if any("\0" in word for word in words):
        raise TypeError("the command holds a NUL character")
    return words
