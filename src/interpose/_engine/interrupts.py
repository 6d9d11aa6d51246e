"""Pausing: what is asked at the four boundaries, and of a tool call before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import msgspec

from interpose._engine.keys import key_of, mark
from interpose._engine.plan import Hook, call_hook, name_of
from interpose._engine.signals import Rank, Signal
from interpose.checkpoint import tool_hash
from interpose.errors import HookError
from interpose.interrupts import Cancelled, InterruptRequest, OpenInterrupt, Rejected
from interpose.messages import ToolCall, ToolResult
from interpose.outcomes import Pause
from interpose.text import canonical_json

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose._engine.tool_phase import ToolPass
    from interpose.tools import Tool

APPROVAL = "tool_approval"
"""The reason, and the kind, of the question whether a tool call may run."""
REMEMBERED = "interpose.approved"
"""Where the state of a thread has what need not be asked again: agent, tool, its hash, and perhaps the arguments."""


def question(run: Run, reason: str, value: Any, call: ToolCall | None = None, message: str = "") -> OpenInterrupt:
    """Return a question of this step; its id stays the same when the step is played again."""
    about = call.id if call is not None else run.phase
    id = _id(run, about, reason)
    return OpenInterrupt(id=id, reason=reason, message=message, value=value, tool_call=call)


def _id(run: Run, *parts: str) -> str:
    """Return an id of these *parts*; others make another, whatever signs they hold."""
    quoted = [part.replace("%", "%25").replace("/", "%2F") for part in parts]
    return "/".join([run.origin_id, str(run.number), *quoted])


async def boundary(run: Run, batch: list[OpenInterrupt]) -> None:
    """Collect what middleware asks at this boundary; with *batch*, which was asked already, it is one batch.

    Raises:
        Signal: something was asked, so the run pauses.
        HookError: a hook returned something else than requests, or one of an interrupt that nobody declares.
    """
    hooks = () if run.phase in run.passed else run.plan.on_interrupt_boundary
    for hook in hooks:
        asked = await call_hook(hook, run.ctx)
        if asked is None:
            continue
        if not isinstance(asked, list | tuple):
            raise HookError(
                f"{hook!r} returned {type(asked).__name__}; expected a list of interrupt requests, or nothing"
            )
        batch.extend([_checked(run, hook, one) for one in asked])
    ids = [one.id for one in batch]
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise HookError(f"two questions of one batch have the id {twice!r}: give each request a key of its own")
    if batch:
        run.asked = (*run.asked, *batch)
        run.note(Rank.PAUSE, Pause(batch[0].reason))
        raise Signal(run.noted)  # type: ignore[arg-type]  # just noted


def _checked(run: Run, hook: Hook, request: Any) -> OpenInterrupt:
    if not isinstance(request, InterruptRequest):
        got = type(request).__name__
        raise HookError(f"{hook!r} asked with {got}; expected what `Interrupt.request(...)` gives")
    if run.plan.interrupts.get(request.definition.id) is not request.definition:
        raise HookError(
            f"{hook!r} asked {request.definition.id!r}, which is not registered: "
            f"list it in the `interrupts` of {name_of(hook.middleware)}"
        )
    return OpenInterrupt(
        id=_id(run, run.phase, request.definition.id, request.key),
        reason=request.reason,
        message=request.message,
        value=request.payload,
        expires_at=request.expires_at,
        definition=request.definition.id,
    )


def declined(run: Run, call: ToolCall) -> ToolResult | None:
    """Return the answer to a call that a person did not let run, or whose question was withdrawn, if that is so."""
    for one in run.answers:
        if (
            one.interrupt.tool_call is None
            or one.interrupt.tool_call.id != call.id
            or one.interrupt.definition != APPROVAL
        ):
            continue
        if isinstance(one.answer, Rejected):
            return call.refuse(
                f"rejected by a person: {one.answer.reason}" if one.answer.reason else "rejected by a person"
            )
        if isinstance(one.answer, Cancelled):
            return call.refuse("not executed: the question whether it may run was withdrawn")
    return None


def remember(run: Run, tool: Tool, call: ToolCall, always: str) -> None:
    """Keep in the state of the thread that calls like *call* need not be asked about again."""
    entry = _entry(run, tool, call)[: 3 if always == "tool" else 4]
    state = _outermost(run).thread_state
    if entry not in state.get(REMEMBERED, ()):
        state[REMEMBERED] = [*state.get(REMEMBERED, ()), entry]


def is_remembered(run: Run, tool: Tool, call: ToolCall) -> bool:
    """Whether a person has said, in this thread, that calls like *call* need not be asked about."""
    kept = _outermost(run).thread_state.get(REMEMBERED)
    if not kept:
        return False
    entry = _entry(run, tool, call)
    return entry in kept or entry[:3] in kept


def _entry(run: Run, tool: Tool, call: ToolCall) -> list[str]:
    """Return whose tool it is and which, as it is now, and the arguments."""
    return [run.agent.name, call.name, tool_hash(tool), canonical_json(call.args).decode()]


def _outermost(run: Run) -> Run:
    while run.parent is not None:  # nested runs have no thread of their own
        run = run.parent
    return run


def shown_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return typed *args* as a person is shown them: as JSON, in which equal ones are equal."""
    shown: dict[str, Any] = msgspec.json.decode(canonical_json(args))
    return shown


async def approved(run: Run, one: ToolPass, tool: Tool, call: ToolCall) -> bool:
    """Whether *call* may run now; where a person is to be asked first, the question is put on *one*."""
    if run.resumption is not None and (answer := run.resumption.approval_of(call, tool)) is not None:
        one.granted = True
        if answer.always is not None:
            remember(run, tool, call, answer.always)
        return True
    wanted: Any = tool.approval
    if callable(wanted):
        wanted = wanted(one.ctx, call)
        if isawaitable(wanted):
            wanted = await wanted
    cut = run.resumption is not None and run.resumption.cut(call)
    if not wanted or (not cut and is_remembered(run, tool, call)):
        return True
    message = f"Run {call.name}?"
    if cut:
        message = f"{call.name} was cut off while it ran, and may have taken effect. Run it again?"
    asked = question(run, APPROVAL, None, call.replace(args=shown_args(call.args)), message)
    bound = mark(await key_of(_outermost(run).agent), [asked.id, call.name, shown_args(call.args), run.thread_id])
    one.asked = (asked.replace(definition=APPROVAL, id=f"{asked.id}/{bound}"),)
    one.note(Rank.PAUSE, Pause(APPROVAL))
    return False
