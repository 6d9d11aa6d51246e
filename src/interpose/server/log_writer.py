"""Events on their way to a log: those of all runs together, every few milliseconds."""

import asyncio
from collections.abc import Sequence

from interpose.errors import StoreError
from interpose.event_log import EventLog, LoggedEvents, RunStatus
from interpose.server.failures import logger

GATHER_S = 0.02
"""How long events are gathered before they are written."""
RETRIES_S = (0.1, 0.5, 2.0, 5.0)


class LogWriter:
    """Writes the events of the runs of one worker to one log."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self._waiting: dict[str, list[tuple[int, str]]] = {}
        self._ended: dict[str, RunStatus] = {}
        self._told: asyncio.Future[None] | None = None
        self._writing: asyncio.Task[None] | None = None

    def add(self, run_id: str, seq: int, data: str) -> None:
        """Take an event of a run that goes on."""
        events = self._waiting.get(run_id)
        if events is None:
            events = self._waiting[run_id] = []
        events.append((seq, data))
        self._wake()

    async def end(self, run_id: str, events: Sequence[tuple[int, str]], status: RunStatus) -> None:
        """Take the last events of a run and how it ended, and return when that is written, or given up."""
        if not self.log.is_shared:
            await self._append([LoggedEvents(run_id, events, status)])
            return
        self._waiting.setdefault(run_id, []).extend(events)
        self._ended[run_id] = status
        if self._told is None:
            self._told = asyncio.get_running_loop().create_future()
        told = self._told
        self._wake()
        await told

    def _wake(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER_S)
            waiting, self._waiting = self._waiting, {}
            ended, self._ended = self._ended, {}
            told, self._told = self._told, None
            try:
                await self._append([LoggedEvents(id, rows, ended.get(id, "running")) for id, rows in waiting.items()])
            finally:
                if told is not None and not told.done():
                    told.set_result(None)

    async def _append(self, logged: list[LoggedEvents]) -> None:
        for wait_s in (*RETRIES_S, None):
            try:
                await self.log.append(logged)
            except StoreError as error:
                if wait_s is None:
                    logger.error("events of %s runs could not be kept: %s", len(logged), error)
                else:
                    await asyncio.sleep(wait_s)
            else:
                return
