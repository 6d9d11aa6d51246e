"""Executors: the processes of a fleet, each under an id that nobody else has while it lives.

An executor holds a lock that its database, or the file system, takes back when its process is gone, however it went:
so others can tell that it is dead, and take over its runs.
"""

import os
import sys
from pathlib import Path
from typing import Protocol

from interpose.errors import ConfigurationError

MAX_EXECUTORS = 1000


class Lock(Protocol):
    """A lock that is held until `release`, or until the process is gone."""

    def held(self) -> bool:
        """Whether it is still held; one that was lost is taken again where it is free."""
        ...

    def release(self) -> None:
        """Let it go."""
        ...


class Locks(Protocol):
    """Takes the locks of executors, by id."""

    def take(self, executor: str) -> Lock | None:
        """Return the lock, or None where another process has it."""
        ...


class FileLocks:
    """Locks beside a SQLite file: one small file an executor, in `<file>.executors/`."""

    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(f"{database.name}.executors")

    def take(self, executor: str) -> Lock | None:
        """Return the lock, or None where another process has it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder / f"{executor}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
        except OSError:
            os.close(handle)
            return None
        return _FileLock(handle)


def _lock(handle: int) -> None:
    """Lock an open file until it is closed; an `OSError` where another process has it locked."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class _FileLock:
    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def take_id(locks: Locks, wanted: str | None) -> tuple[str, Lock]:
    """Return an id and its lock: *wanted*, or the first of `worker-0`, `worker-1` … that is free.

    Raises:
        ConfigurationError: another process has it.
    """
    if wanted is not None:
        lock = locks.take(wanted)
        if lock is None:
            raise ConfigurationError(
                f"another process runs as executor {wanted!r}: two of one id would each take the other's runs for "
                "crashed ones; give each process its own executor=, or none, and a free one is taken"
            )
        return wanted, lock
    for number in range(MAX_EXECUTORS):
        lock = locks.take(f"worker-{number}")
        if lock is not None:
            return f"worker-{number}", lock
    raise ConfigurationError(f"all of {MAX_EXECUTORS} executors are taken; give this one an executor= of its own")
