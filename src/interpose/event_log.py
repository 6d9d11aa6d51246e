"""What keeps the events of runs that are served, so that a reader may come back, and to another worker too.

An optional part of a store, as its attribute `events`; servers keep events in memory where there is none.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from interpose.messages import Value

RunStatus = Literal["running", "finished", "interrupted", "failed"]


class ServedRun(Value, frozen=True, kw_only=True):
    """A run as it is known to those who serve it.

    *worker* is who runs it. *silent_s* is how long it is since that worker was heard of, in seconds. Times are in
    seconds since 1970, UTC.
    """

    run_id: str
    agent: str
    owner: str = ""
    thread_id: str = ""
    title: str = ""
    worker: str = ""
    status: RunStatus = "running"
    created_at: float = 0.0
    silent_s: float = 0.0


class ServedThread(Value, frozen=True, kw_only=True):
    """A thread as its owner sees it in a list; *title* is what the first run was asked."""

    thread_id: str
    title: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0


class LoggedEvents(NamedTuple):
    """Events of a run to be kept, pairs of place and JSON, and how the run does after them."""

    run_id: str
    events: Sequence[tuple[int, str]]
    status: RunStatus = "running"


class EventLog(Protocol):
    """Keeps events, each as a line of JSON under its run and its place there, and which runs there are.

    Each method is one act. *is_shared* says whether other processes see what is kept, and so whether events are to be
    written while a run goes on.
    """

    is_shared: bool

    async def begin(self, run: ServedRun, /) -> bool:
        """Note that a run begins, and that its thread was used; False where there is a run of this id already."""
        ...

    async def drop(self, run_id: str, /) -> None:
        """Forget a run that did not begin after all."""
        ...

    async def append(self, logged: Sequence[LoggedEvents], /) -> None:
        """Append events of runs that go on, and note how these do; the same again changes nothing."""
        ...

    async def read(self, run_id: str, after: int, limit: int, /) -> tuple[Sequence[tuple[int, str]], ServedRun | None]:
        """Return the events whose place is above *after*, in order, *limit* at most, and the run as it was then."""
        ...

    async def find(self, run_id: str, /) -> ServedRun | None:
        """Return a run, None where it is not known or was forgotten."""
        ...

    async def cancel(self, run_id: str, /) -> bool:
        """Ask the worker of a run to stop it; False where it does not go on."""
        ...

    async def beat(self, worker: str, /) -> Sequence[str]:
        """Note that a worker lives, and return the ids of its runs that were asked to be stopped."""
        ...

    async def threads(self, agent: str, owner: str, limit: int, before: float | None, /) -> Sequence[ServedThread]:
        """Return an owner's threads with an agent, those used last first; used before *before*, if it is given."""
        ...

    async def forget(self, older_s: float, /) -> None:
        """Forget the runs that ended *older_s* seconds ago, and their events; threads stay."""
        ...
