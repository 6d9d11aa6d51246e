"""The runs of one worker: begun for their owners, read by many, remembered for a while, ended in good order."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from interpose.agent import Agent
from interpose.errors import RunAborted
from interpose.event_log import EventLog, ServedRun
from interpose.ids import random_id
from interpose.result import RunResult
from interpose.server.ag_ui_input import prompt_of
from interpose.server.caller import Caller
from interpose.server.failures import error_id, logger
from interpose.server.frames import NoteFailures
from interpose.server.http import Refusal
from interpose.server.log_writer import LogWriter
from interpose.server.memory_log import MemoryEventLog
from interpose.server.options import Options
from interpose.server.served import Elsewhere, Served

MAX_PAUSED = 1000
"""How many paused runs of agents without a store can be answered."""
WAIT_S = 10.0
"""How long answers wait for the run that asked to be over."""
BEAT_S = 1.0
"""How often other workers hear of this one, and it of them."""
FORGET_EVERY = 60
"""Beats."""
BUSY = {"retry-after": "1"}


class Paused:
    """A run of an agent without a store that waits for answers."""

    def __init__(self, result: RunResult) -> None:
        self.run_id = result.run_id
        self.thread_id = result.thread_id
        self.interrupts = result.interrupts
        self.checkpoint = result.checkpoint


class Runs:
    """All runs of the agents of one app, in one worker."""

    def __init__(self, agents: Mapping[str, Agent[Any]], options: Options) -> None:
        self.agents = dict(agents)
        self.stateless = {name: one if one.store is None else one.copy(store=None) for name, one in agents.items()}
        """The agents for requests that bring all that was said along, and leave nothing behind."""
        self.options = options
        self.worker = random_id("worker")
        self.is_closing = False
        self.active: dict[tuple[str, str], Served] = {}
        self.paused: OrderedDict[tuple[str, str], Paused] = OrderedDict()
        self._memory = MemoryEventLog()
        self._writers: dict[int, LogWriter] = {}
        self._others: dict[object, str] = {}
        self._beating: asyncio.Task[None] | None = None

    def log(self, name: str) -> EventLog:
        """Return what keeps the events of an agent's runs: its store, where that does, or this process."""
        log: EventLog | None = getattr(self.agents[name].store, "events", None)
        return self._memory if log is None else log

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
            StoreError: its store is out of reach.
        """
        self.check_room(caller.owner)
        log = self.log(name)
        writer = self._writers.setdefault(id(log), LogWriter(log))
        served = Served(name, self.agents[name], writer, caller, self.options)
        key = (name, served.run_id)
        taken = Refusal(409, "run_exists", f"there is a run {caller.run_id!r} already; give each run its own id")
        if key in self.active:
            raise taken
        self.active[key] = served
        try:
            known = ServedRun(
                run_id=served.run_id,
                agent=name,
                owner=caller.owner,
                thread_id=served.thread_id,
                title=prompt_of(prompt or ()),
                worker=self.worker,
            )
            if not await log.begin(known):
                raise taken
            try:
                await self._start(served, caller, prompt, paused, answers, middleware)
            except BaseException:
                await log.drop(served.run_id)
                raise
        except BaseException:
            del self.active[key]
            raise
        if self._beating is None or self._beating.done():
            self._beating = asyncio.ensure_future(self._beat())
        return served

    async def _start(
        self, served: Served, caller: Caller, prompt: Any, paused: Any, answers: Any, middleware: Any
    ) -> None:
        names = {"parent_run_id": paused, "resume": answers} if answers is not None else {}
        context = self.options.context(caller) if self.options.context is not None else caller
        served.stream = await served.agent.start(
            prompt,
            context=context,
            thread_id=None if answers is not None else served.thread_id,
            run_id=served.run_id,
            middleware=[*middleware, NoteFailures(served.failed)],
            **names,
        )
        served.failed.run = served.stream
        ending = served.agent.attach(served.run_id)
        await ending.__aenter__()
        served.task = asyncio.ensure_future(self._follow(served, ending))

    async def _follow(self, served: Served, ending: Any) -> None:
        """Wait for the end of a run, and keep what there is to keep of it."""
        recording = asyncio.ensure_future(served.record()) if served.log.is_shared else None
        try:
            await self._note_end(served, ending)
            served.is_over = True
            await (recording or served.record())
        except Exception:
            logger.exception("the events of run %s could not be kept", served.run_id)
        finally:
            served.is_over = True
            del self.active[served.name, served.run_id]

    async def _note_end(self, served: Served, ending: Any) -> None:
        try:
            result: RunResult = await ending.result()  # whoever waits so may not be cancelled, or the run is too
        except RunAborted as error:
            logger.info("run %s was aborted: %s", served.run_id, error)
        except Exception:
            logger.exception("run %s failed (%s)", served.run_id, error_id(served.run_id, "run"))
        else:
            if result.status == "interrupted" and served.agent.store is None:
                self.paused[served.name, served.thread_id] = Paused(result)
                while len(self.paused) > MAX_PAUSED:
                    self.paused.popitem(last=False)

    # Reading.

    async def find(self, name: str, run_id: str) -> Served | Elsewhere | None:
        """Return the run of an agent that is kept under *run_id*, if it goes on or ended lately."""
        served = self.active.get((name, run_id))
        if served is not None and served.task is not None:
            return served
        log = self.log(name)
        run = await log.find(run_id)
        return None if run is None or run.agent != name else Elsewhere(log, run, lambda: self.is_closing)

    async def is_own(self, name: str, run_id: str, agent: str | None = None) -> bool:
        """Whether a run in the store is of the agent that is served as *name*, and not of another one that shares it.

        Of a run that was not served lately, only what its *agent* calls itself is known, and that may be nothing.
        """
        run = await self.log(name).find(run_id)
        return run.agent == name if run is not None else agent in (None, self.agents[name].name)

    @asynccontextmanager
    async def reading(self, run: Served | Elsewhere, after: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the frames of a run, and see to what happens when its last reader leaves."""
        if isinstance(run, Elsewhere):
            yield run.frames(after)
            return
        run.readers += 1
        try:
            yield run.frames(after)
        finally:
            run.readers -= 1
            if not run.readers and not run.is_over and self.options.on_disconnect == "cancel":
                loop = asyncio.get_running_loop()
                loop.call_later(self.options.disconnect_grace_s, _cancel_unread, run)

    @property
    def readers(self) -> int:
        """How many read runs that go on here."""
        return sum(one.readers for one in self.active.values())

    # Ending.

    async def cancel(self, run: Served | Elsewhere) -> bool:
        """Stop a run; False where it is over."""
        if isinstance(run, Elsewhere):
            return await run.log.cancel(run.run.run_id)
        if run.is_over:
            return False
        run.stream.abort("cancelled by its owner")
        return True

    async def thread_is_free(self, name: str, thread_id: str) -> None:
        """Wait until no run of this worker is on the thread; not for ever."""
        tasks = [one.task for one in self.active.values() if one.thread_id == thread_id and one.name == name]
        if waiting := [task for task in tasks if task is not None]:
            await asyncio.wait(waiting, timeout=WAIT_S)

    async def close(self) -> None:
        """Take no more runs, let those that go on end, and stop the rest; with a store they can be gone on with."""
        self.is_closing = True
        await self._all_over(self.options.shutdown_s)
        for agent in {*self.agents.values(), *self.stateless.values()}:
            with suppress(Exception):
                await agent.aclose()
        await self._all_over(WAIT_S)
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])

    async def _all_over(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        while self.active or self._others:
            if asyncio.get_running_loop().time() >= until:
                return
            tasks = [one.task for one in self.active.values() if one.task is not None]
            await asyncio.wait(tasks, timeout=0.05) if tasks else await asyncio.sleep(0.05)

    async def _beat(self) -> None:
        """Tell other workers that this one lives, stop what they ask to be stopped, and forget what is old."""
        beats = 0
        while True:
            logs = {id(log): log for log in map(self.log, self.agents)}
            for log in logs.values():
                try:
                    asked = set(await log.beat(self.worker))
                    if beats % FORGET_EVERY == 0:
                        await log.forget(self.options.keep_s)
                except Exception as error:
                    logger.warning("the log of events is out of reach: %s", error)
                    continue
                for one in [one for one in self.active.values() if one.run_id in asked and one.log is log]:
                    await self.cancel(one)
            beats += 1
            await asyncio.sleep(BEAT_S)


def _cancel_unread(run: Served) -> None:
    if not run.readers and not run.is_over:
        run.stream.abort("its reader left")
