"""Resuming: a paused run goes on where it was, with the answers, in this process or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interpose._engine.config import configure
from interpose._engine.interrupts import APPROVAL, declined, shown_args
from interpose._engine.plan import call_hook, name_of
from interpose._engine.saved_state import state_of
from interpose._engine.signals import Signal
from interpose._engine.step import after_model, open_step, request_of, step
from interpose.checkpoint import Checkpoint
from interpose.errors import HookError, ResumeError, ThreadConflict
from interpose.interrupts import Approved, Resolution, Resolutions
from interpose.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult
from interpose.request import ModelRequest, ModelResponse, Usage
from interpose.text import canonical_json
from interpose.tools import ArgumentError

if TYPE_CHECKING:
    from interpose._engine.plan import Plan
    from interpose._engine.run import Run
    from interpose._engine.tool_phase import ToolPass
    from interpose.tools import Tool

VOTES = ("continue", "cancel", "stop")
"""What `on_interrupt_resolution` may say, the strictest last."""
STRUCTURED = "structured_output"
"""The phase of the call for the output, which follows the last step."""
BEFORE_ANSWER = ("init", "before_model", "model_stream", "input")
"""Phases in which a pause leaves the step without its model's answer, so that it begins again."""
CANCELLED = "not executed: the question was withdrawn"
STOPPED = "not executed: the run was stopped"


class Resumption:
    """What a resumed run goes on from, until the step that was interrupted is over."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        answers: tuple[Resolution, ...],
        nested: dict[str, Resumption] | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.checkpoint = checkpoint
        self.waits = waits
        """Whether it is a nested run that still waits for its answers."""
        self.nested = nested or {}
        self.answers = answers
        self.all_answers: Sequence[Resolution] = answers
        self.results: dict[str, ToolResult] = {key: saved.result() for key, saved in checkpoint.answered.items()}
        self.refusal: str | None = None
        self.replayed = False

    def kept_responses(self) -> dict[str, ModelResponse] | None:
        """Return, by layer, what the inside of a paused layer of the model seam had given."""
        kept = {one.layer: one.response for one in self.checkpoint.kept if one.response is not None}
        return kept if kept and not self.replayed else None

    def has_edits(self) -> bool:
        """Whether a person has edited the arguments of a call that is in the history."""
        given = [one.answer for one in self.answers if one.interrupt.tool_call is not None]
        return any([isinstance(one, Approved) and one.edited_args is not None for one in given])

    def kept_usage(self) -> Usage | None:
        """Return what the attempts behind a kept response took."""
        return next((one.usage for one in self.checkpoint.kept if one.response is not None), None)

    def told(self) -> Resolutions:
        """Return the answers, with those to questions of nested runs."""
        return Resolutions((*self.answers, *[one for inner in self.nested.values() for one in inner.told().all()]))

    def cut(self, call: ToolCall) -> bool:
        """Whether *call* changes something, and had begun when the process died."""
        return call.id in self.checkpoint.started and call.id not in self.nested

    def kept_results(self, call_id: str) -> dict[str, ToolResult] | None:
        """Return, by layer, what the inside of a paused layer had given for one call."""
        kept = {
            one.layer: one.result.result()
            for one in self.checkpoint.kept
            if one.tool_call_id == call_id and one.result is not None
        }
        return kept or None

    def unsettled(self, passes: list[ToolPass]) -> list[ToolPass]:
        """Return those of *passes* that still have to run; the others get the results that they had."""
        rest = []
        for one in passes:
            result = self.results.get(one.original.id)
            if result is None and self.refusal is not None:
                result = one.original.refuse(self.refusal)
            if result is None:
                rest.append(one)
            one.result = result
        return rest

    def approval_of(self, call: ToolCall, tool: Tool) -> Approved | None:
        """Return a person's approval of this very call of *tool*: its id, its tool and its typed arguments."""
        for one in self.answers if self.cut(call) else self.all_answers:
            asked = one.interrupt.tool_call
            if asked is None or asked.id != call.id or one.interrupt.definition != APPROVAL:
                continue
            if not isinstance(one.answer, Approved) or asked.name != call.name:
                continue
            if one.answer.edited_args is None:
                same = canonical_json(asked.args) == canonical_json(shown_args(call.args))
            else:
                same = _same(tool, one.answer.edited_args, call.args)
            if same:
                return one.answer
        return None


def _same(tool: Tool, edited: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
    """Whether *args*, which are typed, are those that a person wrote."""
    try:
        return canonical_json(tool.validate(edited)) == canonical_json(args)
    except ArgumentError:
        return False


def restore(run: Run, stored: tuple[Message, ...]) -> tuple[()]:
    """Put the run where it was paused: its history, steps, counts, state and what was answered; it adds no results.

    Raises:
        ThreadConflict: the thread was gone on with.
    """
    resumption = run.resumption
    assert resumption is not None
    checkpoint = resumption.checkpoint
    earlier = [
        Resolution(one, checkpoint.answers[one.id].answer())
        for one in checkpoint.resolved
        if one.id in checkpoint.answers
    ]
    run.answers = resumption.all_answers = (*earlier, *resumption.answers)
    run.number = checkpoint.number - (checkpoint.phase == STRUCTURED)
    run.passed = checkpoint.passed
    messages = _messages(run, checkpoint)
    run.stored = checkpoint.base + checkpoint.committed
    if len(stored) != run.stored:
        raise ThreadConflict(
            f"thread {run.thread_id!r} has {len(stored)} messages, and had {run.stored} when run {checkpoint.run_id!r} "
            f"stopped: others have gone on with it, so this run cannot"
        )
    base = stored[: checkpoint.base]
    run.thread_base = len(base)
    run.history.extend((*base, *messages))
    run.input_end = len(base) + checkpoint.handed_in
    run.input_size = 1
    run.restored = len(run.history.messages)
    again = checkpoint.phase in BEFORE_ANSWER
    run.steps = [one for one in checkpoint.past_steps() if not again or one.number < checkpoint.number]
    run.tool_call_count = sum(len(one.response.tool_calls) for one in run.steps if one.number < checkpoint.number)
    if checkpoint.usage is not None:
        run.usage = run.usage_before = checkpoint.usage
    _restore_counts(run, checkpoint)
    run.state.update(checkpoint.state or {})
    if checkpoint.thread_state is not None:
        run._thread_state = dict(checkpoint.thread_state)
    for one in run.plan.middleware:
        saved = checkpoint.private.get(saved_name(run.plan, one)) if one.saved else None
        if saved is not None:
            run.private[id(one)] = state_of(one, saved.data)
    return ()


def _restore_counts(run: Run, checkpoint: Checkpoint) -> None:
    counts = checkpoint.counts
    if run.meter.plain:
        return
    meter = run.meter
    if counts is not None:
        meter.model_calls, meter.tool_calls = counts.model_calls, counts.tool_calls
        meter.tokens, meter.cost = counts.tokens, counts.cost
        return
    steps = checkpoint.past_steps()  # the run was not limited before: what it spent is told by its steps
    meter.model_calls = sum([one.response.made_by is None for one in steps])
    meter.tool_calls = sum([len(one.tool_results) for one in steps])
    if checkpoint.usage is not None:
        meter.tokens, meter.cost = checkpoint.usage.total_tokens or 0, checkpoint.usage.cost_usd or 0.0


def _messages(run: Run, checkpoint: Checkpoint) -> tuple[Message, ...]:
    """Return the run's messages as the interrupted step needs them: edited calls, and no results of that step yet."""
    messages = list(checkpoint.messages)
    edits = {
        one.interrupt.tool_call.id: one.answer
        for one in run.answers
        if one.interrupt.tool_call is not None
        and isinstance(one.answer, Approved)
        and one.answer.edited_args is not None
    }
    settled: dict[str, ToolMessage] = {}
    while messages and isinstance(messages[-1], ToolMessage) and messages[-1].tool_call_id in checkpoint.answered:
        message = messages.pop()
        settled[message.tool_call_id] = message  # type: ignore[index, assignment]  # a tool message
    run.settled = settled
    if checkpoint.phase == "model_stream" and messages and isinstance(messages[-1], AssistantMessage):
        messages.pop()
    if messages and edits and isinstance(last := messages[-1], AssistantMessage):
        messages[-1] = _with_edits(last, edits)
    return tuple(messages)


def _with_edits(message: AssistantMessage, edits: dict[str, Any]) -> AssistantMessage:
    """Return *message* with edited calls, each in its place among the other parts."""
    if not message.parts:
        return message.replace(tool_calls=tuple([_edited(call, edits.get(call.id)) for call in message.tool_calls]))
    parts = [_edited(part, edits.get(part.id)) if isinstance(part, ToolCall) else part for part in message.parts]
    return message.replace(parts=tuple(parts))


def _edited(call: ToolCall, answer: Any) -> ToolCall:
    return call if answer is None else call.replace(args=answer.edited_args, edited_by=answer.by or "a person")


def saved_name(plan: Plan, middleware: Any) -> str:
    """Return the name under which the private state of *middleware* is saved: a second one of a name has `#2`."""
    name = name_of(middleware)
    same = [one for one in plan.middleware if one.saved and name_of(one) == name]
    place = next(index for index, one in enumerate(same) if one is middleware)
    return name if place == 0 else f"{name}#{place + 1}"


async def resolve(run: Run) -> str:
    """Tell the answers to the hooks and return the strictest vote.

    Raises:
        HookError: a hook said something else than a vote.
    """
    vote = 0
    resolutions = run.resumption.told() if run.resumption is not None else Resolutions(())
    for hook in run.plan.hooks["on_interrupt_resolution"]:
        said = await call_hook(hook, run.ctx, resolutions)
        if run.noted is not None:
            raise Signal(run.noted)
        if said is None:
            continue
        if said not in VOTES:
            raise HookError(f"{hook!r} returned {said!r:.80}; expected 'continue', 'cancel', 'stop' or nothing")
        vote = max(vote, VOTES.index(said))
    return VOTES[vote]


def has_work(run: Run) -> bool:
    """Whether there is something to answer: not so where nothing came in, or only what was there and answered."""
    agent = run.agent
    if agent._output is not None and not agent._native_output and not run.config.tools:
        return False
    if not run.history.messages:
        return bool(run.config.instructions)
    return not (run.input_size == 0 and run.history.messages[-1].__class__ is AssistantMessage)


async def go_on(run: Run, vote: str) -> str | None:
    """Go on with the step that was interrupted; return the finish reason where the run ends with it."""
    resumption = run.resumption
    assert resumption is not None
    checkpoint = resumption.checkpoint
    if vote != "continue":
        resumption.refusal = STOPPED if vote == "stop" else CANCELLED
    if checkpoint.phase == STRUCTURED:
        if run.history.open:
            run.history.mend(CANCELLED)
        return "stopped" if vote == "stop" else run.steps[-1].response.finish_reason if run.steps else "stop"
    if checkpoint.phase in BEFORE_ANSWER:
        if vote == "stop":
            return "stopped"
        if not has_work(run):
            return "stop"
        reason = await step(run)
    else:
        await open_step(run)
        response = _interrupted(run)
        run.sent = await _request_again(run, checkpoint, response)
        run.settling = (run.sent, response, None)
        reason = await after_model(run, response)
        if vote == "stop":
            reason = reason or "stopped"
    run.number += reason is None
    return reason


async def _request_again(run: Run, checkpoint: Checkpoint, response: ModelResponse) -> ModelRequest:
    """Return the request of the interrupted step, with the tools that it offered, and no others.

    Raises:
        ResumeError: a tool that only this step offered, and that was called, is not there any more.
    """
    config = run.config
    offered = checkpoint.offered
    if offered is None:
        return request_of(run, config)
    if run.plan.on_config and not {*offered} <= {tool.name for tool in config.tools}:
        config = await configure(run, config.replace(messages=run.history.messages))
    there = {tool.name: tool for tool in config.tools if tool.name in offered}
    for call in response.tool_calls:
        runs = call.id not in checkpoint.answered and run.resumption.refusal is None and declined(run, call) is None  # type: ignore[union-attr]  # resumed
        if runs and call.name in offered and call.name not in there:
            raise ResumeError(f"the tool {call.name!r} was offered in this step alone, and is not there to go on with")
    tools = [  # where the step had a rule of its own, that is gone: a person is asked
        tool.replace(approval=True) if tool.name in checkpoint.asks else tool for tool in there.values()
    ]
    return request_of(run, config.replace(tools=tuple(tools)))


def _interrupted(run: Run) -> ModelResponse:
    """Return the answer of the interrupted step, taken off the finished ones."""
    last = next(m for m in reversed(run.history.messages) if isinstance(m, AssistantMessage))
    if run.steps and run.steps[-1].number == run.number:
        done = run.steps.pop()
        return done.response.replace(message=last)
    return ModelResponse(last)
