"""The part of a process that lives through runs: takes them from the queue, stops them, looks after the fleet."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from interpose.agent import Agent
from interpose.durable import engine
from interpose.durable.executors import Lock, Locks, take_id
from interpose.durable.journal import Journal, keeping
from interpose.durable.options import Options
from interpose.durable.records import Errors, run_record
from interpose.durable.resuming import resumption
from interpose.durable.steps import DBOSSteps, OnUnknown
from interpose.errors import ConfigurationError, RunAborted
from interpose.events import AnyEvent
from interpose.messages import Message
from interpose.result import RunResult

logger = logging.getLogger("interpose")
CLOSING_S = 30.0
"""How long runs in flight may take to stop when their process closes."""
WATCH_S = 1.0
"""How often a process looks for runs that were cancelled, and for executors that died."""
Events = asyncio.Queue[AnyEvent | None]


class _Life:
    """A run that this process lives through."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.task: asyncio.Task[RunResult] | None = None
        self.journal: Journal | None = None
        self.refused: BaseException | None = None
        self.left = False
        self.stopped = False

    def stop(self, *, left: bool = False) -> None:
        """Abort the run; where it is *left* to another process, nothing more is written of it."""
        self.left = self.left or left
        if self.journal is not None:
            self.journal.left = self.left
        if not self.stopped and self.task is not None:
            self.stopped = True
            self.task.cancel()

    async def lost(self, error: BaseException) -> None:
        """Stop, since what was to be recorded was refused; wait until that has reached the caller."""
        if not self.stopped:
            self.refused = error
            self.stop(left=True)
            await asyncio.Event().wait()


class Worker:
    """Lives through runs of *agents*, each in a workflow, from `launch` to `aclose`."""

    def __init__(
        self,
        agents: Mapping[str, Agent[Any]],
        options: Options,
        errors: Errors,
        on_unknown: OnUnknown | None,
        make_context: Callable[[Any], Any] | None,
    ) -> None:
        self.agents = agents
        self.readers: dict[str, Events] = {}
        """Who reads the events of runs of this process, by run id."""
        self.executor = ""
        self._options = options
        self._errors = errors
        self._on_unknown = on_unknown
        self._make_context = make_context
        self._running: list[_Life] = []
        self._locks: Locks | None = None
        self._lock: Lock | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._closing = False

    # Beginning and end.

    @property
    def is_launched(self) -> bool:
        """Whether it works."""
        return self._watcher is not None

    async def launch(self) -> None:
        """Take an id in the fleet, connect, and begin to work.

        Raises:
            ConfigurationError: DBOS runs in this process already, or another process has the id.
        """
        if engine.is_up():
            raise ConfigurationError(
                "DBOS runs in this process already, and can do so once: close the other DBOSAgents first, or give all "
                "agents to one; workflows of your own are registered beside it, without a DBOS(config=...) of theirs"
            )
        options = self._options
        self._locks = await asyncio.to_thread(options.locks)
        self.executor, self._lock = await asyncio.to_thread(take_id, self._locks, options.executor)
        self._closing = False
        try:
            config = options.config(self.executor)
            await engine.launch(self.live, config, options.queue, options.limits(), worker=options.worker)
        except BaseException:
            await self._shut_down()
            raise
        self._watcher = asyncio.create_task(self._watch(), context=contextvars.Context())

    async def aclose(self) -> None:
        """Stop; runs in flight stay open, and this executor or another goes on with them."""
        if self._watcher is None:
            return
        self._closing = True
        watcher, self._watcher = self._watcher, None
        watcher.cancel()
        for one in self._running:
            one.stop(left=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                while tasks := [one.task for one in self._running if one.task is not None]:
                    await asyncio.wait(tasks)
                    await asyncio.sleep(0)  # so that those who wait for them go on too
        await asyncio.wait([watcher])
        await self._shut_down()
        for agent in self.agents.values():
            await agent.aclose()

    async def _shut_down(self) -> None:
        await engine.shut_down()
        lock, self._lock = self._lock, None
        if lock is not None:
            await asyncio.to_thread(lock.release)

    # Runs.

    async def live(self, run_id: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Live through a run, in its workflow, and return its result as JSON.

        Raises:
            Failed: it failed.
            CancelledError: it was cancelled, or stays open for another process.
        """
        life = _Life(run_id)
        life.task = asyncio.create_task(self._run(life, payload))
        self._running.append(life)
        reader = self.readers.get(run_id)
        try:
            if self._closing:
                life.stop(left=True)
            return run_record(await life.task)
        except asyncio.CancelledError:
            if life.refused is not None:
                raise life.refused from None
            raise
        except Exception as error:
            if life.left and isinstance(error, RunAborted):
                raise asyncio.CancelledError from error
            partial = getattr(error, "partial", None)
            data = self._errors.record(error) | ({"partial": run_record(partial)} if partial is not None else {})
            raise engine.Failed(str(error), data) from error
        finally:
            self._running.remove(life)
            if reader is not None:
                reader.put_nowait(None)

    async def _run(self, life: _Life, payload: dict[str, Any]) -> RunResult:
        journal = life.journal = await engine.journal_of(life.run_id, life.lost)
        agent = self.agents.get(payload["agent"])
        if agent is None:
            raise ConfigurationError(f"executor {self.executor!r} has no agent {payload['agent']!r}; give all the same")
        messages, options = await self._arguments(agent, payload)
        options |= {"run_id": life.run_id, "middleware": [DBOSSteps(self._errors, self._on_unknown)]}
        with keeping(journal):
            reader = self.readers.get(life.run_id)
            if reader is None:
                return await agent.run(messages, **options)
            async with agent.stream(messages, **options) as stream:
                async for event in stream:
                    reader.put_nowait(event)
                return await stream.result()

    async def _arguments(self, agent: Agent[Any], payload: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        context = payload["context"]
        options: dict[str, Any] = {"context": context if self._make_context is None else self._make_context(context)}
        if payload.get("checkpoint") is not None:
            return None, options | await resumption(agent, payload["checkpoint"], payload["answers"])
        options["thread_id"] = payload["thread_id"]
        return msgspec.convert(payload["messages"], list[Message]) or None, options

    def cancel(self, run_ids: set[str]) -> None:
        """Cancel those of *run_ids* that run here."""
        for one in self._running:
            if one.run_id in run_ids:
                one.stop()

    # The fleet.

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                if self._running:
                    self.cancel(await engine.cancelled({one.run_id for one in self._running}))
                if self._options.worker:
                    await self._take_over()
            except Exception as error:  # the database may be away for a while
                logger.warning("executor %s could not look after the fleet: %s", self.executor, error)

    async def _take_over(self) -> None:
        """Take over the runs of executors that died."""
        assert self._locks is not None
        assert self._lock is not None
        if not await asyncio.to_thread(self._lock.held):
            logger.warning("executor %s has lost its lock; others may take its runs for crashed ones", self.executor)
        for executor in await engine.busy_executors(self._options.version) - {self.executor}:
            lock = await asyncio.to_thread(self._locks.take, executor)
            if lock is None:
                continue
            try:
                logger.warning("executor %s is gone; its runs are taken over", executor)
                await engine.take_over(executor)
            finally:
                await asyncio.to_thread(lock.release)
