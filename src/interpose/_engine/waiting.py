"""What an agent's store holds of runs that are not over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose.errors import ConfigurationError

if TYPE_CHECKING:
    from interpose.agent import Agent
    from interpose.interrupts import OpenInterrupt


async def pending(agent: Agent[Any], thread_id: str | None) -> list[OpenInterrupt]:
    """Return what paused runs wait for."""
    return [one for checkpoint in await _store(agent).paused(thread_id) for one in checkpoint.interrupts]


async def unfinished(agent: Agent[Any], thread_id: str | None) -> list[str]:
    """Return the ids of runs that wait for nothing, but for those that are under way here."""
    here = {run.run_id for run in agent._runs.runs}
    return [one.run_id for one in await _store(agent).unfinished(thread_id) if one.run_id not in here]


def _store(agent: Agent[Any]) -> Any:
    if agent.store is None:
        raise ConfigurationError("the runs that are not over are in a store: Agent(store=...)")
    return agent.store
