"""Claiming a paused run: found, checked as a whole, and taken by one resumption alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from interpose._engine.answers import checked
from interpose._engine.resuming import Resumption, saved_name
from interpose.checkpoint import Checkpoint, unseal
from interpose.errors import ResumeError

if TYPE_CHECKING:
    from interpose._engine.run import Run

CLAIM_S = 3600.0
"""After how long the claim of a process that died lapses, in seconds."""


async def claim(run: Run, paused: Any, answers: Any) -> None:
    """Make *run* go on with the run *paused*: its id in the store, or the checkpoint of its result.

    Raises:
        ResumeError: there is no such run, it is being resumed, the agent has changed, or the answers do not fit.
    """
    checkpoint = await _found(run, paused)
    versions = {saved_name(run, one): one.state_version for one in run.plan.middleware if one.saved}
    checkpoint.check(run.plan.tools, versions)
    layers = {layer.name for layer in (*run.plan.model_layers, *run.plan.tool_layers)}
    for kept in checkpoint.kept:
        if kept.layer.partition("#")[0] not in layers:
            raise ResumeError(f"the middleware {kept.layer!r}, which paused run {checkpoint.run_id!r}, is gone")
    resolutions = checked(checkpoint.interrupts, answers, run.plan, run.plan.tools, run.agent.clock.now())
    store = run.agent.store
    if store is not None and not await store.claim(checkpoint.run_id, CLAIM_S):
        raise ResumeError(f"run {checkpoint.run_id!r} is being resumed, or was resumed already")
    run.claimed = store is not None
    run.resumed_from = checkpoint.run_id
    run.thread_id = checkpoint.thread_id
    run.named_thread = True
    run.resumption = Resumption(checkpoint, resolutions)


async def _found(run: Run, paused: Any) -> Checkpoint:
    if isinstance(paused, Mapping):
        return unseal(paused, run.agent.checkpoint_key)
    if not isinstance(paused, str):
        raise ResumeError(f"resume takes the id of a paused run, or the checkpoint of its result; got {paused!r:.80}")
    store = run.agent.store
    if store is None:
        raise ResumeError("without a store a run is resumed from its checkpoint: give result.checkpoint, not an id")
    checkpoint: Checkpoint | None = await store.get(paused)
    if checkpoint is None:
        raise ResumeError(f"the store has no paused run {paused!r}; it may have been resumed already")
    return checkpoint


async def settle_claim(run: Run) -> None:
    """Use the paused run up, or give it back where nothing of the resumed one was saved."""
    store = run.agent.store
    if run.committed or run.checkpoint is not None:
        await store.drop(run.resumed_from)
    else:
        await store.release(run.resumed_from)
