"""The thread that does what takes longer with a SQLite file, waits for those who hold it, and says what is wrong."""

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from interpose.errors import InterposeError
from interpose.stores.operations import Operation
from interpose.stores.sqlite_file import Connection, Log, told

MAX_BATCH = 256


class Job(NamedTuple):
    """An operation, and who waits for it."""

    operation: Operation
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"


class Worker:
    """The thread. It ends when it takes None from `jobs`."""

    def __init__(self, path: str, timeout_s: float, log: Log) -> None:
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.is_ready = False
        """Whether the file is there, and its tables are those of this release."""
        self._path = path
        self._timeout_s = timeout_s
        self._log = log
        self._connection = Connection(path, timeout_s, log)
        self.thread = threading.Thread(target=self._work, name="interpose-sqlite", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while True:
            batch, ends = self._take()
            if batch:
                _tell(batch, self._answers([job.operation for job in batch]))
                del batch  # or what it holds would live until the next comes
            if ends:
                self._log.join()
                self._connection.close()
                return

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for a job, and take those that wait with it; say whether it is time to end."""
        batch: list[Job] = []
        job = self.jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == MAX_BATCH:
                return batch, False
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _answers(self, operations: Sequence[Operation]) -> list[Any]:
        """Return what each operation came to: a value, or the exception that it raised."""
        answers: list[Any] = []
        with suppress(Exception):  # one refuses, or breaks: then each for itself
            answers = self._connection.transaction(operations)
            self.is_ready = True
            return answers
        for one in operations:
            try:
                answers += self._connection.transaction([one])
                self.is_ready = True
            except (InterposeError, LookupError) as refusal:
                answers.append(refusal)
            except Exception as error:  # whatever it is, somebody waits for it
                answers.append(told(error, self._path, self._timeout_s))
        return answers


def _tell(batch: Sequence[Job], answers: Sequence[Any]) -> None:
    """Hand the answers to those who wait, with one call for each of their event loops."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = defaultdict(list)
    for job, answer in zip(batch, answers, strict=True):
        loops[job.loop].append((job.future, answer))
    for loop, answered in loops.items():
        with suppress(RuntimeError):  # a loop that is closed, and so nobody waits
            loop.call_soon_threadsafe(settle, answered)


def settle(answered: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
    """Give each future its answer; runs in its event loop."""
    for future, answer in answered:
        if future.done():
            continue  # cancelled
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
