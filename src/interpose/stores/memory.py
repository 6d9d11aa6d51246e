"""A store in memory, for one process."""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from interpose.checkpoint import Checkpoint
from interpose.clock import REAL_CLOCK, Clock
from interpose.ids import random_id
from interpose.messages import Message
from interpose.stores import refusals
from interpose.stores.encoding import read_checkpoint, read_messages, read_runs, read_state, write_state
from interpose.text import to_json


class _Thread:
    __slots__ = ("ids", "messages", "runs", "state")

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.ids: list[str] = []
        self.runs: set[str] = set()
        self.state: str | None = None


class _Run:
    __slots__ = ("claimed_until", "created_at", "parts", "status", "thread_id")

    def __init__(self, first: Checkpoint) -> None:
        self.thread_id = first.thread_id
        self.created_at = first.created_at
        self.status = first.status
        self.parts: dict[int, str] = {}
        self.claimed_until = 0.0


class MemoryStore:
    """Keeps threads and checkpoints as long as it lives, as JSON, so that nothing is shared with those who use it.

    Claims lapse by *clock*.
    """

    def __init__(self, *, clock: Clock = REAL_CLOCK) -> None:
        self._clock = clock
        self._threads: dict[str, _Thread] = {}
        self._runs: dict[str, _Run] = {}
        self._successors: dict[str, str] = {}
        self._key = os.urandom(32)
        self._lock = threading.Lock()  # runs of several event loops may share a store

    async def load(self, thread_id: str, /, *, after: int = 0, limit: int | None = None) -> Sequence[Message]:
        """Return the messages of a thread, oldest first."""
        thread = self._threads.get(thread_id)
        if thread is None:
            return ()
        texts = thread.messages[after:]
        return read_messages(thread_id, texts if limit is None else texts[:limit])

    async def commit(
        self,
        thread_id: str,
        run_id: str,
        messages: Sequence[Message],
        /,
        *,
        expected: int | None = None,
        checkpoint: Checkpoint | None = None,
        replaces: str | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Append the messages of a run; the same run twice changes nothing."""
        texts, ids = [to_json(message) for message in messages], [message.id for message in messages]
        state_text = None if state is None else write_state(state)
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            if run_id in thread.runs:
                return
            if expected is not None and expected != len(thread.messages):
                raise refusals.conflict(thread_id, expected, len(thread.messages))
            if replaces is not None and self._runs.pop(replaces, None) is None:
                raise refusals.used_up(replaces)
            self._threads[thread_id] = thread
            thread.runs.add(run_id)
            thread.messages += texts
            thread.ids += ids
            thread.state = thread.state if state_text is None else state_text
            if checkpoint is not None:
                self._begin(checkpoint, checkpoint.to_json())
            else:
                self._forget(run_id)

    async def fork(self, thread_id: str, message_id: str, /) -> str:
        """Return the id of a new thread that ends with a message of this one."""
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None or message_id not in thread.ids:
                raise refusals.no_message(thread_id, message_id)
            end = thread.ids.index(message_id) + 1
            copy = _Thread()
            copy.messages, copy.ids, copy.state = thread.messages[:end], thread.ids[:end], thread.state
            new_id = random_id("thread")
            self._threads[new_id] = copy
            return new_id

    async def load_state(self, thread_id: str, /) -> dict[str, Any]:
        """Return the state of a thread."""
        thread = self._threads.get(thread_id)
        return read_state(thread_id, None if thread is None else thread.state)

    async def save_state(self, thread_id: str, state: Mapping[str, Any], /) -> None:
        """Keep *state* for a thread."""
        text = write_state(state)
        with self._lock:
            self._threads.setdefault(thread_id, _Thread()).state = text

    async def put(self, checkpoint: Checkpoint, /, *, replaces: str | None = None, at: int | None = None) -> None:
        """Append a part of a run's checkpoint; the same part twice changes nothing."""
        run_id, part, text = checkpoint.run_id, checkpoint.part, checkpoint.to_json()
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None and part in run.parts:
                if run.parts[part] != text:
                    raise refusals.in_use(run_id, part)
            elif part == 0:
                if replaces is not None:
                    self._replace(replaces, run_id, at)
                self._begin(checkpoint, text)
            elif run is None:
                raise refusals.lost(run_id)
            else:
                run.parts[part] = text
                if checkpoint.status != "running":
                    run.status = checkpoint.status

    def _replace(self, old: str, new: str, at: int | None) -> None:
        run = self._runs.get(old)
        if run is None:
            raise refusals.used_up(old)
        if at is not None and max(run.parts) > at:
            raise refusals.went_on(old)
        del self._runs[old]
        for one, successor in self._successors.items():
            if successor == old:
                self._successors[one] = new
        self._successors[old] = new

    def _forget(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        for one in [one for one, successor in self._successors.items() if successor == run_id]:
            del self._successors[one]

    def _begin(self, checkpoint: Checkpoint, text: str) -> None:
        run = self._runs[checkpoint.run_id] = _Run(checkpoint)
        run.parts[checkpoint.part] = text

    async def get(self, run_id: str, /) -> Checkpoint | None:
        """Return all parts of a run's checkpoint as one; None where there is none."""
        run = self._runs.get(run_id) or self._runs.get(self._successors.get(run_id, ""))
        return None if run is None else read_checkpoint(run_id, list(run.parts.values()))

    async def claim(self, run_id: str, ttl_s: float, /) -> bool:
        """Take a run's checkpoint for oneself, for *ttl_s* seconds; False where it is taken, or not there."""
        with self._lock:
            run, now = self._runs.get(run_id), self._clock.now()
            if run is None or run.claimed_until > now:
                return False
            run.claimed_until = now + ttl_s
            return True

    async def release(self, run_id: str, /) -> None:
        """Give back a claim."""
        run = self._runs.get(run_id)
        if run is not None:
            run.claimed_until = 0.0

    async def drop(self, run_id: str, /) -> None:
        """Forget a run's checkpoint and the claim on it."""
        with self._lock:
            self._forget(run_id)

    async def paused(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for answers, by `created_at`."""
        return self._of_status("paused", thread_id)

    async def unfinished(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for nothing, by `created_at`."""
        return self._of_status("running", thread_id)

    def _of_status(self, status: str, thread_id: str | None) -> Sequence[Checkpoint]:
        runs = [pair for pair in list(self._runs.items()) if pair[1].status == status]
        runs = [pair for pair in runs if thread_id in (None, pair[1].thread_id)]
        runs.sort(key=lambda pair: (pair[1].created_at, pair[0]))
        return read_runs([(id, text) for id, run in runs for text in run.parts.values()], thread_id)

    async def key(self) -> bytes:
        """Return 32 random bytes, the same as long as the store lives."""
        return self._key
