"""Going on with a durable run that paused: answers checked where they are given, and sent on as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec

from interpose._engine.answers import checked
from interpose.agent import Agent
from interpose.checkpoint import Checkpoint, seal
from interpose.errors import ResumeError
from interpose.interrupts import Answer
from interpose.saved import SavedAnswer


async def checked_answers(
    agent: Agent[Any], run_id: str, record: Mapping[str, Any], answers: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the checkpoint of a paused run, and the answers to what it asked, as JSON.

    Questions lose their expiry: the answers came in time, and a run that begins anew later must not refuse them.

    Raises:
        ResumeError: the answers do not fit, or the store has lost the run.
    """
    checkpoint = await _checkpoint(agent, run_id, record)
    if not agent._openings.ready:
        await agent._ready(first_run=False)
    now = agent.clock.now()
    resolutions = checked(checkpoint.interrupts, answers, agent._plan, agent._plan.tools, now)
    given = {one.interrupt.id: SavedAnswer.of(one.answer, now).to_dict() for one in resolutions}
    timeless = tuple([one.replace(expires_at=None) for one in checkpoint.interrupts])
    return checkpoint.replace(interrupts=timeless, expires_at=None).to_dict(), given


async def _checkpoint(agent: Agent[Any], run_id: str, record: Mapping[str, Any]) -> Checkpoint:
    sealed = record.get("checkpoint")
    if sealed is not None:
        return Checkpoint.from_dict(sealed["checkpoint"])
    found: Checkpoint | None = None if agent.store is None else await agent.store.get(run_id)
    if found is None:
        raise ResumeError(f"the store has no checkpoint of run {run_id!r} any more; it may have been resumed already")
    return found


def resumption(agent: Agent[Any], checkpoint: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with which *agent* goes on from what `checked_answers` returned."""
    answers: dict[str, Answer] = {key: msgspec.convert(one, SavedAnswer).answer() for key, one in given.items()}
    return {"parent_run_id": seal(Checkpoint.from_dict(checkpoint), agent.checkpoint_key), "resume": answers}
