"""Going on with a durable run that paused: answers checked where they are given, and sent on as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec

from interpose._engine.answers import Problem, by_id, refuse
from interpose._engine.claiming import _resumption
from interpose._engine.keys import key_of
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
    await agent._be_ready()
    now = agent.clock.now()
    given = by_id(answers, checkpoint.interrupts)
    known = {one.id for one in checkpoint.interrupts}
    problems: list[Problem] = [(key, "no such question is open") for key in given if key not in known]
    await _resumption(agent._plan, checkpoint, given, now, problems)
    if problems:
        raise refuse(problems)
    return _timeless(checkpoint).to_dict(), {key: SavedAnswer.of(one, now).to_dict() for key, one in given.items()}


def _timeless(checkpoint: Checkpoint) -> Checkpoint:
    questions = tuple([one.replace(expires_at=None) for one in checkpoint.interrupts])
    nested = {key: _timeless(one) for key, one in checkpoint.nested.items()}
    return checkpoint.replace(interrupts=questions, nested=nested, expires_at=None)


async def _checkpoint(agent: Agent[Any], run_id: str, record: Mapping[str, Any]) -> Checkpoint:
    sealed = record.get("checkpoint")
    if sealed is not None:
        return Checkpoint.from_dict(sealed["checkpoint"])
    found: Checkpoint | None = None if agent.store is None else await agent.store.get(run_id)
    if found is None:
        raise ResumeError(f"the store has no checkpoint of run {run_id!r} any more; it may have been resumed already")
    return found


async def resumption(agent: Agent[Any], checkpoint: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with which *agent* goes on from what `checked_answers` returned."""
    answers: dict[str, Answer] = {key: msgspec.convert(one, SavedAnswer).answer() for key, one in given.items()}
    return {"parent_run_id": seal(Checkpoint.from_dict(checkpoint), await key_of(agent)), "resume": answers}
