"""The journal of a run: what its finished calls came to, by name, so that a run begun anew takes them from there.

Calls are told apart by what they are, such as the second call of the third step, and not by the order in which they
were recorded: calls that run side by side finish in any order.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

SIGN = "#"
"""Stands between the name of a call and the number of its record."""


class Journal:
    """What one run has recorded before, and where it records more.

    *recorded* are pairs of a name, as `write` was given it, and its value; *write* returns when the value is safe.
    """

    def __init__(
        self, run_id: str, recorded: Iterable[tuple[str, Any]], write: Callable[[str, Any], Awaitable[None]]
    ) -> None:
        self.run_id = run_id
        self.cut: dict[str, str] = {}
        """Model calls that were cut before their end, by the place in the run: the name under which they record."""
        self.left = False
        """Whether this process leaves the run to another: then it must do nothing more for it."""
        self.parts: dict[str, list[Any]] = {}
        """Parts of checkpoints that are not written yet, by the id of their run."""
        self._write = write
        self._left: dict[str, deque[Any]] = {}
        self._count: dict[str, int] = {}
        numbered = [(*_split(name), value) for name, value in recorded]
        for name, number, value in sorted(numbered, key=lambda one: one[1]):
            self._left.setdefault(name, deque()).append(value)
            self._count[name] = number + 1

    @property
    def replays(self) -> bool:
        """Whether there are records that were not taken yet."""
        return any(self._left.values())

    def take(self, name: str) -> Any:
        """Return the next record of *name*, as an earlier beginning of this run wrote it; None where there is none."""
        left = self._left.get(name)
        return left.popleft() if left else None

    async def add(self, name: str, value: Any) -> None:
        """Record *value*, which is not None and JSON-able, as the next of *name*."""
        number = self._count.get(name, 0)
        self._count[name] = number + 1
        await self._write(f"{name}{SIGN}{number}", value)


def _split(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition(SIGN)
    return head, int(number)


def is_record(name: str) -> bool:
    """Whether *name* is that of a record of a journal."""
    return name.rpartition(SIGN)[2].isdigit() and SIGN in name


_journal: ContextVar[Journal | None] = ContextVar("journal", default=None)
_place: ContextVar[str] = ContextVar("place", default="")


def current() -> Journal | None:
    """Return the journal of the run that this code belongs to; None outside durable runs."""
    return _journal.get()


def place() -> str:
    """Return where in the run this code is: empty, or the tool call whose nested run it belongs to, with a slash."""
    return _place.get()


@contextmanager
def keeping(journal: Journal) -> Iterator[None]:
    """Make *journal* the current one."""
    token = _journal.set(journal)
    try:
        yield
    finally:
        _journal.reset(token)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Name what is recorded inside after the tool call *name*."""
    token = _place.set(f"{name}/")
    try:
        yield
    finally:
        _place.reset(token)
