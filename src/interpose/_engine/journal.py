"""The journal: a run's checkpoint, written while it goes on, so that a killed run repeats nothing that was finished.

It begins when the run does; then comes one part after each model response, and one for the tool results that come at
the same moment. A call that changes something is noted before it begins: where a result is missing, it may have
happened. A nested run writes into the journal of the run around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from interpose._engine.resuming import STRUCTURED
from interpose._engine.saving import (
    Written,
    changed,
    first_fields,
    grown,
    offered,
    paused_checkpoint,
    resumed_checkpoint,
)
from interpose.checkpoint import Checkpoint
from interpose.errors import ResumeError, StoreError
from interpose.saved import SavedResult

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose.interrupts import OpenInterrupt
    from interpose.messages import ToolResult

RETRY_S = (0.05, 0.2, 0.75, 2.0, 4.0)
"""How long to wait for a store that is out of reach before the next tries, in seconds; then the run fails."""


class Journal:
    """The parts of one run's checkpoint, written one after the other."""

    __slots__ = (
        "asked",
        "back",
        "call_id",
        "failure",
        "lock",
        "lost",
        "noted",
        "number",
        "offered",
        "outer",
        "part",
        "pending",
        "phase",
        "run",
        "store",
        "task",
        "written",
    )

    def __init__(self, run: Run, store: Any, outer: Journal | None = None, call_id: str = "") -> None:
        self.run = run
        self.store = store
        self.outer = outer
        self.call_id = call_id
        self.part = -1
        self.number = 0
        self.phase = "init"
        self.offered: dict[str, Any] = {}
        self.written = Written()
        self.lock = asyncio.Lock()
        self.failure: Exception | None = None
        self.back: Checkpoint | None = None
        self.lost = False
        self.noted: tuple[str, ...] = ()
        self.pending: dict[str, dict[str, Any]] = {}
        self.asked = False
        self.task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Write the first part; what the run goes on from, or settles, is used up with it.

        Raises:
            ResumeError: that was gone on with elsewhere.
        """
        run = self.run
        replaces: str | None = None
        at: int | None = None
        if run.resumption is not None:
            first = resumed_checkpoint(run)
            self.number, self.phase = first.number, first.phase
            self.offered = {"offered": first.offered, "asks": first.asks}
            self.written.messages, self.written.steps = len(first.messages), len(first.steps)
            self.written.answered.update(first.answered)
            if run.parent is None:
                self.back = run.resumption.checkpoint
                replaces, at = run.resumed_from, self.back.part
        else:
            first = Checkpoint(run_id=run.run_id, phase="init", **first_fields(run), **grown(run, self.written))
            if run.superseded:
                replaces = run.superseded[0]
        self.part = 0
        await self._put(first, replaces, at)
        if self.outer is None:
            run.claimed = False
            for one in run.superseded[1:]:
                await self.store.drop(one)
            run.superseded = ()

    async def give_back(self) -> None:
        """Put what the run went on from in its place again, where the run has come to nothing new."""
        back = self.back
        if back is not None and self.part == 0 and not self.lost:
            await self.store.put(back.replace(part=0), replaces=self.run.run_id)

    async def answered(self) -> None:
        """Write that the model has answered."""
        run = self.run
        self.phase = STRUCTURED if run.phase == STRUCTURED else "after_model"
        self.number = run.number + (self.phase == STRUCTURED)
        self.offered = offered(run)
        self.written.answered.clear()
        self.noted = started_at_once(run)
        await self._write(started=self.noted, **grown(run, self.written))

    async def starting(self, call_id: str) -> None:
        """Write that a call which changes something is about to begin, if it is not noted yet."""
        if call_id in self.noted:
            return
        self._pend("started", call_id, None)
        task = self._soon()  # a layer that gives up in the middle must not leave a gap
        await asyncio.wait((task,))
        task.result()

    def finished(self, result: ToolResult, *, sole: bool) -> None:
        """Take the result of a call, to be written together with those that come at the same moment."""
        self._pend("answered", result.tool_call_id, SavedResult.of(result))
        if not sole and not self.asked:
            self.asked = True
            self.run.loop.call_soon(self._start)

    def _start(self) -> None:
        self.asked = False
        if self.pending:
            self._soon()

    async def settled(self) -> None:
        """Wait until everything so far is written."""
        if self.task is not None:
            await asyncio.wait((self.task,))
            self.task.result()
        if self.pending:
            await self._write()

    async def quiet(self) -> None:
        """Wait until nothing is being written."""
        if self.task is not None:
            await asyncio.wait((self.task,))
            if not self.task.cancelled():
                self.task.exception()
        self.pending.clear()

    async def paused(self, interrupts: tuple[OpenInterrupt, ...]) -> None:
        """Write that the run pauses on *interrupts*.

        Raises:
            ResumeError: what it goes on from was gone on with elsewhere.
        """
        await self.quiet()
        self.part += 1
        await self._put(paused_checkpoint(self.run, interrupts, self.written).replace(part=self.part))

    async def within(self, call_id: str, part: Checkpoint) -> None:
        """Write a part of a run that is nested in this one, by the tool call with *call_id*."""
        self._pend("nested", call_id, part)
        task = self._soon()
        await asyncio.wait((task,))
        task.result()

    def _pend(self, kind: str, key: str, value: Any) -> None:
        self.pending.setdefault(kind, {})[key] = value

    def _soon(self) -> asyncio.Task[None]:
        """Return the task that writes what is pending, with what is added before it gets to it."""
        if self.task is None or self.task.done() or self.lock.locked():
            self.task = self.run.loop.create_task(self._flush())
            self.task.add_done_callback(_seen)
        return self.task

    async def _flush(self) -> None:
        async with self.lock:
            if self.pending:
                await self._append({})

    async def _write(self, **fields: Any) -> None:
        """Write a part with *fields* and what is pending."""
        async with self.lock:
            await self._append(fields)

    async def _append(self, fields: dict[str, Any]) -> None:
        pending, self.pending = self.pending, {}
        if "started" in pending:
            fields["started"] = (*fields.get("started", ()), *pending["started"])
        if "answered" in pending:
            fields["answered"] = pending["answered"]
            self.written.answered.update(pending["answered"])
        if "nested" in pending:
            fields["nested"] = pending["nested"]
        self.part += 1
        await self._put(
            Checkpoint(
                run_id=self.run.run_id,
                part=self.part,
                number=self.number,
                phase=self.phase,
                **self.offered,
                **(fields if "usage" in fields else fields | changed(self.run, self.written)),
            )
        )

    async def _put(self, part: Checkpoint, replaces: str | None = None, at: int | None = None) -> None:
        if self.failure is not None:
            raise self.failure  # a later part would leave a gap
        try:
            if self.outer is not None:
                await self.outer.within(self.call_id, part)
            else:
                await persist(self.run, lambda: self.store.put(part, replaces=replaces, at=at))
        except Exception as error:
            self.failure, self.lost = error, isinstance(error, ResumeError)
            raise


def started_at_once(run: Run) -> tuple[str, ...]:
    """Return the calls of the answer that change something and will begin with nothing in between: one write less."""
    plan, settling = run.plan, run.settling
    if settling is None or plan.tool_layers or plan.on_interrupt_boundary or plan.on_usage:
        return ()
    calls = settling[1].tool_calls
    if not calls or run.phase == STRUCTURED or run.limits.tool_concurrency is not None:
        return ()
    tools = run.offered(settling[0].tools).by_name
    return tuple(
        [
            call.id
            for call in calls
            if (tool := tools.get(call.name)) is not None and tool.effect == "write" and tool.approval is False
        ]
    )


def _seen(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # the next write raises it too


async def persist(run: Run, act: Callable[[], Awaitable[None]]) -> None:
    """Do what a store is asked, again for a while where it is out of reach; each write may be sent twice.

    Raises:
        StoreError: it stays out of reach.
    """
    for wait_s in RETRY_S:
        try:
            await act()
            return
        except StoreError:
            if run.closing or run.noted is not None:
                raise
        await run.clock.sleep(wait_s)
    await act()
