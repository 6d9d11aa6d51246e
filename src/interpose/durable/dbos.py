"""Runs as workflows of DBOS: they survive their process, and a queue spreads them over a fleet of workers."""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import msgspec

from interpose.agent import Agent
from interpose.durable import engine
from interpose.durable.handles import DurableStream, RunHandle, status_of
from interpose.durable.options import Options
from interpose.durable.records import Errors, RecordedError, run_of
from interpose.durable.resuming import checked_answers
from interpose.durable.steps import DBOSSteps, OnUnknown, step_model
from interpose.durable.store import StepStore
from interpose.durable.worker import Worker
from interpose.errors import ConfigurationError, InterposeError, ResumeError
from interpose.ids import random_id
from interpose.inputs import as_messages
from interpose.result import RunResult
from interpose.text import to_json

__all__ = ["DBOSAgents", "DBOSSteps", "DurableStream", "RecordedError", "RunHandle"]


class DBOSAgents:
    """Runs *agents*, by name, as workflows: their model and tool calls are steps, done once whatever is killed.

    One of these lives in a process at a time, from `async with` (or `launch`) to its end. All processes of a fleet give
    the same agents, *database_url* (`postgresql://…`, or `sqlite:///file.db` for one machine), *queue*, *app* and
    *version*. A run that was cut is taken over by a process of the same *version*: give a new one when agents change so
    that old runs should not go on with them. *worker_concurrency* is how many runs a worker takes at once,
    *concurrency* how many the whole fleet; `worker=False` makes a process that takes none. *executor* is this process's
    id in the fleet, by default a free one. *make_context* turns the JSON given as `context=` into what tools and hooks
    get. *errors* are your own classes of errors that are to come back as themselves; they are made from their `args`.
    *on_unknown* is that of `DBOSSteps`, *options* go to DBOS' own configuration.

    Raises:
        ConfigurationError: something does not fit; the text says what to change.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent[Any]],
        *,
        database_url: str | None = None,
        queue: str = "interpose",
        worker_concurrency: int = 10,
        concurrency: int | None = None,
        worker: bool = True,
        executor: str | None = None,
        app: str = "interpose",
        version: str = "1",
        schema: str = "dbos",
        poll_s: float = 0.2,
        make_context: Callable[[Any], Any] | None = None,
        errors: Iterable[type[Exception]] = (),
        on_unknown: OnUnknown | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        given = (database_url, queue, worker_concurrency, concurrency, worker, executor, app, version, schema, poll_s)
        self._options = Options(*given, dict(options or {})).checked(agents)
        self._errors = Errors(errors)
        self._agents = {name: _durable(agent, self._errors) for name, agent in agents.items()}
        self._worker = Worker(self._agents, self._options, self._errors, on_unknown, make_context)

    @property
    def executor(self) -> str:
        """The id of this process in the fleet, once it is launched; before that it is empty."""
        return self._worker.executor

    # Beginning and end.

    async def launch(self) -> None:
        """Connect, take over what this executor left open, and begin to work on the queue.

        Raises:
            ConfigurationError: DBOS runs in this process already, or another process has this executor's id.
        """
        await self._worker.launch()

    async def aclose(self) -> None:
        """Stop. Runs in flight stay open, and this executor or another goes on with them."""
        await self._worker.aclose()

    async def __aenter__(self) -> Self:
        await self.launch()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Runs.

    async def submit(
        self,
        agent: str,
        prompt_or_messages: Any = None,
        *,
        run_id: str | None = None,
        thread_id: str | None = None,
        context: Any = None,
    ) -> RunHandle:
        """Put a run on the queue and return its handle; the same *run_id* and input again is the same run.

        Raises:
            ConfigurationError: there is no such agent, *context* is no JSON, or *run_id* had another input before.
        """
        self._check_launched()
        payload, new_id = self._payload(agent, prompt_or_messages, run_id, thread_id, context)
        await engine.enqueue(self._options.queue, new_id, payload)
        if run_id is not None:
            before = engine.payload_of(await self._row(new_id, payload=True))
            if _without_ids(before) != _without_ids(payload):
                raise ConfigurationError(
                    f"run {run_id!r} was submitted before with another input; give each run an id of its own, or none"
                )
        return RunHandle(self, new_id)

    async def run(
        self,
        agent: str,
        prompt_or_messages: Any = None,
        *,
        run_id: str | None = None,
        thread_id: str | None = None,
        context: Any = None,
    ) -> RunResult:
        """Submit a run, wait for its end and return the result; see `submit` and `RunHandle.result`."""
        handle = await self.submit(agent, prompt_or_messages, run_id=run_id, thread_id=thread_id, context=context)
        return await handle.result()

    def stream(
        self,
        agent: str,
        prompt_or_messages: Any = None,
        *,
        run_id: str | None = None,
        thread_id: str | None = None,
        context: Any = None,
    ) -> DurableStream:
        """Return a run of this process, past the queue, to be read event by event inside `async with`.

        Raises:
            ConfigurationError: as with `submit`; on entering, that *run_id* was there before.
        """
        self._check_launched()
        payload, new_id = self._payload(agent, prompt_or_messages, run_id, thread_id, context)
        return DurableStream(self, self._worker.readers, payload, new_id)

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of a run that was submitted before, here or elsewhere."""
        return RunHandle(self, run_id)

    async def resume(self, run_id: str, answers: Any = None) -> RunHandle:
        """Go on with a run that waits for *answers*, as `Agent.resume` takes them; return the new run's handle.

        Raises:
            LookupError: there is no such run.
            ResumeError: it does not wait, was resumed already, or the answers do not fit, and nothing ran.
        """
        row = await self._row(run_id, payload=True, output=True)
        if (status := status_of(row)) != "interrupted":
            raise ResumeError(f"run {run_id!r} waits for no answers: it is {status}")
        before = engine.payload_of(row)
        agent = self._agent(before["agent"])
        checkpoint, given = await checked_answers(agent, run_id, row.output, answers)
        payload = {**before, "messages": [], "checkpoint": checkpoint, "answers": given}
        number = 1
        while True:
            new_id = f"{run_id}.{number}"
            try:
                await engine.enqueue(self._options.queue, new_id, payload, new=True)
            except engine.IdInUse:
                if not await self._was_refused(new_id):
                    text = f"run {run_id!r} is being resumed, or was resumed already, as {new_id!r}"
                    raise ResumeError(text) from None
                number += 1  # refused by its worker before anything ran, so it may be tried again
            else:
                return RunHandle(self, new_id)

    # What was submitted, and what came of it.

    def _payload(
        self, agent: str, given: Any, run_id: str | None, thread_id: str | None, context: Any
    ) -> tuple[dict[str, Any], str]:
        self._agent(agent)
        ids: dict[str, Any] = {"run_id": run_id, "thread_id": thread_id}
        for name, value in ids.items():
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise ConfigurationError(f"{name} must be a text that is not empty, or None; got {value!r}")
        messages = [one.to_dict() for one in as_messages(given)]
        try:
            context = msgspec.json.decode(msgspec.json.encode(context))
        except (TypeError, msgspec.MsgspecError, ValueError) as error:
            raise ConfigurationError(
                f"context= of a durable run travels as JSON, which this is not: {error}; give plain data, and "
                "make_context= to make of it what tools and hooks need"
            ) from error
        new_id = run_id or random_id("run")
        payload = {
            "agent": agent,
            "messages": messages,
            "thread_id": thread_id or f"thread-{new_id}",
            "context": context,
        }
        return payload, new_id

    def _check_launched(self) -> None:
        if not self._worker.is_launched:
            raise ConfigurationError(
                "these agents are not launched: use `async with agents:`, or await agents.launch()"
            )

    def _agent(self, name: str) -> Agent[Any]:
        agent = self._agents.get(name)
        if agent is None:
            there = ", ".join(repr(one) for one in self._agents)
            raise ConfigurationError(f"there is no agent {name!r}; this process has: {there}")
        return agent

    async def _row(self, run_id: str, *, payload: bool = False, output: bool = False) -> Any:
        self._check_launched()
        row = await engine.row(run_id, payload=payload, output=output)
        if row is None:
            raise LookupError(f"there is no run {run_id!r}")
        return row

    async def _result(self, run_id: str) -> RunResult:
        self._check_launched()
        try:
            record = await engine.result(run_id, self._options.poll_s)
        except engine.Failed as failed:
            if "error" not in failed.data:
                raise InterposeError(f"run {run_id!r} failed: {failed}") from None
            error: Any = self._errors.restore(failed.data)
            if "partial" in failed.data:
                error.partial = run_of(failed.data["partial"])
            raise error from None
        row = await self._row(run_id, payload=True)
        known = self._agents.get(engine.payload_of(row)["agent"])
        return run_of(record, None if known is None else known.output)

    async def _cancel(self, run_id: str) -> None:
        await self._row(run_id)
        await engine.cancel(run_id)
        self._worker.cancel({run_id})

    async def _was_refused(self, run_id: str) -> bool:
        failure = engine.failure_of(await self._row(run_id, output=True))
        return failure is not None and "partial" not in failure and failure["error"].get("known") == "ResumeError"


def _durable(agent: Agent[Any], errors: Errors) -> Agent[Any]:
    """Return a copy of *agent* whose model and store do what they do once."""
    store = None if agent.store is None else StepStore(agent.store)
    return agent.copy(model=step_model(agent.model, errors), store=store)


def _without_ids(payload: dict[str, Any]) -> str:
    """Return *payload* for comparing: ids of messages are made anew where they were not given."""
    messages = [{key: value for key, value in one.items() if key != "id"} for one in payload["messages"]]
    return to_json({**payload, "messages": messages})
