"""The rules of AG-UI on what may follow what.

Source: the checks of AG-UI's own client, version 1.0.0, read 2026-11.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from interpose.events import (
    Event,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

Act = Literal["start", "go on", "end"]

_BRACKETS: dict[type[Event], tuple[Act, str, str]] = {
    StepStartedEvent: ("start", "step", "step_name"),
    StepFinishedEvent: ("end", "step", "step_name"),
    TextMessageStartEvent: ("start", "message", "message_id"),
    TextMessageContentEvent: ("go on", "message", "message_id"),
    TextMessageEndEvent: ("end", "message", "message_id"),
    ReasoningStartEvent: ("start", "reasoning", "message_id"),
    ReasoningEndEvent: ("end", "reasoning", "message_id"),
    ReasoningMessageStartEvent: ("start", "reasoning message", "message_id"),
    ReasoningMessageContentEvent: ("go on", "reasoning message", "message_id"),
    ReasoningMessageEndEvent: ("end", "reasoning message", "message_id"),
    ToolCallStartEvent: ("start", "tool call", "tool_call_id"),
    ToolCallArgsEvent: ("go on", "tool call", "tool_call_id"),
    ToolCallEndEvent: ("end", "tool call", "tool_call_id"),
}
"""What an event does to a bracket, the kind of the bracket, and the attribute that holds its id."""


def assert_events_valid(events: Sequence[Event]) -> None:
    """Raise `AssertionError`, with the first event that breaks a rule of AG-UI and its index, if one does.

    The stream of one run begins with `RUN_STARTED` and ends with one `RUN_FINISHED` or `RUN_ERROR`. Contents and ends
    need an open start of their id; an id is opened once; nothing is open at the end, also of a run that failed; a call
    that was opened here is whole before its one result.
    """
    assert events, "there are no events; a run sends RUN_STARTED and one end at least"
    order = _Order()
    for index, event in enumerate(events):
        problem = order.problem(event, last=index == len(events) - 1)
        assert problem is None, f"event {index}, {event.to_json()}: {problem}"


class _Order:
    """What is open, as the events come."""

    def __init__(self) -> None:
        self.started = False
        self.ended = False
        self.open: set[tuple[str, str]] = set()
        self.seen: set[tuple[str, str]] = set()
        self.answered: set[str] = set()

    def problem(self, event: Event, last: bool) -> str | None:
        """Return which rule *event* breaks, or None."""
        if self.ended:
            return "the run has ended, nothing may follow"
        if isinstance(event, RunStartedEvent) == self.started:
            return "the run was started before" if self.started else "the first event must be RUN_STARTED"
        self.started = True
        self.ended = isinstance(event, RunFinishedEvent | RunErrorEvent)
        if self.ended and self.open:
            return f"the run ends while these are open: {_listed(self.open)}"
        if last and not self.ended:
            return "the last event must be RUN_FINISHED or RUN_ERROR"
        if isinstance(event, ToolCallResultEvent):
            return self._result(event.tool_call_id)
        if event.__class__ in _BRACKETS:
            act, kind, attribute = _BRACKETS[event.__class__]
            return self._bracket(act, kind, getattr(event, attribute))
        return None

    def _bracket(self, act: Act, kind: str, id: str) -> str | None:
        key = (kind, id)
        if act == "start":
            return self._start(kind, id)
        if key not in self.open:
            return f"no {kind} {id!r} is open; open are: {_listed(self.open)}"
        if act == "end":
            self.open.remove(key)
            if kind == "reasoning" and ("reasoning message", id) in self.open:
                return f"the reasoning message {id!r} in it is still open"
        return None

    def _start(self, kind: str, id: str) -> str | None:
        key = (kind, id)
        if key in self.seen:
            again = "is open already" if key in self.open else "was opened before; an id is opened once"
            return f"the {kind} {id!r} {again}"
        if kind == "tool call" and id in self.answered:
            return f"the call {id!r} has its result already"
        self.open.add(key)
        self.seen.add(key)
        return None

    def _result(self, id: str) -> str | None:
        if ("tool call", id) in self.open:
            return f"the call {id!r} is still open; its TOOL_CALL_END comes first"
        if id in self.answered:
            return f"the call {id!r} has a result already"
        self.answered.add(id)
        return None


def _listed(keys: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {id!r}" for kind, id in sorted(keys)) or "none"
