"""What is saved of a run: the whole of it where it pauses or fails, and while it goes on what is new alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.interrupts import APPROVAL
from interpose._engine.resuming import BEFORE_ANSWER, STRUCTURED, saved_name
from interpose.checkpoint import Checkpoint, tool_hash
from interpose.interrupts import Approved
from interpose.saved import Counts, Kept, Private, SavedAnswer, SavedResult, SavedStep
from interpose.text import canonical_json, to_jsonable

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose.interrupts import OpenInterrupt
    from interpose.request import ModelResponse, Usage


BOUNDARIES = ("before_model", "after_model", "before_tools", "after_tools")
"""The boundaries of a step, in order."""


class Written:
    """How much of a run its checkpoint has already; nothing yet, when it is new."""

    __slots__ = ("answered", "messages", "private", "state", "steps", "thread_state")

    def __init__(self) -> None:
        self.messages = 0
        self.steps = 0
        self.answered: set[str] = set()
        self.state = b""
        self.thread_state = b""
        self.private: dict[str, bytes] = {}


def whole_checkpoint(run: Run, interrupts: tuple[OpenInterrupt, ...]) -> Checkpoint:
    """Return all that is needed to go on with *run*, which pauses on *interrupts*."""
    return paused_checkpoint(run, interrupts, Written()).replace(**first_fields(run))


def paused_checkpoint(run: Run, interrupts: tuple[OpenInterrupt, ...], since: Written) -> Checkpoint:
    """Return what is new, *since* then, of *run*, which pauses on *interrupts*."""
    if run.phase == "init" and run.resumption is not None:  # the step that it goes on with stays as it is
        phase = run.resumption.checkpoint.phase
        phase = "before_model" if phase == "model_stream" else phase
        return resumed_checkpoint(run).replace(status="paused", phase=phase, interrupts=interrupts)
    phase = run.phase
    if any(one.asked for one in run.passes):
        phase = "input" if run.settling is None else "before_tools"
    reached = BOUNDARIES.index(run.phase) + 1 if run.phase in BOUNDARIES else 0
    results = [one.result for one in run.passes if one.result is not None]
    if not run.passes and run.pending_results:
        results = list(run.pending_results)
    answered = [SavedResult.of(one) for one in results if one.tool_call_id not in since.answered]
    return Checkpoint(
        run_id=run.run_id,
        status="paused",
        number=run.number + (phase == STRUCTURED),
        phase=phase,
        **offered(run),
        started=still_cut(run),
        answered={one.tool_call_id: one for one in answered},
        passed=tuple(sorted({*run.passed, *BOUNDARIES[:reached]})),
        kept=tuple(_kept(run)),
        interrupts=interrupts,
        nested={one.original.id: one.within for one in run.passes if one.within is not None},
        resolved=tuple([one.interrupt for one in run.answers]),
        answers=saved_answers(run),
        **grown(run, since),
    )


def failed_checkpoint(run: Run) -> Checkpoint:
    """Return what is needed to go on with *run*, which failed; its thread has its messages, each call answered."""
    over = bool(run.steps) and run.steps[-1].number == run.number
    structured = run.phase == STRUCTURED
    return Checkpoint(
        run_id=run.run_id,
        number=run.number + (over or structured),
        phase=STRUCTURED if structured else "before_model",
        **first_fields(run, committed=len(run.history.messages) - run.thread_base),
        **grown(run, Written()),
    )


def resumed_checkpoint(run: Run) -> Checkpoint:
    """Return the first part of *run*, which is resumed: the whole of what it goes on from, with the answers."""
    resumption = run.resumption
    assert resumption is not None
    was = resumption.checkpoint
    again = was.phase in BEFORE_ANSWER
    return was.replace(
        run_id=run.run_id,
        part=0,
        status="running",
        phase="before_model" if was.phase == "model_stream" else was.phase,
        messages=run.history.messages[run.thread_base :],
        steps=tuple(
            [
                one.replace(results=()) if one.number == was.number else one
                for one in was.steps
                if not again or one.number < was.number
            ]
        ),
        started=still_cut(run),
        interrupts=(),
        expires_at=None,
        resolved=tuple([one.interrupt for one in run.answers]),
        answers={**saved_answers(run), **was.answers},
        **first_fields(run),
    )


def still_cut(run: Run) -> tuple[str, ...]:
    """Return the calls that change something and were cut, but for those that a person lets run again."""
    resumption = run.resumption
    if resumption is None or not resumption.checkpoint.started:
        return ()
    approved = {
        one.interrupt.tool_call.id
        for one in resumption.answers
        if one.interrupt.tool_call is not None
        and one.interrupt.definition == APPROVAL
        and isinstance(one.answer, Approved)
    }
    return tuple([one for one in resumption.checkpoint.started if one not in approved])


def first_fields(run: Run, committed: int | None = None) -> dict[str, Any]:
    """Return what the first part of a checkpoint tells."""
    committed = run.stored - run.thread_base if committed is None else committed
    return {
        "thread_id": run.thread_id,
        "parent_run_id": run.parent_run_id,
        "resumed_from": run.resumed_from,
        "agent": run.agent.name,
        "base": run.thread_base,
        "committed": committed,
        "handed_in": run.input_end - run.thread_base,
        "tools": {tool.name: tool_hash(tool) for tool in run.plan.tools},
        "created_at": run.clock.now(),
    }


def saved_answers(run: Run) -> dict[str, SavedAnswer]:
    """Return what was answered in the step that is open, by the ids of the questions."""
    return {one.interrupt.id: SavedAnswer.of(one.answer, run.clock.now()) for one in run.answers}


def offered(run: Run) -> dict[str, Any]:
    """Return the names of the tools that the open step offers, and of those that it has a rule of its own for."""
    if run.settling is None:
        return {}
    tools, lasting = run.settling[0].tools, run.config.tools
    names = tuple([tool.name for tool in tools])
    if tools is lasting:
        return {"offered": names}
    rules = {tool.name: tool.approval for tool in lasting}
    own = [one for one in tools if one.approval is not False and one.approval is not rules.get(one.name, False)]
    return {"offered": names, "asks": tuple([one.name for one in own])}


def grown(run: Run, since: Written) -> dict[str, Any]:
    """Return what has grown or changed since *since*, which then counts as written."""
    messages = run.history.messages[run.thread_base + since.messages :]
    steps = [
        _saved_step(one.number, one.response, one.usage, () if since.messages else one.tool_results)
        for one in run.steps[since.steps :]
    ]
    if run.settling is not None and run.phase != STRUCTURED and len(run.steps) >= since.steps:
        _, response, usage = run.settling
        steps.append(SavedStep.of(run.number, response, usage))
    since.messages += len(messages)
    since.steps += len(steps)
    return {"messages": messages, "steps": tuple(steps), **changed(run, since)}


def changed(run: Run, since: Written) -> dict[str, Any]:
    """Return what the run has used, and the states that have changed since *since*, which then count as written."""
    fields = spent(run)
    if run._thread_state is not None and run.parent is None:
        text = canonical_json(run._thread_state)
        if text != (since.thread_state or run.thread_state_was):
            since.thread_state = text
            fields["thread_state"] = to_jsonable(run._thread_state)
    if run._state and (text := canonical_json(run._state)) != since.state:
        since.state = text
        fields["state"] = to_jsonable(run._state)
    if run._private and (private := _private(run, since)):
        fields["private"] = private
    return fields


def spent(run: Run) -> dict[str, Any]:
    """Return what the run has used, and where there are limits what counts for them."""
    meter = run.meter
    if meter.plain:
        return {"usage": run.usage}
    cut = sum([one.counted and one.result is None for one in run.passes])  # those under way are counted when made again
    counts = Counts(
        model_calls=meter.model_calls - meter.under_way,
        tool_calls=meter.tool_calls - cut,
        tokens=meter.tokens,
        cost=meter.cost,
    )
    return {"usage": run.usage, "counts": counts}


def _saved_step(number: int, response: ModelResponse, usage: Usage | None, results: Any) -> SavedStep:
    saved = SavedStep.of(number, response, usage)
    return saved.replace(results=tuple([SavedResult.of(one) for one in results])) if results else saved


def _kept(run: Run) -> list[Kept]:
    kept = []
    call = run.model_call
    if call is not None and call.paused_at is not None and call.paused_at[1] is not None:
        kept.append(Kept(layer=call.paused_at[0], response=call.paused_at[1], usage=call.usage))
    for one in run.passes:
        if one.asked and one.paused_at is not None and one.paused_at[1] is not None:
            layer, result = one.paused_at
            kept.append(Kept(layer=layer, tool_call_id=one.original.id, result=SavedResult.of(result)))
    return kept


def _private(run: Run, since: Written) -> dict[str, Private]:
    states = run._private or {}
    found = {}
    for one in run.plan.middleware:
        if one.saved and id(one) in states:
            data = to_jsonable(states[id(one)])
            name, text = saved_name(run.plan, one), canonical_json(data)
            if since.private.get(name) != text:
                since.private[name] = text
                found[name] = Private(one.state_version, data)
    return found
