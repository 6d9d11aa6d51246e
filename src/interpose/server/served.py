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
from interpose.server.log_writer import LogWriter
from interpose.server.options import Options

PAGE = 500
POLL_S = (0.02, 0.25)
"""How long another worker's reader waits for more, at first and at most."""
LOST_S = 15.0
"""A worker that was not heard of for so long is taken to be dead."""


class Served:
    """One run that goes on here."""

    def __init__(self, name: str, agent: Agent[Any], writer: LogWriter, caller: Caller, options: Options) -> None:
        self.name = name
        self.agent = agent
        self.log = writer.log
        self._writer = writer
        self.owner = caller.owner
        self.run_id = kept_id(caller.owner, caller.run_id)
        self.thread_id = kept_id(caller.owner, caller.thread_id)
        self.failed = Failed()
        self.shown = Shown(caller.owner, self.run_id, self.thread_id, self.failed, options.show_error)
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
        status: RunStatus = "failed"
        events: list[tuple[int, str]] = []
        async for event in self.stream:
            data = self.shown.event(event).to_json()
            if self.log.is_shared:
                self._writer.add(self.run_id, event.seq or 0, data)
            else:
                events.append((event.seq or 0, data))
            status = _status_after(event)
        await self._writer.end(self.run_id, events, status)


def _status_after(event: AnyEvent) -> RunStatus:
    if isinstance(event, RunFinishedEvent):
        return "interrupted" if (event.outcome or {}).get("type") == "interrupt" else "finished"
    return "failed"


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

    Where this worker closes, or the log is out of reach, there is no last event, and readers come back.
    """
    wait_s = POLL_S[0]
    while not is_closing():
        try:
            events, run = await log.read(run_id, after, PAGE)
        except StoreError as error:
            logger.warning(
                "the events of run %s are out of reach, so that its reader has to come back: %s", run_id, error
            )
            return
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
