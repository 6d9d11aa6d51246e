"""The tool phase: the calls of one step, side by side, each in a task of its own, through the layers to the tools."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, current_task
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from interpose._engine.alone import Alone
from interpose._engine.call import Call
from interpose._engine.chain import Layer, Next, check_entry, compose, enter_beside, entries_of
from interpose._engine.execution import execute, gated
from interpose._engine.failures import first_failure, outranks, pause_instead, worst
from interpose._engine.interrupts import approved, declined, question
from interpose._engine.offered import Offered, own_copy
from interpose._engine.replay import replaying
from interpose._engine.signals import LimitHit, Note, Rank, Signal
from interpose._engine.steering import wrong
from interpose.context import ToolContext
from interpose.errors import HookError
from interpose.interrupts import OpenInterrupt
from interpose.messages import ToolCall, ToolResult
from interpose.outcomes import Abort, End, Pause, Skip
from interpose.tools import ArgumentError

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose.checkpoint import Checkpoint

TOOL_SEAM = (
    ("record", "opens the node, keeps the arguments that really ran"),
    ("agent tool hooks", "the agent's own before_tool and after_tool: a check in middleware sees final arguments"),
    ("middleware", "the user's layers, first listed outermost"),
    ("validate", "after every rewrite and before anyone is asked; what is wrong is answered inside the chain"),
    ("approval", "on the final, typed arguments"),
    ("count", "below the layers: a cached or refused call spends nothing"),
    ("error policy", "a tool's exception becomes a result; fatal errors, limits and cancellation go on up"),
    ("execute", "the tool itself"),
)
"""The stations of a tool call, outermost first, with the reason why each stands where it does."""

STEERS: dict[str, tuple[type, ...]] = {
    "before_tool_call": (Skip, Pause, End, Abort),
    "wrap_tool_call": (End, Pause, Abort),
    "after_tool_call": (End, Abort),
    "before_tool": (Skip, Pause, End, Abort),
    "after_tool": (End, Abort),
}
CUT_OFF = "cut off while it ran, and not run again: it may have taken effect, or in part"
GRACE_S = 2.0
"""How long a cancelled tool may take to clean up before the run goes on without it."""


class ToolPass(Call):
    """One tool call on its way through the chain."""

    seam = "tool_call"
    takes = ToolCall
    gives = ToolResult
    steers: ClassVar[Mapping[str, tuple[type, ...]]] = STEERS

    __slots__ = (
        "asked",
        "began",
        "counted",
        "granted",
        "node",
        "original",
        "phase",
        "ran",
        "result",
        "within",
    )

    def __init__(self, phase: ToolPhase, call: ToolCall) -> None:
        self.run = run = phase.run
        self.ctx: ToolContext[Any] = ToolContext(run, call)
        plan = run.plan
        self.layers = layers = plan.tool_layers
        entries = plan.tool_entries
        if entries is None:
            entries = plan.tool_entries = entries_of(layers, call_tool)
        self.entries = entries
        self.values = [None] * (len(layers) + 1)
        self.answered = False
        self.noted = self.retries = self.paused_at = self.stray = None
        self.odd = False
        self.value_type, self.result_type = ToolCall, ToolResult
        self.replay = run.resumption.kept_results(call.id) if run.resumption is not None else None
        if self.replay is not None:
            self.entries = replaying(entries)
        self.phase = phase
        self.original = call
        self.result: ToolResult | None = None
        self.asked: tuple[OpenInterrupt, ...] = ()
        self.within: Checkpoint | None = None
        self.began = self.counted = False
        self.granted = False
        self.node: Any = None
        self.ran: ToolCall = call

    def note(self, rank: Rank, value: Any) -> None:
        """Note an ending: a pause on this call alone, so that its siblings finish; anything else on the run."""
        if rank is Rank.PAUSE:
            self.pause(Note(rank, value))
        else:
            self.run.note(rank, value)

    def pause(self, note: Note) -> None:
        """Pause this call."""
        self.noted = note
        self.odd = True

    def made(self, layer: Layer, result: Any) -> Any:
        """Return *result* if it answers this call."""
        self.answered = True
        return self.checked(layer.name, result)

    def checked(self, who: str, result: Any) -> Any:
        """Return *result* if it answers this call.

        Raises:
            HookError: it answers another.
        """
        if result.tool_call_id != self.original.id:
            raise HookError(
                f"{who} answered call {self.original.id!r} with a result for {result.tool_call_id!r}; "
                f"call.answer(value) makes a result of this call"
            )
        return result

    def changed(self, layer: Layer, hook: str, before: ToolCall, after: ToolCall) -> ToolCall:
        """Return the rewritten call.

        Raises:
            HookError: its id differs.
        """
        if after.id != before.id:
            raise HookError(f"{layer.name}.{hook} changed the id of call {before.id!r} to {after.id!r}; ids must stay")
        return after

    def lift(self, layer: Layer, hook: str, value: Any) -> ToolResult:
        """Return a plain value as the result of this call.

        Raises:
            HookError: it is a value of another seam.
        """
        if isinstance(value, ToolCall | Skip | Pause | End | Abort) or type(value).__name__ in _OTHER_SEAMS:
            raise wrong(layer, hook, value, "a ToolResult, a plain value, End, Pause, Abort")
        return ToolResult(tool_call_id=self.original.id, data=value)


_OTHER_SEAMS = frozenset(("ModelRequest", "ModelResponse", "Retry", "Drop", "RunConfig"))


class ToolPhase:
    """The calls of one step and how far they are."""

    __slots__ = ("asks", "failed", "gates", "left", "refusal", "run", "tools")

    def __init__(self, run: Run, offered: Offered, refusal: str | None, *, asks: bool = False) -> None:
        self.run = run
        self.asks = asks
        self.left = 0
        self.failed = False
        self.tools = offered.by_name
        self.refusal = refusal
        self.gates: Sequence[Any] = ()
        if offered.alone or run.limits.tool_concurrency is not None:
            self.gates = _gates(offered.alone, run.limits.tool_concurrency)

    async def settle(self, calls: tuple[ToolCall, ...]) -> list[ToolPass]:
        """Run *calls* side by side and return them, each with its result, or with what was asked.

        Raises:
            Signal: the run was steered from inside; what had finished is kept on the passes, in `run.passes`.
        """
        run = self.run
        failure: BaseException | None = None
        if run.plan.tool_layers:
            calls = tuple([own_copy(call) for call in calls])
        passes = [ToolPass(self, calls[0])] if len(calls) == 1 else [ToolPass(self, call) for call in calls]
        run.passes = passes
        if run.noted is not None:  # also where another thread notes an ending just now
            for one in passes:
                one.odd = True
        todo = passes if run.resumption is None else run.resumption.unsettled(passes)
        tasks = (
            [run.create_task(self._run(todo[0]))] if len(todo) == 1 else [run.create_task(self._run(p)) for p in todo]
        )
        run.tool_tasks = tasks
        try:
            if len(tasks) == 1 and not run.pipe.active:
                self.left = 1
                while self.left:  # a late callback of the phase before may wake it too early
                    run.pump = run.loop.create_future()
                    await run.pump
                failure = first_failure(tasks)
            else:
                failure = await self._pump(tasks)
        except BaseException as error:
            failure = error
        run.pump = None
        if failure is not None:
            await self._cancel(tasks)
            failure = worst(tasks, failure)
        elif run.journal is not None:
            try:
                await run.journal.settled()
            except BaseException as error:
                failure = error
        run.tool_tasks = ()
        if run.pipe.emitted and not run.closing:
            await run.pipe.flush()
        if run.noted is not None and run.noted.rank is Rank.END:
            pause_instead(run, passes)
        if run.noted is not None and (failure is None or not outranks(failure, run.noted)):
            raise Signal(run.noted)
        if failure is not None:
            raise failure
        return passes

    def refused(self, call: ToolCall) -> ToolResult | None:
        """Return the answer to a call that may not run, or that names no tool on offer or has broken arguments."""
        if self.refusal is not None:
            tool = self.tools.get(call.name) if self.asks and call.error is None else None
            return call.refuse(self.refusal) if tool is None or tool.approval is False else None
        if call.name not in self.tools:
            offered = ", ".join(repr(one) for one in self.tools) or "none"
            return call.refuse(f"there is no tool {call.name!r}. Offered: {offered}")
        if call.error is not None:
            return call.refuse(f"{call.name}: {call.error}. You sent: {(call.raw or '')[:2000]}")
        return None

    async def _pump(self, tasks: list[asyncio.Task[None]]) -> BaseException | None:
        """Send what the tools emit until all have ended, or one has failed; return that failure.

        It waits for a future and not for the tasks: a tool that ignores a cancellation must not keep the run.
        """
        run = self.run
        self.left = len(tasks)
        if self.left > 1:  # a sole one tells its end itself; only the run cancels it, which then waits for it
            for task in tasks:
                task.add_done_callback(self._done)
        while self.left:
            if run.pipe.emitted:
                await run.pipe.flush()
            run.pump = run.loop.create_future()
            if self.left and not run.pipe.emitted:
                await run.pump
            if self.failed:
                break
        return first_failure(tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Count the end of a task, also of one that was cancelled before its first step."""
        if task.cancelled() or task.exception() is not None:
            self.failed = True
        self.left = max(self.left - 1, 0)
        if self.failed or self.left == 0:
            self.run.wake_pump()

    async def _cancel(self, tasks: list[asyncio.Task[None]]) -> None:
        """Cancel what still runs, and wait for its clean-up, but not for ever."""
        open_tasks = [task for task in tasks if not task.done()]
        for task in open_tasks:
            task.cancel()
        waited = 0.0
        while open_tasks and waited < GRACE_S:
            try:
                await asyncio.wait(open_tasks, timeout=0.5)
            except CancelledError:
                if not self.run.closing and self.run.noted is None:
                    self.run.note(Rank.CANCEL, "cancelled")
            open_tasks = [task for task in open_tasks if not task.done()]
            for task in open_tasks:
                task.cancel()
            waited += 0.5
        if open_tasks:
            self.run.log("a cancelled tool did not end; the run goes on without it")
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()

    async def _run(self, one: ToolPass) -> None:
        run = self.run
        one.task = current_task()  # type: ignore[assignment]  # a coroutine runs in a task
        if run.record is not None:
            one.node = one.ctx._node = await run.record.open_tool(one)
        failure: BaseException | None = None
        try:
            result = await compose(one, one.original)
            if one.noted is not None:
                raise Signal(one.noted)
            one.result = one.checked("a layer", result)
            if run.journal is not None:
                run.journal.finished(one.result, sole=self.left == 1)
        except BaseException as error:
            if not isinstance(error, Signal) or error.note is not one.noted:
                failure = error
                raise
            pause = error.note.value
            one.asked = one.asked or (question(run, pause.reason, pause.value, one.ran),)
        finally:
            if one.node is not None:
                await run.record.close_tool(one, failure)  # type: ignore[union-attr]  # there
            failure = None  # its traceback holds this very frame
            if self.left == 1:  # the last one wakes the run itself, a turn of the loop before its callback would
                self.left = 0
                run.wake_pump()


def _gates(alone: bool, concurrency: int | None) -> list[Any]:
    gates: list[Any] = [Alone()] if alone else []
    if concurrency is not None:
        gates.append(asyncio.Semaphore(concurrency))
    return gates


async def call_tool(one: Any, index: int, call: ToolCall, via: Next | None) -> ToolResult:
    """Validate, ask, count and execute one tool call: the core of the seam."""
    if via is not None and not via.owner.cr_running:
        return await enter_beside(call_tool, one, index, call, via)  # type: ignore[no-any-return]  # what this gives
    if one.odd or call.__class__ is not ToolCall:
        check_entry(one, index, call)
    phase: ToolPhase = one.phase
    run = phase.run
    if call.id != one.original.id:
        one.changed(one.layers[index - 1], "call_next", one.original, call)
    one.values[index] = call
    one.answered = True
    one.ran = call
    one.ctx._call = call
    refused = phase.refused(call) if run.resumption is None else declined(run, call) or phase.refused(call)
    if refused is not None:
        return refused
    tool = phase.tools[call.name]
    resumed = run.resumption
    try:
        typed = tool.validate(call.args)
    except ArgumentError as error:
        return call.refuse(str(error))
    if tool.approval is not False and not await approved(run, one, tool, call.replace(args=typed)):
        raise Signal(one.noted)
    if resumed is not None and not one.granted and resumed.cut(call):
        return call.refuse(CUT_OFF)
    if phase.refusal is not None and not one.granted:
        return call.refuse(phase.refusal)
    counted = resumed is not None and call.id in resumed.nested
    hit = None if counted else run.meter.count_tool_call()
    one.counted = not counted
    if hit is not None:
        return _over_limit(run, hit, call)
    if phase.gates:
        result = await gated(one, tool, call, typed)
    else:
        result = await execute(one, tool, call, typed)
    if via is not None:
        via.given = result
    return result


def _over_limit(run: Run, hit: LimitHit, call: ToolCall) -> ToolResult:
    """Answer a call that a limit refuses; the run ends after the step, or raises."""
    if hit.run is not run or run.limits.on_exceeded == "raise":
        run.note(Rank.LIMIT, hit)
        raise Signal(run.noted)  # type: ignore[arg-type]  # just noted
    run.ends_after_step = hit
    return call.refuse(f"not executed: the limit of {hit.value} tool calls ({hit.limit}) is reached")
