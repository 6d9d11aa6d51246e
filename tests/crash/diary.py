"""A diary of what really happens in a process, in which it may die at any line; a store and a model that keep it."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from interpose import Message, ModelRequest, ModelResponse
from interpose.checkpoint import Checkpoint
from interpose.models.base import Model, ModelChunk, TextDelta, fold
from interpose.testing.strict import RequestCheck
from interpose.testing.turns import Turn


class Diary:
    """Lines appended to a file, one write each: what a killed process has written stays.

    It dies at the line *dies_at*: that of this number, from 0, or that says so.
    """

    def __init__(self, path: Path, dies_at: int | str | None = None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._count = path.read_text().count("\n")
        self._dies_at = dies_at
        self._lock = threading.Lock()
        self._path = path

    def __call__(self, line: str) -> None:
        """Write a line; and die of it, where it is that one."""
        with self._lock:
            os.write(self._file, f"{line}\n".encode())
            if self._dies_at in (self._count, line):
                os.kill(os.getpid(), signal.SIGKILL)
            self._count += 1

    async def gate(self, name: str) -> None:
        """Wait as long as this gate is closed."""
        is_closed = partial(os.path.exists, gate_of(self._path, name))  # a look that takes microseconds
        if is_closed():
            self(f"waits at {name}")
        while is_closed():  # noqa: ASYNC110  # another process opens it
            await asyncio.sleep(0.005)


def gate_of(diary: Path, name: str) -> str:
    """Return the file that keeps a gate closed, while it is there, to who writes this diary."""
    return f"{diary}.{name}"


class DiaryStore:
    """A store that notes when each write begins, and when it is done.

    Claims lapse at once, as those of dead processes do after an hour, unless they are to *hold*. *before* is awaited
    before each write, with the number of those before it.
    """

    def __init__(
        self, store: Any, diary: Diary, before: Callable[[int], Awaitable[None]] | None = None, *, hold: bool = False
    ) -> None:
        self._store = store
        self._diary = diary
        self._before = before
        self._hold = hold
        self.writes = 0

    async def _noted(self, what: str, write: Callable[[], Awaitable[Any]], holds: Sequence[str] = ()) -> Any:
        number, self.writes = self.writes, self.writes + 1
        if self._before is not None:
            await self._before(number)
        self._diary(f"{what} begins {json.dumps(holds)}")
        came = await write()
        self._diary(f"{what} done {json.dumps(holds)}")
        return came

    async def load(self, thread_id: str, /, **options: Any) -> Any:
        return await self._store.load(thread_id, **options)

    async def commit(self, thread_id: str, run_id: str, messages: Any, /, **options: Any) -> None:
        write = partial(self._store.commit, thread_id, run_id, messages, **options)
        await self._noted("commit", write, _answers(messages))

    async def load_state(self, thread_id: str, /) -> Any:
        return await self._store.load_state(thread_id)

    async def save_state(self, thread_id: str, state: Mapping[str, Any], /) -> None:
        await self._noted("state", partial(self._store.save_state, thread_id, state))

    async def put(self, checkpoint: Checkpoint, /, **options: Any) -> None:
        await self._noted("put", partial(self._store.put, checkpoint, **options), held_by(checkpoint))

    async def get(self, run_id: str, /) -> Any:
        return await self._store.get(run_id)

    async def claim(self, run_id: str, ttl_s: float, /) -> bool:
        await self._diary.gate("claim")
        return bool(await self._noted("claim", partial(self._store.claim, run_id, ttl_s if self._hold else 0.0)))

    async def release(self, run_id: str, /) -> None:
        await self._noted("release", partial(self._store.release, run_id))

    async def drop(self, run_id: str, /) -> None:
        await self._noted("drop", partial(self._store.drop, run_id))

    async def paused(self, thread_id: str | None = None, /) -> Any:
        return await self._store.paused(thread_id)

    async def unfinished(self, thread_id: str | None = None, /) -> Any:
        return await self._store.unfinished(thread_id)

    async def key(self) -> bytes:
        return bytes(await self._store.key())


def held_by(checkpoint: Checkpoint, who: str = "agent") -> list[str]:
    """Return the calls of models and tools that a part of a checkpoint holds the ends of, as a diary names them."""
    held = [*_answers(checkpoint.messages, who), *[f"{who} ran {call_id}" for call_id in checkpoint.answered]]
    for inner in checkpoint.nested.values():
        held += held_by(inner, "helper")
    return held


def _answers(messages: Sequence[Message], who: str = "agent") -> list[str]:
    return [f"{who} said {message.text}" for message in messages if message.role == "assistant"]


class DiaryModel(Model):
    """Answers by the history alone, as *turn* says of how many answers it has; notes when it is asked, and answers."""

    def __init__(self, who: str, diary: Diary, turn: Callable[[int, ModelRequest], Turn]) -> None:
        self.provider = "scripted"
        self.name = who
        self.profile = None
        self._diary = diary
        self._turn = turn
        self._check = RequestCheck()

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        self._check(request)
        number = sum(message.role == "assistant" for message in request.messages)
        *chunks, last = self._turn(number, request).chunks
        said = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
        self._diary(f"{self.name} said {said} begins")
        await self._diary.gate(f"answer_{number}")
        for chunk in chunks:
            yield chunk
        self._diary(f"{self.name} said {said} done")
        yield last


class WholeModel(DiaryModel):
    """The same, with a `generate` of its own."""

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        return await fold(self.stream(request), request)
