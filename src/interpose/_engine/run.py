"""The run: one task, from messages in to result out. What lives through one run is held here and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import CancelledError
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from interpose._engine import threads
from interpose._engine.beside import Beside
from interpose._engine.buffer import Log, LogReader
from interpose._engine.chunks import IDLE, Pipe
from interpose._engine.legality import History
from interpose._engine.meter import meter_of
from interpose._engine.offered import Offered
from interpose._engine.plan import Hook
from interpose._engine.signals import LimitHit, Note, Rank, Signal
from interpose._engine.state import NO_USAGE, RunState
from interpose.context import RunContext
from interpose.errors import HookError, InterposeError, RunAborted
from interpose.ids import message_id
from interpose.messages import ToolResult
from interpose.models.base import Model, has_own_generate
from interpose.request import ModelRequest, ModelResponse, Step, Usage
from interpose.result import RunResult

if TYPE_CHECKING:
    pass

logger = logging.getLogger("interpose")


class Run(RunState):
    """One run: how it begins, is steered, waited for, and what it does beside its steps."""

    __slots__ = ("__weakref__",)

    @property
    def message_id(self) -> str:
        """The id of this step's message; made when somebody first asks, else it is that of the answer."""
        if self.told_id is None:
            self.told_id = message_id()
        return self.told_id

    @property
    def origin_id(self) -> str:
        """The id of the run that questions are numbered by: it stays over resumptions."""
        return self.run_id

    @property
    def request_id(self) -> str:
        """The id of the outermost run."""
        return self.parent.request_id if self.parent is not None else self.run_id

    # Beginning.

    def start(self, live: Callable[[Run], Coroutine[Any, Any, None]]) -> None:
        """Start the run's own task, which runs *live*, on the running loop."""
        self.started = True
        self.loop = asyncio.get_running_loop()
        self.thread_ident = threading.get_ident()
        self.clock = self.parent.clock if self.parent is not None else self.agent.clock
        self.ctx = RunContext(self)
        self.history = History()
        self.meter = meter_of(self)
        config = self.agent._config
        self.config = config if self.plan is self.agent._plan else config.replace(tools=self.plan.tools)
        self.own_model = True
        self.pipe = Pipe(self) if self.plan.on_chunk or self.buffer is not None else IDLE
        self.announces_output = self.agent._native_output
        self.has_plain_tasks = self.loop.get_task_factory() is None and isinstance(self.loop, asyncio.BaseEventLoop)
        self.task = self.create_task(live(self))
        if self.buffer is not None:
            self.task.add_done_callback(self._task_done)

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Return a task of *coroutine*: asyncio's own, which is the cheapest, unless the loop has another way."""
        if self.has_plain_tasks:
            return asyncio.Task(coroutine, loop=self.loop)
        return self.loop.create_task(coroutine)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        """Let those go who wait, also where the task was cancelled before its first step and so never ran."""
        if not self.done:
            self.failure = self.failure or RunAborted("cancelled before it began")
            self.finished()
        elif not task.cancelled() and task.exception() is not None:
            self.failure = self.failure or task.exception()

    def reader(self, after: int) -> Any:
        """Return a reader of this run's events."""
        return LogReader(self.buffer, after) if self.buffer.__class__ is Log else self.buffer

    # Steering.

    def note(self, rank: Rank, value: Any) -> None:
        """Note an ending; of several, the highest rank holds."""
        if not self.closing and (self.noted is None or rank > self.noted.rank):
            self.noted = Note(rank, value)
            if self.model_call is not None:
                self.model_call.odd = True
            for one in self.passes:
                one.odd = True

    def abort(self, reason: str = "") -> None:
        """Stop the run at once; from any thread."""
        if self.closing or self.done:
            return
        self.note(Rank.ABORT, reason)
        self.cancel_work()

    def cancel_work(self) -> None:
        """Cancel the run's task and its tools, from any thread."""
        if not self.started:
            return
        if threading.get_ident() == self.thread_ident:
            self._cancel()
        else:
            self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.closing or self.done or not self.alive:
            return
        if self.buffer is not None:
            self.buffer.take_back()
        for task in self.tool_tasks:
            task.cancel()
        self.task.cancel()

    def reach(self, hit: LimitHit) -> None:
        """Take account of a limit that was reached after its step; raises where the limits say so.

        Raises:
            Signal: the limit is not this run's own, or its run wants it raised.
        """
        if hit.run is not self or hit.run.limits.on_exceeded == "raise":
            self.note(Rank.LIMIT, hit)
            raise Signal(self.noted)  # type: ignore[arg-type]  # just noted

    def out_of_time(self) -> None:
        """Cut the run: `max_duration_s` is over."""
        self.note(Rank.LIMIT, LimitHit(self, "max_duration_s", self.limits.max_duration_s))
        self._cancel()

    async def leave(self) -> None:
        """End the run for a reader who goes away, and wait until it is over."""
        if not self.done and self.buffer is not None and not self.buffer.read_out:
            self.note(Rank.CANCEL, "the reader left")
            self._cancel()
        await self.over()
        if self.failure is not None and self.result is not None and not self.raised:
            self.raised = True
            raise self.failure  # of `on_finish`: the run itself was fine

    async def over(self) -> None:
        """Wait until the run is over; a cancellation of the caller cancels the run and is raised after it has ended."""
        if not self.done and self.is_inside():
            raise InterposeError("a run cannot wait for its own end: do not await it from one of its hooks or tools")
        cancelled: CancelledError | None = None
        while not self.done:
            waiter = self.loop.create_future()
            self.waiters = (*self.waiters, waiter)
            try:
                await waiter
            except CancelledError as error:
                first, cancelled = cancelled is None, error
                if first:  # a second one must not cut the closing
                    self.task.add_done_callback(self._task_done)
                    self.on_caller_cancelled()
        if cancelled is not None:
            raise cancelled

    def is_inside(self) -> bool:
        """Whether the current task is the run's own, or one of its tools'."""
        task = asyncio.current_task()
        return task is self.task or task in self.tool_tasks

    def on_caller_cancelled(self) -> None:
        """Cancel the run, whose caller was cancelled; a nested run goes the way of its parent."""
        noted = self.parent.noted if self.parent is not None else None
        if noted is not None and noted.rank is Rank.ABORT:
            self.abort(noted.value)
            return
        if noted is not None and noted.rank is Rank.LIMIT:
            self.note(Rank.LIMIT, noted.value)
            self._cancel()
            return
        self.note(Rank.CANCEL, "cancelled")
        self._cancel()

    async def wait(self) -> RunResult:
        """Wait for the end and return the result.

        Raises:
            Exception: what failed the run.
        """
        await self.over()
        return self.outcome()

    def outcome(self) -> RunResult:
        """Return the result of a run that is over, or raise what failed it."""
        self.raise_failure()
        return self.result  # type: ignore[return-value]  # without a failure there is one

    def raise_failure(self) -> None:
        """Raise what failed the run, if anything did."""
        if self.failure is not None:
            self.raised = True
            raise self.failure

    def finished(self) -> None:
        """Let those go who wait for the end, and break the cycles of the run."""
        self.done = True
        if self.locked is not None:
            threads.release(self.locked, self.thread_id)
            self.locked = None
        if self.buffer is not None:
            self.buffer.close()
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters = ()
        self.agent._runs.ended(self)
        self.model_call = self.partial_assembly = self.record = self.beside = None
        self.passes = self.tool_tasks = ()
        self.pipe.narrator = None
        self.pipe = IDLE
        del self.ctx, self.meter

    # Hooks.

    async def tell(self, hook: Hook, *args: Any) -> None:
        """Call a hook that may return nothing.

        Raises:
            HookError: it returned something.
        """
        said = hook.call(self.ctx, *args)
        if hook.is_async or (said is not None and hasattr(said, "__await__")):
            said = await said
        if said is not None:
            raise HookError(f"{hook!r} returned {type(said).__name__} ({said!r:.80}); expected nothing")
        if self.noted is not None:
            raise Signal(self.noted)

    # Models.

    def resolve(self, model: Any) -> Model:
        """Return the model of a config: a `Model`, a name of the agent's provider, or "provider:name"."""
        if not isinstance(model, str):
            return model  # type: ignore[no-any-return]  # a config's model
        from interpose.models import is_provider, resolve

        head, colon, _ = model.partition(":")
        if colon and is_provider(head):
            return resolve(model)
        return self.agent.model

    def model_for(self, request: ModelRequest) -> Model:
        """Return the model that *request* is for."""
        return self.agent.model if request.target is None else request.target

    def generates(self, model: Model) -> bool:
        """Whether *model* has a `generate` of its own, or nothing else."""
        if self.limits.dead_air_s is not None:
            return False
        return self.agent._generates if model is self.agent.model else has_own_generate(model)

    def offered(self, tools: tuple[Any, ...]) -> Offered:
        """Return what is looked up in *tools* for each call; steps that offer the same share it."""
        if self._offered is None or self._offered.tools is not tools:
            self._offered = Offered(tools)
        return self._offered

    # What happened.

    def add_usage(self, usage: Usage) -> None:
        """Add what a model call used, here and in the runs around this one."""
        run: Run | None = self
        while run is not None:
            run.usage = usage if run.usage is NO_USAGE else run.usage + usage
            if run.record is not None:
                run.record.spend(usage)
            run = run.parent

    def settle_response(self, request: ModelRequest, response: ModelResponse, usage: Usage | None) -> None:
        """Put an answer in the history; its step is made when its calls are settled."""
        self.sent = request
        self.settling = (request, response, usage)
        self.history.add_answer(response.message)

    def finish_step(self, results: tuple[ToolResult, ...]) -> None:
        """Make the step whose answer and calls are settled."""
        if self.settling is not None:
            request, response, usage = self.settling
            self.steps.append(Step(self.number, request, response, results, usage))
            self.tool_call_count += len(response.tool_calls)
            self.settling = None

    async def take_thread(self) -> None:
        """Wait until this run may have its thread to itself."""
        owner = self.agent.store or self.agent
        await threads.acquire(owner, self.thread_id)
        self.locked = owner

    async def give_way(self) -> bool:
        """Let other runs of this process that wait for the thread go first; False where there are none."""
        owner, self.locked = self.locked, None
        waited = await threads.give_way(owner, self.thread_id)
        self.locked = owner
        return waited

    # Work beside the run.

    def emit(self, name: str, value: Any) -> None:
        """Send a `CUSTOM` event."""
        if self.started:
            self.pipe.emit(name, value)

    async def flush(self) -> None:
        """Send what was emitted, and wait while the reader is far behind."""
        if self.pump is None and not self.pipe.busy:
            await self.pipe.flush()
        await self.pipe.room()

    def wake_pump(self) -> None:
        """Wake the tool phase."""
        pump = self.pump
        if pump is not None and not pump.done():
            pump.set_result(None)

    def spawn_flush(self) -> None:
        """Send what was emitted as soon as the loop is free, where no part of the run does it."""
        if not self.flushing:
            self.flushing = True
            self.loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self.flushing = False
        if self.pipe.emitted and not self.pipe.busy and not self.closing:
            self.defer(self.pipe.flush())

    def defer(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Start *coroutine* now; the end of the run waits for it."""
        self.beside = self.beside or Beside(self.run_id)
        self.beside.defer(coroutine)

    async def enter(self, manager: AbstractAsyncContextManager[Any]) -> Any:
        """Enter *manager* and leave it when the run is over."""
        self.beside = self.beside or Beside(self.run_id)
        return await self.beside.enter(manager)

    def log(self, text: str) -> None:
        """Log a warning about this run."""
        logger.warning("run %s: %s", self.run_id, text)
