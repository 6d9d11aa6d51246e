"""SQLite: one file, safe from several processes.

A short write is made in the event loop itself. It goes to the page cache and waits for nothing: where another holds the
file, it is handed to a thread, as is all that takes longer. Handing over costs more than such a write does. What else
is asked in the same turn of the loop is one transaction, so that a parallel tool call more costs no commit of its own.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from interpose.errors import InterposeError
from interpose.stores.operations import Operation
from interpose.stores.sqlite_file import MEMORY, Connection, Log
from interpose.stores.sqlite_worker import Job, Worker, settle


class _Open:
    """What is open of a file, in one process."""

    def __init__(self, path: str, timeout_s: float) -> None:
        self.pid = os.getpid()
        self.log = Log(path)
        self.worker = Worker(path, timeout_s, self.log)
        self.inline = Connection(path, 0, self.log)
        self.lock = threading.Lock()  # event loops in several threads may share it

    def close(self) -> None:
        """End the thread, and close the file; not in a child of a fork, which would close its parent's."""
        if self.pid != os.getpid():
            return
        with self.lock:
            self.inline.close()
        self.worker.jobs.put(None)


class SQLiteDriver:
    """Runs operations on a file; `:memory:` is a database that lives as long as its connection."""

    def __init__(self, path: str, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._open: _Open | None = None
        self._before_fork: list[_Open] = []  # kept: closing a parent's connection in its child can damage the file
        self._end: weakref.finalize[Any, SQLiteDriver] | None = None
        self._asked: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._lock = threading.Lock()

    async def run(self, operation: Operation) -> Any:
        """Run one operation and return what it returns.

        Raises:
            StoreError: the database is locked, full, damaged, or no database.
        """
        loop = asyncio.get_running_loop()
        asked = self._asked.get(loop)
        is_short = operation.is_short and self._path != MEMORY
        if is_short and asked is None:
            self._asked[loop] = []
            loop.call_soon(self._do_asked, loop)
            answers = self._at_once([operation])
            if answers is not None:
                return _given(answers[0])
        job = Job(operation, loop, loop.create_future())
        if is_short and asked is not None:
            asked.append(job)
        else:
            self._opened().worker.jobs.put(job)
        return await job.future

    def _do_asked(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do what was asked in this turn of the loop beside the first, or hand it over."""
        batch = self._asked.pop(loop)
        if not batch:
            return
        answers = self._at_once([job.operation for job in batch])
        if answers is not None:
            settle([(job.future, answer) for job, answer in zip(batch, answers, strict=True)])
            return
        for job in batch:
            self._opened().worker.jobs.put(job)

    def _at_once(self, operations: Sequence[Operation]) -> list[Any] | None:
        """Return what operations come to; None where the thread has to do it, since it takes longer or goes wrong."""
        there = self._opened()
        if not there.worker.is_ready or not there.lock.acquire(blocking=False):
            return None
        try:
            return there.inline.transaction(operations)
        except (InterposeError, LookupError) as refusal:
            return [refusal] if len(operations) == 1 else None
        except Exception:  # what it was is found out, and told, by the thread
            return None
        finally:
            there.lock.release()

    def _opened(self) -> _Open:
        there = self._open
        if there is not None and there.pid == os.getpid():
            return there
        with self._lock:
            there = self._open
            if there is None or there.pid != os.getpid():
                if there is not None:
                    self._before_fork.append(there)
                there = self._open = _Open(self._path, self._timeout_s)
                self._end = weakref.finalize(self, there.close)
        return there

    async def aclose(self) -> None:
        """Finish what was asked and close the file; the next operation opens it again."""
        with self._lock:
            there, self._open = self._open, None
        if there is not None and there.pid == os.getpid() and self._end is not None:
            self._end()
            await asyncio.to_thread(there.worker.thread.join)


def _given(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer
