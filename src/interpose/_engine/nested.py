"""Nested runs: an agent as a tool of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.claiming import go_on_from
from interpose._engine.signals import Note, PausedWithin, Rank, Signal
from interpose.context import ToolContext
from interpose.errors import LimitExceeded, RunAborted
from interpose.messages import ToolResult
from interpose.outcomes import Pause
from interpose.tools import Tool, tool

if TYPE_CHECKING:
    from interpose.agent import Agent
    from interpose.checkpoint import Checkpoint
    from interpose.interrupts import OpenInterrupt
    from interpose.result import RunResult


def agent_tool(agent: Agent[Any], name: str, description: str) -> Tool:
    """Return a tool that runs *agent*: it inherits context, limits, abort, record and clock of the run around it."""

    async def run_agent(ctx: ToolContext[Any], prompt: str) -> Any:
        return await run_nested(agent, ctx, prompt)

    made = tool(run_agent, name=name, description=description, effect="idempotent")
    return made.replace(agent=agent)


async def run_nested(agent: Agent[Any], ctx: ToolContext[Any], prompt: str) -> Any:
    """Run *agent* within the run of *ctx*, and return its text, or its output.

    Raises:
        PausedWithin: it waits for a person; the run around it pauses too, with its questions.
    """
    outer = ctx._run
    resumption = outer.resumption.nested.pop(ctx.tool_call_id, None) if outer.resumption is not None else None
    if resumption is not None and resumption.waits:
        raise _paused(resumption.checkpoint.interrupts, resumption.checkpoint.replace(part=0))  # it begins anew
    given = prompt if resumption is None else None
    run = agent._make(given, None, outer.context, None, None, outer.run_id, None, (), None, outer)
    run.outer_call = ctx.tool_call_id
    if resumption is not None:
        go_on_from(run, resumption)
    run.parent_node_id = ctx._node.id if ctx._node is not None else None
    await run.agent._begin(run)
    try:
        result = await run.wait()
    except RunAborted as error:
        if not outer.closing:
            outer.abort(error.reason)
        raise Signal(outer.noted) from None  # type: ignore[arg-type]  # just noted
    except LimitExceeded as error:
        partial = error.partial
        return _failed(f"{error}. It had said: {partial.text}" if partial and partial.text else str(error))
    hit = run.limit_hit
    if hit is not None and hit.run is not run:
        outer.note(Rank.LIMIT, hit)
        raise Signal(outer.noted)  # type: ignore[arg-type]  # just noted
    if result.status == "interrupted":
        raise _paused(result.interrupts, run.saved)
    return _value(result)


def _paused(asked: tuple[OpenInterrupt, ...], checkpoint: Checkpoint | None) -> PausedWithin:
    return PausedWithin(Note(Rank.PAUSE, Pause(asked[0].reason)), asked, checkpoint)


def _value(result: RunResult) -> Any:
    if result.finish_reason == "limit":
        said = f"It had said: {result.text}" if result.text else "It had said nothing yet."
        return _failed(f"ended by a limit of its own. {said}")
    return result.output if result.output is not None else result.text


def _failed(text: str) -> ToolResult:
    return ToolResult(tool_call_id="-", data=text, is_error=True)
