"""What people said, for the record: about a call that waited for them, and to the run that was resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.interrupts import APPROVAL
from interpose.interrupts import Approved, Rejected, Resolution

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose._engine.tool_phase import ToolPass


def about_run(run: Run, now: float) -> dict[str, Any]:
    """Return what the answers say that a run was resumed with; *now* is when they were taken, in seconds since 1970."""
    if run.resumption is None or not run.resumption.answers:
        return {}
    return {"answers": [_told(one, now) for one in run.resumption.answers]}


def about_call(run: Run, one: ToolPass) -> dict[str, Any]:
    """Return what was asked, or answered, about a tool call: as `approval`, other questions as `answers`."""
    meta: dict[str, Any] = {}
    if run.answers:
        fresh = run.resumption.answers if run.resumption is not None else ()
        others = []
        for said in run.answers:
            asked = said.interrupt
            if asked.tool_call is None or asked.tool_call.id != one.original.id:
                continue
            told = _told(said, run.run_node.started_at if said in fresh else None)
            if asked.definition == APPROVAL:
                meta["approval"] = told
            else:
                others.append(told)
        if others:
            meta["answers"] = others
    for asked in one.asked:  # several, where a nested run waits
        told = {"decision": "asked", "interrupt_id": asked.id, "reason": asked.reason}
        if asked.definition == APPROVAL and asked.tool_call is not None and asked.tool_call.id == one.original.id:
            meta["approval"] = told
        else:
            meta.setdefault("questions", []).append(told)
    return meta


def _told(said: Resolution, at: float | None) -> dict[str, Any]:
    answer = said.answer
    told: dict[str, Any] = {
        "decision": type(answer).__name__.lower(),
        "interrupt_id": said.interrupt.id,
        "asked": said.interrupt.reason,
        "by": getattr(answer, "by", None),
    }
    if at is not None:
        told["time"] = at
    if isinstance(answer, Rejected) and answer.reason:
        told["reason"] = answer.reason
    if isinstance(answer, Approved) and answer.edited_args is not None:
        told["edited_args"] = dict(answer.edited_args)
    return told
