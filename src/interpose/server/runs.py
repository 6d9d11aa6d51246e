"""The runs of one worker: begun for their owners, read by many, remembered for a while, ended in good order."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from interpose.agent import Agent
from interpose.errors import RunAborted
from interpose.result import RunResult
from interpose.server.caller import Caller, kept_id
from interpose.server.failures import error_id, logger
from interpose.server.frames import FailedCalls, Shown
from interpose.server.http import Refusal
from interpose.server.options import Options

MAX_KEPT_BYTES = 64_000_000
"""How much of the events of runs that ended is kept, where no store keeps them."""
MAX_PAUSED = 1000
"""How many paused runs of agents without a store can be answered."""
WAIT_S = 10.0
"""How long answers wait for the run that asked to be over."""
BUSY = {"retry-after": "1"}


class Served:
    """One run that goes on here."""

    def __init__(self, name: str, agent: Agent[Any], caller: Caller, options: Options) -> None:
        self.name = name
        self.agent = agent
        self.owner = caller.owner
        self.run_id = kept_id(caller.owner, caller.run_id)
        self.thread_id = kept_id(caller.owner, caller.thread_id)
        self.failed: set[str] = set()
        self.shown = Shown(caller.owner, self.run_id, self.failed, options.show_error)
        self.readers = 0
        self.is_over = False
        self.stream: Any = None
        self.task: asyncio.Task[None] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Under which it is found."""
        return self.name, self.run_id

    async def frames(self, after: int) -> AsyncIterator[bytes]:
        """Yield the events after *after* as frames, until the run is over."""
        shown = self.shown
        async with self.agent.attach(self.run_id, after) as run:
            async for event in run:
                yield shown.frame(event)


class Ended:
    """What is kept of a run that ended: its frames, by their place."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.frames_kept = tuple(frames)
        self.size = sum(map(len, frames))
        self.until = 0.0

    async def frames(self, after: int) -> AsyncIterator[bytes]:
        """Yield the frames after *after*."""
        for frame in self.frames_kept[max(after + 1, 0) :]:
            yield frame


class Paused:
    """A run of an agent without a store that waits for answers."""

    def __init__(self, result: RunResult) -> None:
        self.run_id = result.run_id
        self.interrupts = result.interrupts
        self.checkpoint = result.checkpoint


class Runs:
    """All runs of the agents of one app, in one worker."""

    def __init__(self, agents: Mapping[str, Agent[Any]], options: Options) -> None:
        self.agents = dict(agents)
        self.stateless = {name: one if one.store is None else one.copy(store=None) for name, one in agents.items()}
        """The agents for requests that bring all that was said along, and leave nothing behind."""
        self.options = options
        self.is_closing = False
        self.active: dict[tuple[str, str], Served] = {}
        self.paused: OrderedDict[tuple[str, str], Paused] = OrderedDict()
        self._ended: OrderedDict[tuple[str, str], Ended] = OrderedDict()
        self._kept_bytes = 0
        self._others: dict[object, str] = {}

    # Beginning.

    def check_room(self, owner: str) -> None:
        """Check that a run more may begin.

        Raises:
            Refusal: the server is closing, or too many runs go on.
        """
        options = self.options
        if self.is_closing:
            raise Refusal(503, "closing", "this server is about to end; ask another, or again later", headers=BUSY)
        if len(self.active) + len(self._others) >= options.max_runs:
            raise Refusal(503, "busy", f"{options.max_runs} runs go on already; try again later", headers=BUSY)
        if options.max_runs_per_owner is not None:
            own = sum(one.owner == owner for one in self.active.values())
            own += sum(one == owner for one in self._others.values())
            if own >= options.max_runs_per_owner:
                raise Refusal(429, "too_many_runs", f"{own} of your runs go on already; wait for one", headers=BUSY)

    @asynccontextmanager
    async def counted(self, owner: str) -> AsyncIterator[None]:
        """Count a run that is not kept here: one that lives and dies with its request."""
        self.check_room(owner)
        key = object()
        self._others[key] = owner
        try:
            yield
        finally:
            del self._others[key]

    async def begin(
        self, name: str, caller: Caller, prompt: Any, *, paused: Any = None, answers: Any = None, middleware: Any = ()
    ) -> Served:
        """Begin a run and return it; with *answers*, one that goes on with *paused*.

        Raises:
            Refusal: there is no room, or the id is taken.
            ResumeError: the answers do not fit.
        """
        self.check_room(caller.owner)
        served = Served(name, self.agents[name], caller, self.options)
        if served.key in self.active or served.key in self._ended:
            raise Refusal(409, "run_exists", f"there is a run {caller.run_id!r} already; give each run its own id")
        self.active[served.key] = served
        try:
            names = {"parent_run_id": paused, "resume": answers} if answers is not None else {}
            context = self.options.context(caller) if self.options.context is not None else caller
            served.stream = await served.agent.start(
                prompt,
                context=context,
                thread_id=served.thread_id,
                run_id=served.run_id,
                middleware=[*middleware, FailedCalls(served.failed)],
                **names,
            )
        except BaseException:
            del self.active[served.key]
            raise
        ending = served.agent.attach(served.run_id)
        served.task = asyncio.ensure_future(self._follow(served, ending))
        return served

    async def _follow(self, served: Served, ending: Any) -> None:
        """Wait for the end of a run, and keep what there is to keep of it."""
        result: RunResult | None = None
        try:
            await ending.__aenter__()
            result = await ending.result()
        except RunAborted as error:
            logger.info("run %s was aborted: %s", served.run_id, error)
        except Exception:
            logger.exception("run %s failed (%s)", served.run_id, error_id(served.run_id, "run"))
        finally:
            served.is_over = True
            del self.active[served.key]
        if result is not None and result.status == "interrupted" and served.agent.store is None:
            self.paused[served.name, served.thread_id] = Paused(result)
            while len(self.paused) > MAX_PAUSED:
                self.paused.popitem(last=False)
        await self._keep(served)

    async def _keep(self, served: Served) -> None:
        """Keep the frames of a run that has just ended."""
        ended = Ended([served.shown.frame(event) async for event in served.stream])
        now = time.monotonic()
        ended.until = now + self.options.keep_s
        self._ended[served.key] = ended
        self._kept_bytes += ended.size
        while self._ended:
            first = next(iter(self._ended.values()))
            if self._kept_bytes <= MAX_KEPT_BYTES and first.until > now:
                break
            self._ended.popitem(last=False)
            self._kept_bytes -= first.size

    # Reading.

    def find(self, name: str, run_id: str) -> Served | Ended | None:
        """Return the run kept under *run_id*, if it goes on here or ended here lately."""
        return self.active.get((name, run_id)) or self._ended.get((name, run_id))

    @asynccontextmanager
    async def reading(self, run: Served | Ended, after: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the frames of a run, and see to what happens when its last reader leaves."""
        if isinstance(run, Ended):
            yield run.frames(after)
            return
        run.readers += 1
        try:
            yield run.frames(after)
        finally:
            run.readers -= 1
            if not run.readers and not run.is_over and self.options.on_disconnect == "cancel":
                loop = asyncio.get_running_loop()
                loop.call_later(self.options.disconnect_grace_s, self._cancel_unread, run)

    def _cancel_unread(self, run: Served) -> None:
        if not run.readers and not run.is_over:
            run.stream.abort("its reader left")

    # Ending.

    def cancel(self, run: Served, reason: str = "cancelled by its owner") -> None:
        """Stop a run."""
        run.stream.abort(reason)

    async def thread_is_free(self, name: str, thread_id: str) -> None:
        """Wait until no run of this worker is on the thread; not for ever."""
        tasks = [
            one.task for one in self.active.values() if (one.name, one.thread_id) == (name, thread_id) and one.task
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_S)

    async def close(self) -> None:
        """Take no more runs, let those that go on end, and stop the rest; with a store they can be gone on with."""
        self.is_closing = True
        if tasks := [one.task for one in self.active.values() if one.task is not None]:
            await asyncio.wait(tasks, timeout=self.options.shutdown_s)
        for agent in {*self.agents.values(), *self.stateless.values()}:
            with suppress(Exception):
                await agent.aclose()
        if tasks := [one.task for one in self.active.values() if one.task is not None]:
            await asyncio.wait(tasks, timeout=WAIT_S)
