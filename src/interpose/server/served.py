"""A run that is served: while it goes on here, and as a log tells it where it ended or goes on elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from interpose.agent import Agent
from interpose.errors import StoreError
from interpose.event_log import EventLog, RunStatus, ServedRun
from interpose.events import AnyEvent, RunErrorEvent, RunFinishedEvent
from interpose.server.caller import Caller, kept_id
from interpose.server.failures import logger
from interpose.server.frames import Failed, Shown, framed
from interpose.server.options import Options

GATHER_S = 0.02
"""How long events are gathered before they are written."""
PAGE = 500
POLL_S = (0.02, 0.25)
"""How long another worker's reader waits for more, at first and at most."""
LOST_S = 15.0
"""A worker that was not heard of for so long is taken to be dead."""
RETRIES_S = (0.1, 0.5, 2.0, 5.0)


class Served:
    """One run that goes on here."""

    def __init__(self, name: str, agent: Agent[Any], log: EventLog, caller: Caller, options: Options) -> None:
        self.name = name
        self.agent = agent
        self.log = log
        self.owner = caller.owner
        self.run_id = kept_id(caller.owner, caller.run_id)
        self.thread_id = kept_id(caller.owner, caller.thread_id)
        self.failed = Failed()
        self.shown = Shown(caller.owner, self.run_id, self.failed, options.show_error)
        self.readers = 0
        self.is_over = False
        self.stream: Any = None
        self.task: asyncio.Task[None] | None = None

    async def frames(self, after: int) -> AsyncIterator[bytes]:
        """Yield the events after *after* as frames, until the run is over."""
        shown = self.shown
        try:
            run = self.agent.attach(self.run_id, after)
        except KeyError:  # it ended, and many others with it
            if self.task is not None:
                await asyncio.wait([self.task])
            async for frame in frames_of(self.log, self.run_id, after, lambda: False):
                yield frame
            return
        async with run:
            async for event in run:
                yield shown.frame(event)

    async def record(self) -> None:
        """Write the events to the log: while the run goes on where others can see the log, else at its end."""
        written = Written(self.log, self.run_id)
        status: RunStatus = "failed"
        async for event in self.stream:
            written.add(event.seq, self.shown.event(event).to_json())
            status = _status_after(event)
        await written.end(status)


def _status_after(event: AnyEvent) -> RunStatus:
    if isinstance(event, RunFinishedEvent):
        return "interrupted" if (event.outcome or {}).get("type") == "interrupt" else "finished"
    return "failed"


class Written:
    """Events on their way to a log, a few at a time."""

    def __init__(self, log: EventLog, run_id: str) -> None:
        self._log = log
        self._run_id = run_id
        self._waiting: list[tuple[int, str]] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, seq: int | None, data: str) -> None:
        """Take one more."""
        self._waiting.append((seq or 0, data))
        if self._log.is_shared and (self._writing is None or self._writing.done()):
            self._writing = asyncio.ensure_future(self._write())

    async def end(self, status: RunStatus) -> None:
        """Write what is left, and how the run ended."""
        if self._writing is not None:
            await self._writing
        await self._append(self._waiting, status)

    async def _write(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER_S)
            rows, self._waiting = self._waiting, []
            await self._append(rows, "running")

    async def _append(self, rows: list[tuple[int, str]], status: RunStatus) -> None:
        for wait_s in (*RETRIES_S, None):
            try:
                await self._log.append(self._run_id, rows, status)
            except StoreError as error:
                if wait_s is None:
                    logger.error("%s events of run %s could not be kept: %s", len(rows), self._run_id, error)
                else:
                    await asyncio.sleep(wait_s)
            else:
                return


class Elsewhere:
    """A run that ended, or goes on in another worker."""

    def __init__(self, log: EventLog, run: ServedRun, is_closing: Callable[[], bool]) -> None:
        self.log = log
        self.run = run
        self._is_closing = is_closing

    def frames(self, after: int) -> AsyncIterator[bytes]:
        """Yield the events after *after* as frames, until the run is over."""
        return frames_of(self.log, self.run.run_id, after, self._is_closing)


async def frames_of(log: EventLog, run_id: str, after: int, is_closing: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the frames of a run as a log has them, until it is over, its worker has died, or this one closes.

    Where this worker closes there is no last event, and readers come back to another.
    """
    wait_s = POLL_S[0]
    while not is_closing():
        events, run = await log.read(run_id, after, PAGE)
        for seq, data in events:
            yield framed(seq, data)
            after = seq
        if events:
            wait_s = POLL_S[0]
            continue
        if run is None or run.status != "running":
            return
        if run.silent_s > LOST_S:
            text = "the worker that ran this has gone; the run may be gone on with"
            yield framed(after + 1, RunErrorEvent(text, "lost").to_json())
            return
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 1.5, POLL_S[1])
