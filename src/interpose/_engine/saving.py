"""What is saved of a run that pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.resuming import saved_name
from interpose.checkpoint import Checkpoint, tool_hash
from interpose.saved import Counts, Kept, Private, SavedAnswer, SavedResult, SavedStep
from interpose.text import to_jsonable

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose.interrupts import OpenInterrupt
    from interpose.request import ModelResponse, Usage


BOUNDARIES = ("before_model", "after_model", "before_tools", "after_tools")
"""The boundaries of a step, in order."""


def checkpoint_of(run: Run, interrupts: tuple[OpenInterrupt, ...]) -> Checkpoint:
    """Return what is needed to go on with *run*, which pauses on *interrupts*."""
    asked = [one.asked for one in run.passes if one.asked is not None]
    phase = run.phase
    if asked:
        phase = "input" if run.settling is None else "before_tools"
    reached = BOUNDARIES.index(run.phase) + 1 if run.phase in BOUNDARIES else 0
    phases = {*run.passed, *BOUNDARIES[:reached]}
    meter = run.meter
    counts = None
    if not meter.plain:
        counts = Counts(
            model_calls=meter.model_calls, tool_calls=meter.tool_calls, tokens=meter.tokens, cost=meter.cost
        )
    steps = [_saved_step(one.number, one.response, one.usage, one.tool_results) for one in run.steps]
    if run.settling is not None:
        _, response, usage = run.settling
        steps.append(SavedStep.of(run.number, response, usage))
    results = [one.result for one in run.passes if one.result is not None]
    if not run.passes and run.pending_results:
        results = list(run.pending_results)
    return Checkpoint(
        run_id=run.run_id,
        thread_id=run.thread_id,
        parent_run_id=run.parent_run_id,
        resumed_from=run.resumed_from,
        agent=run.agent.name,
        base=run.thread_base,
        offered=tuple([tool.name for tool in run.settling[0].tools]) if run.settling is not None else None,
        handed_in=run.input_end - run.thread_base,
        status="paused",
        number=run.number,
        phase=phase,
        messages=run.history.messages[run.thread_base :],
        steps=tuple(steps),
        answered={one.tool_call_id: SavedResult.of(one) for one in results},
        passed=tuple(sorted(phases)),
        kept=tuple(_kept(run)),
        interrupts=interrupts,
        resolved=tuple([one.interrupt for one in run.answers]),
        answers={one.interrupt.id: SavedAnswer.of(one.answer, run.clock.now()) for one in run.answers},
        state=to_jsonable(run._state) if run._state else None,
        private=_private(run),
        usage=run.usage,
        counts=counts,
        tools={tool.name: tool_hash(tool) for tool in run.plan.tools},
        created_at=run.clock.now(),
    )


def _saved_step(number: int, response: ModelResponse, usage: Usage | None, results: Any) -> SavedStep:
    return SavedStep.of(number, response, usage).replace(results=tuple([SavedResult.of(one) for one in results]))


def _kept(run: Run) -> list[Kept]:
    kept = []
    call = run.model_call
    if call is not None and call.paused_at is not None and call.paused_at[1] is not None:
        kept.append(Kept(layer=call.paused_at[0], response=call.paused_at[1]))
    for one in run.passes:
        if one.asked is not None and one.paused_at is not None and one.paused_at[1] is not None:
            layer, result = one.paused_at
            kept.append(Kept(layer=layer, tool_call_id=one.original.id, result=SavedResult.of(result)))
    return kept


def _private(run: Run) -> dict[str, Private]:
    states = run._private or {}
    return {
        saved_name(run, one): Private(one.state_version, to_jsonable(states[id(one)]))
        for one in run.plan.middleware
        if one.saved and id(one) in states
    }
