"""What a caller holds of a durable run: a handle, or a stream of its events."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from interpose.durable import engine
from interpose.durable.worker import Events
from interpose.errors import ConfigurationError
from interpose.events import AnyEvent
from interpose.result import RunResult

Status = Literal["queued", "running", "finished", "interrupted", "failed", "cancelled", "given_up"]
STATUSES: dict[str, Status] = {
    "DELAYED": "queued",
    "ENQUEUED": "queued",
    "PENDING": "running",
    "SUCCESS": "finished",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "given_up",
}


class Source(Protocol):
    """What handles ask."""

    async def _row(self, run_id: str, *, payload: bool = False, output: bool = False) -> Any: ...

    async def _result(self, run_id: str) -> RunResult: ...

    async def _cancel(self, run_id: str) -> None: ...


class RunHandle:
    """A run that was submitted, in this process or another, perhaps long ago."""

    def __init__(self, source: Source, run_id: str) -> None:
        self.run_id = run_id
        self._source = source

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id!r}>"

    async def result(self) -> RunResult:
        """Wait for the end and return the result; its `status` is "interrupted" where the run waits for answers.

        Raises:
            LookupError: there is no such run.
            RunAborted: it was cancelled, or aborted.
            Exception: what failed it, with `partial`; of a class that is not known here, a `RecordedError`.
        """
        return await self._source._result(self.run_id)

    async def status(self) -> Status:
        """Return how far the run is; "given_up" is one that killed its process again and again.

        Raises:
            LookupError: there is no such run.
        """
        return status_of(await self._source._row(self.run_id, output=True))

    async def cancel(self) -> None:
        """Cancel the run, wherever it is; one that runs is aborted within a second or two. Harmless after its end.

        Raises:
            LookupError: there is no such run.
        """
        await self._source._cancel(self.run_id)


class DurableStream:
    """A run of this process that is read event by event, inside `async with`; leaving does not end the run.

    Should the process die, the run goes on elsewhere, unread: `agents.handle(stream.run_id)` has its result.
    """

    def __init__(self, source: Source, readers: dict[str, Events], payload: dict[str, Any], run_id: str) -> None:
        self.run_id = run_id
        self._source = source
        self._readers = readers
        self._payload = payload
        self._events: Events = asyncio.Queue()

    async def __aenter__(self) -> Self:
        if self.run_id in self._readers:
            raise ConfigurationError(f"run {self.run_id!r} is read already; enter a stream once")
        self._readers[self.run_id] = self._events
        try:
            await engine.start(self.run_id, self._payload)
        except BaseException as error:
            del self._readers[self.run_id]
            if isinstance(error, engine.IdInUse):
                raise ConfigurationError(
                    f"run {self.run_id!r} was started before, so its events are not here; its result is: "
                    f"await agents.handle({self.run_id!r}).result()"
                ) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._readers.pop(self.run_id, None)

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        while (event := await self._events.get()) is not None:
            yield event
        await self.result()  # raises what failed the run

    async def result(self) -> RunResult:
        """Wait for the end and return the result.

        Raises:
            Exception: what failed the run.
        """
        return await self._source._result(self.run_id)


def status_of(row: Any) -> Status:
    """Return how far a run is, of a row that was read with its output."""
    paused = isinstance(row.output, dict) and row.output.get("status") == "interrupted"
    return "interrupted" if row.status == "SUCCESS" and paused else STATUSES[row.status]
