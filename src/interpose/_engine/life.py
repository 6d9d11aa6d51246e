"""The life of a run, from its set-up to the event that ends it, in order."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from interpose._engine.call import Call
from interpose._engine.chain import Layer, Next, check_entry, compose, enter_beside, entries_of
from interpose._engine.claiming import claim_waiting
from interpose._engine.config import configure_run
from interpose._engine.ending import absorb_cancel, end
from interpose._engine.journal import Journal
from interpose._engine.output import finish_output
from interpose._engine.plan import Hook, call_hook, name_of
from interpose._engine.record import Record
from interpose._engine.resuming import go_on, has_work, resolve, restore
from interpose._engine.settling import settle_finished, settle_gracefully, tidy
from interpose._engine.signals import Note, Rank, Signal
from interpose._engine.steering import steer, wrong
from interpose._engine.step import answer_open_calls, step, tell_results
from interpose.errors import CapabilityError, ConfigurationError, InterposeError
from interpose.events import MessagesSnapshotEvent, RunStartedEvent, messages_to_wire
from interpose.inputs import as_messages
from interpose.messages import ToolMessage
from interpose.outcomes import Abort, End, Pause
from interpose.result import RunResult
from interpose.text import canonical_json

if TYPE_CHECKING:
    from interpose._engine.run import Run

NOT_ISSUED = "not executed: this call was not issued by this run"
UNANSWERED = "not executed: nobody answered whether it may run"


async def live(run: Run) -> None:
    """Live through *run*, whatever happens; its callers wait for `Run.finished`."""
    result: RunResult | None = None
    failure: BaseException | None = None
    try:
        run.began, run.alive = run.clock.monotonic(), True
        if run.noted is not None:
            raise Signal(run.noted)
        result = await work(run)
    except BaseException as error:
        failure = error
        if isinstance(error, CancelledError) and run.noted is None and not run.task.cancelling():
            failure = InterposeError("a hook raised CancelledError, though nobody cancelled the run")
            failure.__cause__ = error
    try:
        await end(run, result, failure)
    except BaseException as error:
        run.failure = run.failure or error
        if not isinstance(error, Exception):
            raise
    finally:
        failure = None  # its traceback holds this very frame
        run.finished()


async def work(run: Run) -> RunResult:
    """Do the work of a run, and return its result."""
    plan = run.plan
    if run.limits.max_duration_s is not None:
        run.duration_timer = run.clock.call_later(run.limits.max_duration_s, run.out_of_time)
    await set_up(run)
    store = run.agent.store
    added: Any
    if store is not None or run.named_thread:
        added = await take_up(run, store)
    elif run.resumption is not None:
        added = restore(run, ())
    else:
        added = put_input(run, (), [])
    if plan.on_config:
        await configure_run(run)
    if run.resumption is not None:
        run.vote = await resolve(run)
    early = await ask_on_start(run) if plan.on_start else None
    if early is None and (store is not None or run.parent is not None):
        await begin_journal(run, store)
    if run.pipe.active:
        await run.pipe.send(RunStartedEvent(run.thread_id, run.run_id, run.parent_run_id))
        if run.pipe.emitted:
            await run.pipe.flush()
        if added:
            await tell_results(run, added)
        if run.resumption is not None and run.resumption.has_edits():  # what the reader has of these calls is outdated
            now = (*run.history.messages, *run.settled.values())
            await run.pipe.send(MessagesSnapshotEvent(messages_to_wire(now)))
    if plan.run_layers:
        result = await compose(RunCall(run, early), None)
        if run.failed:
            await tidy(run)
    else:
        result = await body(run, early)
    return result  # type: ignore[no-any-return]  # the seam gives a RunResult


async def set_up(run: Run) -> None:
    """Open the run's own middleware, begin the record, and call `setup`."""
    plan = run.plan
    if run.extra:
        await open_extra(run)
    run.past_checks = True
    if plan.on_node or (run.parent is not None and run.parent.record is not None):
        await begin_record(run)
    for hook in plan.setup:
        await run.tell(hook)
    if plan.provides:
        check_provided(run)


async def take_up(run: Run, store: Any) -> Any:
    """Take the thread, and put it and what is new into the history; return the results that mending added."""
    if run.named_thread:
        await run.take_thread()
    if run.resumption is not None:
        return restore(run, () if store is None else await load_thread(run, store))
    waiting = await claim_waiting(run, store) if store is not None and run.named_thread else ()
    stored = () if store is None else await load_thread(run, store)
    for one in waiting:
        if one.thread_state is not None:
            run._thread_state = dict(one.thread_state)
    return put_input(run, stored, [message for one in waiting for message in one.messages])


async def load_thread(run: Run, store: Any) -> tuple[Any, ...]:
    """Return the messages of the run's thread, and take its state."""
    stored = tuple(await store.load(run.thread_id))
    run.stored = len(stored)
    run._thread_state = dict(await store.load_state(run.thread_id))
    run.thread_state_was = canonical_json(run._thread_state)
    return stored


async def begin_journal(run: Run, store: Any) -> None:
    """Begin to write the run's checkpoint: in its store, or within that of the run around it."""
    outer = run.parent.journal if run.parent is not None else None
    if run.parent is None or outer is not None:
        run.journal = Journal(run, store, outer, run.outer_call)
        await run.journal.begin()


class RunCall(Call):
    """The pass through the `wrap_run` layers."""

    seam = "run"
    takes = None
    gives = RunResult
    steers: ClassVar[Mapping[str, tuple[type, ...]]] = {"wrap_run": ()}

    __slots__ = ("early",)

    def __init__(self, run: Run, early: Note | None) -> None:
        super().__init__(run, run.ctx, run.plan.run_layers, entries_of(run.plan.run_layers, core))
        self.early = early

    def lift(self, layer: Layer, hook: str, value: Any) -> Any:
        """Refuse: what comes out of a run is a `RunResult`."""
        raise wrong(layer, hook, value, "a RunResult")


async def core(call: Any, index: int, value: Any, via: Next | None) -> RunResult:
    """Live through the run inside its `wrap_run` layers."""
    if via is not None and not via.owner.cr_running:
        return await enter_beside(core, call, index, value, via)  # type: ignore[no-any-return]  # what `core` gives
    check_entry(call, index, value)
    return await body(call.run, call.early)


async def body(run: Run, early: Note | None) -> RunResult:
    """Take the steps and return the result; what ends them early in good order is settled here."""
    try:
        if early is not None:
            raise Signal(early)
        if run.history.open and (run.resumption is None or run.resumption.checkpoint.phase in ("init", "input")):
            await answer_open_calls(run, NOT_ISSUED)
        reason: str | None = None
        if run.resumption is not None:
            reason = await go_on(run, run.vote)
        elif not has_work(run):
            reason = "stop"
        while reason is None:
            reason = await step(run)
            run.number += reason is None
        if run.agent._output is not None:
            await finish_output(run)
    except BaseException as error:
        note = early or run.noted
        if note is None or isinstance(error, Exception) or not is_graceful(run, note):
            run.failed = True
            raise
        run.noted = early = None
        await absorb_cancel()
        return await settle_gracefully(run, note)
    return await settle_finished(run, reason)


def is_graceful(run: Run, note: Note) -> bool:
    """Whether *note* ends the run in good order: an end, a pause, a limit with "stop", or one of a run around it."""
    if note.rank is Rank.LIMIT:
        return note.value.run is not run or run.limits.on_exceeded == "stop"
    return note.rank in (Rank.END, Rank.PAUSE)


async def open_extra(run: Run) -> None:
    """Open the run's own middleware."""
    opened: list[Any] = []
    run.opened = opened
    for one in run.extra:
        try:
            await call_hook(Hook(one, "open", one.open), run.agent)
        except Exception as error:
            raise ConfigurationError(f"{name_of(one)} could not be opened: {error}") from error
        opened.append(one)


async def begin_record(run: Run) -> None:
    """Begin the record, if somebody listens: this run's middleware, or that of the runs around it."""
    listeners = [(hook, run.ctx) for hook in run.plan.on_node]
    if run.parent is not None and run.parent.record is not None:
        own = [hook.middleware for hook, _ in listeners]
        listeners += [pair for pair in run.parent.record.listeners if pair[0].middleware not in own]
    if listeners:
        run.record = Record(run, tuple(listeners), run.parent_node_id)
        run.run_node = await run.record.push("run", run.agent.name)


def check_provided(run: Run) -> None:
    """Check that every middleware has provided what it says.

    Raises:
        CapabilityError: one has not.
    """
    for one in run.plan.middleware:
        for cap in one.provides:
            if cap not in run.capabilities:
                raise CapabilityError(
                    f"{name_of(one)} declares that it provides {cap.name!r}, but its setup did not: "
                    f"call ctx.provide({cap.name}, value) there"
                )


def put_input(run: Run, stored: tuple[Any, ...], waiting: list[Any]) -> Any:
    """Put the stored thread and what was handed in into the history; return the results that mending added.

    *waiting* are the messages of runs of the thread that are paused: a new prompt settles them.
    """
    given = as_messages(run.given)
    history = run.history
    for known in (stored, waiting):
        if known:
            history.said = {*history.said, *[message.id for message in known]}
            given = tuple([message for message in given if message.id not in history.said])
            history.extend(known)
    added: Any = ()
    if history.open and waiting:
        added = tuple([ToolMessage(UNANSWERED, id, True, name) for id, name in history.open.items()])
        history.extend(added)
    run.thread_base = len(stored)
    run.input_size = len(given)
    if given:
        history.extend(given)
    if not history.legal:
        added = (*added, *history.mend(NOT_ISSUED))
    run.input_end = len(history.messages)
    return added


async def ask_on_start(run: Run) -> Note | None:
    """Call `on_start`; return the note where a hook ended the run before it began."""
    for hook in run.plan.on_start:
        said = await call_hook(hook, run.ctx)
        if said is not None:
            try:
                steer(_Start(run), _named(hook), "on_start", said, "")
            except Signal as signal:
                if not is_graceful(run, signal.note):
                    raise
        if run.noted is not None:
            if not is_graceful(run, run.noted):
                raise Signal(run.noted)
            note, run.noted = run.noted, None
            return note
    return None


class _Start(Call):
    seam = "start"
    steers: ClassVar[Mapping[str, tuple[type, ...]]] = {"on_start": (End, Pause, Abort)}
    __slots__ = ()

    def __init__(self, run: Run) -> None:
        super().__init__(run, run.ctx, (), (core,))


def _named(hook: Hook) -> Any:
    return Layer(name_of(hook.middleware), hook.middleware, None, None, None)
