"""Claiming a run to go on with: found, checked as a whole, and taken by one resumption alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from interpose._engine.answers import Problem, by_id, checked, refuse
from interpose._engine.keys import key_of
from interpose._engine.resuming import Resumption, saved_name
from interpose.checkpoint import Checkpoint, unseal
from interpose.errors import ResumeError, ThreadConflict

if TYPE_CHECKING:
    from interpose._engine.plan import Plan
    from interpose._engine.run import Run
    from interpose.agent import Agent
    from interpose.interrupts import OpenInterrupt

CLAIM_S = 30.0
"""After how long the claim of a process that died lapses, in seconds; it is held until the first part is written."""


async def claim(run: Run, paused: Any, answers: Any) -> None:
    """Make *run* go on with the run *paused*: its id in the store, or the checkpoint of its result.

    Raises:
        ResumeError: there is no such run, it is being resumed, the agent has changed, or the answers do not fit.
    """
    checkpoint = await _found(run, paused)
    if run.named_thread and run.thread_id != checkpoint.thread_id:
        raise ResumeError(f"run {checkpoint.run_id!r} is of another thread than {run.thread_id!r}")
    asked = tuple(_questions(checkpoint))
    given = by_id(answers, asked)
    known = {one.id for one in asked}
    problems: list[Problem] = [(key, "no such question is open") for key in given if key not in known]
    resumption = await _resumption(run.plan, checkpoint, given, run.agent.clock.now(), problems)
    if problems:
        raise refuse(problems)
    store = run.agent.store
    if store is not None and not await store.claim(checkpoint.run_id, CLAIM_S):
        raise ResumeError(f"run {checkpoint.run_id!r} is being resumed, or was resumed already")
    run.claimed = store is not None
    run.named_thread = True
    go_on_from(run, resumption)


def _questions(checkpoint: Checkpoint) -> Iterator[OpenInterrupt]:
    """Yield what a run waits for, or a nested one of a run that was killed before it could pause itself."""
    if checkpoint.status == "paused":
        yield from checkpoint.interrupts
        return
    for call_id, inner in checkpoint.nested.items():
        if call_id not in checkpoint.answered:
            yield from _questions(inner)


def go_on_from(run: Run, resumption: Resumption) -> None:
    """Make *run* one that goes on."""
    run.resumed_from = resumption.checkpoint.run_id
    run.thread_id = resumption.checkpoint.thread_id
    run.resumption = resumption


async def _resumption(
    plan: Plan, checkpoint: Checkpoint, answers: Mapping[str, Any], now: float, problems: list[Problem]
) -> Resumption:
    """Return what is gone on from, answers typed, and the same for nested runs; what does not fit is a problem.

    Raises:
        ResumeError: the agent has changed.
    """
    checkpoint.check(plan.tools, {saved_name(plan, one): one.state_version for one in plan.middleware if one.saved})
    layers = {layer.name for layer in (*plan.model_layers, *plan.tool_layers)}
    for kept in checkpoint.kept:
        if kept.layer.partition("#")[0] not in layers:
            raise ResumeError(f"the middleware {kept.layer!r}, which paused run {checkpoint.run_id!r}, is gone")
    nested = {}
    within: set[str] = set()
    for call_id, inner in checkpoint.nested.items():
        if call_id not in checkpoint.answered:
            agent = await _nested_agent(plan, checkpoint, call_id)
            inner_plan = agent._plan.nested_in(plan)
            shown = {one.id for one in checkpoint.interrupts} if checkpoint.status == "paused" else set()
            waits = not any([one.id in answers or one.id in shown for one in inner.interrupts])
            if waits and inner.status == "paused":
                nested[call_id] = Resumption(inner, (), waits=True)
                continue
            nested[call_id] = await _resumption(inner_plan, inner, answers, now, problems)
            within |= {one.id for one in inner.interrupts}
    asked = [one for one in checkpoint.interrupts if one.id not in within]
    return Resumption(checkpoint, checked(asked, answers, plan, plan.tools, now, problems), nested)


async def _nested_agent(plan: Plan, checkpoint: Checkpoint, call_id: str) -> Agent[Any]:
    """Return the agent that a call ran, ready.

    Raises:
        ResumeError: the call's tool runs no agent any more.
    """
    calls = [call for message in checkpoint.messages for call in message.tool_calls if call.id == call_id]
    tool = next((one for one in plan.tools if calls and one.name == calls[0].name), None)
    if tool is None or tool.agent is None:
        raise ResumeError(f"run {checkpoint.run_id!r} was in an agent that this one does not have any more")
    agent: Agent[Any] = tool.agent._now()
    await agent._be_ready()
    return agent


async def _found(run: Run, paused: Any) -> Checkpoint:
    store = run.agent.store
    if isinstance(paused, Mapping):
        sealed = unseal(paused, await key_of(run.agent))
        if store is None:
            return sealed
        paused = sealed.run_id  # the store knows more, and whether it was used
    if not isinstance(paused, str):
        raise ResumeError(f"resume takes the id of a paused run, or the checkpoint of its result; got {paused!r:.80}")
    if store is None:
        raise ResumeError("without a store a run is resumed from its checkpoint: give result.checkpoint, not an id")
    checkpoint: Checkpoint | None = await store.get(paused)
    if checkpoint is None:
        raise ResumeError(f"the store has no run {paused!r} to go on with; it has ended, or never was")
    if any(one.run_id == checkpoint.run_id for one in run.agent._runs.runs):
        raise ResumeError(f"run {checkpoint.run_id!r} is under way; wait for its end, or abort it")
    return checkpoint


async def claim_waiting(run: Run, store: Any) -> list[Any]:
    """Return the paused runs of the thread, claimed: a new prompt settles them.

    Raises:
        ThreadConflict: one of them is being resumed.
    """
    while True:
        waiting = list(await store.paused(run.thread_id))
        taken = [one for one in waiting if not await store.claim(one.run_id, CLAIM_S)]
        run.superseded = tuple([one.run_id for one in waiting if one not in taken])
        if not taken:
            return waiting
        for run_id in run.superseded:
            await store.release(run_id)
        run.superseded = ()
        if not await run.give_way():
            raise ThreadConflict(
                f"thread {run.thread_id!r} waits for answers, and its run {taken[0].run_id!r} is being resumed just "
                f"now; send the prompt again when that is over"
            )


async def settle_claim(run: Run) -> None:
    """Use up what the run went on from or settled, or give it back where nothing of this run was saved."""
    store, journal = run.agent.store, run.journal
    if journal is not None and not run.committed and run.checkpoint is None:
        await journal.give_back()
    for one in (*((run.resumed_from,) if run.claimed else ()), *run.superseded):
        if run.committed or run.checkpoint is not None:
            await store.drop(one)
        else:
            await store.release(one)
