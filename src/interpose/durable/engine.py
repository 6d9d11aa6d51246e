"""What durable runs need of DBOS: one workflow, its steps by name, a queue, and what the database tells of runs.

Everything is saved as JSON. Nothing here knows of agents.
"""

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from interpose.durable.journal import Journal, is_record
from interpose.errors import ConfigurationError, InterposeError, RunAborted

try:
    import dbos
    from dbos import DBOS, DBOSPortableJSONSerializer, PortableWorkflowError, SetWorkflowID, WorkflowStatus
    from dbos import _dbos as private
except ImportError as missing:
    raise ConfigurationError("interpose.durable.dbos needs DBOS: pip install 'interpose[dbos]'") from missing

Payload = dict[str, Any]
WORKFLOW = "interpose.run"
QUEUE_POLL_S = 0.1
"""How often a worker looks for runs on the queue, in seconds."""
_live: Callable[[str, Payload], Awaitable[Payload]] | None = None
IdInUse = dbos.error.DBOSWorkflowIDInUseError
"""Raised where a run's id is to be new, and is not."""
Lost = dbos.error.DBOSBaseException
"""Raised where this process may not go on with a run: it was cancelled, or is another's now."""


class Failed(Exception):
    """Carries what failed a run through the database, as JSON in *data*."""

    def __init__(self, message: str, data: Payload) -> None:
        super().__init__(message)
        self.data = data


@DBOS.workflow(name=WORKFLOW)
async def workflow(payload: Payload) -> Payload:
    """Live through a run; the one workflow that is registered."""
    run_id = DBOS.workflow_id
    if _live is None or run_id is None:
        raise asyncio.CancelledError  # the process closes: the run stays open, and is taken over
    return await _live(run_id, payload)


def is_up() -> bool:
    """Whether DBOS is set up in this process."""
    return private._dbos_global_instance is not None  # there is no public way to ask


async def launch(
    live: Callable[[str, Payload], Awaitable[Payload]],
    config: Mapping[str, Any],
    queue: str,
    limits: Mapping[str, Any],
    *,
    worker: bool,
) -> None:
    """Begin to work: runs are lived through by *live*, on this event loop."""
    global _live
    _live = live
    DBOS(config={**config, "serializer": DBOSPortableJSONSerializer()})  # type: ignore[typeddict-item]  # a TypedDict
    if not worker:
        DBOS.listen_queues([])
    DBOS.launch()
    await DBOS.register_queue_async(queue, polling_interval_sec=QUEUE_POLL_S, **limits)


async def shut_down() -> None:
    """Stop DBOS in this process."""
    global _live
    _live = None
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as threads:
        await loop.run_in_executor(threads, DBOS.destroy)
    loop.set_default_executor(ThreadPoolExecutor())  # DBOS had put its own there, which is shut down now


async def _outside(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Await *coroutine* outside the workflow that this code may be part of, whose steps would be counted."""
    return await asyncio.create_task(coroutine, context=contextvars.Context())


# Runs.


async def enqueue(queue: str, run_id: str, payload: Payload, *, new: bool = False) -> None:
    """Put a run on the queue; one that is there stays as it is.

    Raises:
        IdInUse: it is there, and was to be *new*.
    """

    async def put() -> None:
        with SetWorkflowID(run_id, workflow_id_reuse_policy="reject" if new else None):
            await DBOS.enqueue_workflow_async(queue, workflow, payload)

    await _outside(put())


async def start(run_id: str, payload: Payload) -> None:
    """Start a new run in this process, past the queue.

    Raises:
        IdInUse: it is there already.
    """

    async def begin() -> None:
        with SetWorkflowID(run_id, workflow_id_reuse_policy="reject"):
            await DBOS.start_workflow_async(workflow, payload)

    await _outside(begin())


async def cancel(run_id: str) -> None:
    """Cancel a run."""
    await _outside(DBOS.cancel_workflow_async(run_id))


async def row(run_id: str, *, payload: bool = False, output: bool = False) -> WorkflowStatus | None:
    """Return what the database has of a run; None where it has none."""
    rows = await _outside(
        DBOS.list_workflows_async(workflow_ids=[run_id], name=WORKFLOW, load_input=payload, load_output=output)
    )
    return rows[0] if rows else None


def payload_of(found: WorkflowStatus) -> Payload:
    """Return what a run was submitted with, of a row that was read with its payload."""
    given = found.input
    assert given is not None, "read with its payload"
    payload: Payload = given["args"][0]
    return payload


def failure_of(found: WorkflowStatus) -> Payload | None:
    """Return what failed a run, as `Failed` carried it, of a row that was read with its output."""
    error = found.error
    return error.data if isinstance(error, PortableWorkflowError) and isinstance(error.data, dict) else None


async def result(run_id: str, poll_s: float) -> Payload:
    """Wait for the end of a run, and return what it came to.

    Raises:
        LookupError: there is no such run.
        Failed: it failed.
        RunAborted: it was cancelled.
    """
    try:
        handle = await _outside(DBOS.retrieve_workflow_async(run_id))
        came: Payload = await _outside(handle.get_result(polling_interval_sec=poll_s))
        return came
    except dbos.error.DBOSNonExistentWorkflowError:
        raise LookupError(f"there is no run {run_id!r}") from None
    except dbos.error.DBOSAwaitedWorkflowCancelledError:
        raise RunAborted("cancelled") from None
    except dbos.error.DBOSAwaitedWorkflowMaxRecoveryAttemptsExceeded:
        raise InterposeError(f"run {run_id!r} is given up: its process was killed each time that it ran") from None
    except PortableWorkflowError as error:
        data = error.data if isinstance(error.data, dict) else {}
        raise Failed(error.message, data) from None


# Steps.


async def journal_of(run_id: str, lost: Callable[[BaseException], Awaitable[None]]) -> Journal:
    """Return the journal of the workflow that this code runs in; it must have taken no step yet.

    *lost* is awaited where a record is refused, since the run is cancelled or another process has it; if it returns,
    the record is left out.
    """
    steps = await _outside(DBOS.list_workflow_steps_async(run_id))
    last = max((one["function_id"] for one in steps), default=0)
    while last and DBOS.reserve_step().step_id < last:  # what is recorded now must not take the place of what was
        pass
    recorded = [(one["function_name"], one["output"]) for one in steps if is_record(one["function_name"])]
    for name, value in recorded:
        if not isinstance(value, dict):  # DBOS gives what it cannot read as text
            raise InterposeError(f"record {name!r} of run {run_id!r} is damaged, so the run cannot go on")
    return Journal(run_id, recorded, functools.partial(_write, lost))


async def _write(lost: Callable[[BaseException], Awaitable[None]], name: str, value: Any) -> None:
    try:
        await DBOS.run_step_async({"name": name}, _given, value)
    except Lost as error:
        await lost(error)


async def _given(value: Any) -> Any:
    return value


# The fleet.


async def cancelled(run_ids: Iterable[str]) -> set[str]:
    """Return those of *run_ids* that were cancelled."""
    rows = await _outside(
        DBOS.list_workflows_async(workflow_ids=list(run_ids), status="CANCELLED", load_input=False, load_output=False)
    )
    return {one.workflow_id for one in rows}


async def busy_executors(version: str) -> set[str]:
    """Return the executors that have runs of *version* under way, or had when they died."""
    rows = await _outside(
        DBOS.list_workflows_async(
            status="PENDING", name=WORKFLOW, app_version=version, load_input=False, load_output=False
        )
    )
    return {one.executor_id for one in rows if one.executor_id is not None}


async def take_over(executor: str) -> None:
    """Put the open runs of *executor*, which is dead, back on the queue.

    DBOS' public `resume_workflows` would do too, but forgets how often each was tried, and so never gives up a run that
    kills its process.
    """
    await asyncio.to_thread(DBOS._recover_pending_workflows, [executor])
