"""Beginning a run: made from what the caller gave, and started as a task of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interpose._engine.claiming import claim
from interpose._engine.life import live
from interpose._engine.plan import as_list, as_middleware
from interpose._engine.run import Run
from interpose.errors import ConfigurationError, ResumeError
from interpose.limits import Limits
from interpose.text import is_clean

if TYPE_CHECKING:
    from interpose.agent import Agent


def make_run(
    agent: Agent[Any],
    given: Any,
    buffer: Any,
    context: Any,
    thread_id: str | None,
    run_id: str | None,
    parent_run_id: str | None,
    resume: Any,
    middleware: Sequence[Any],
    limits: Limits | None,
    parent: Run | None = None,
) -> Run:
    """Return a run that has not begun.

    Raises:
        ConfigurationError: an id is none.
        ResumeError: there are answers, and nothing says to which run; or a prompt beside them.
    """
    if thread_id is not None:
        check_id("thread_id", thread_id)
    if run_id is not None:
        check_id("run_id", run_id)
    if parent_run_id is not None and resume is None:
        check_id("parent_run_id", parent_run_id)
    if resume is not None and parent_run_id is None:
        raise ResumeError("resume= takes the answers; parent_run_id= says which paused run they are for")
    if resume is not None and given is not None:
        raise ResumeError("a resumed run goes on with its own messages: send the new prompt when it has finished")
    extra: Sequence[Any] = ()
    if middleware:
        extra = [as_middleware(one) for one in as_list(middleware)]
    limits = limits or agent.limits
    outer = parent_run_id if resume is None else None
    run = Run(agent, agent._plan, given, context, thread_id, run_id, outer, limits, buffer, extra, parent)
    if resume is not None:
        run.to_resume = (parent_run_id, resume)
    return run


def check_id(name: str, id: Any) -> None:
    """Check an id that a caller gave.

    Raises:
        ConfigurationError: it is no text, empty, or holds half a character, so that no store could keep it.
    """
    if not isinstance(id, str) or not id or not is_clean(id):
        raise ConfigurationError(f"{name}= must be a text that is not empty, got {id!a:.80}")


async def begin_run(agent: Agent[Any], run: Run) -> None:
    """Start *run*, once *agent* is open; one that goes on with a paused run claims that first."""
    plan = agent._plan
    if run.extra or run.parent is not None:
        plan = plan.nested_in(run.parent.plan if run.parent is not None else None, run.extra)
    run.plan = plan
    if run.to_resume is not None:
        await claim(run, *run.to_resume)
    agent._runs.runs.add(run)
    run.start(live)
