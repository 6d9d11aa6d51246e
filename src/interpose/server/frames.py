"""Events as they leave: one server-sent event each, with the owner's ids, and nothing that is not for clients."""

from collections.abc import Mapping
from typing import Any

from interpose._engine.signals import Rank, Signal
from interpose.events import (
    AnyEvent,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallResultEvent,
)
from interpose.middleware import Middleware
from interpose.server.caller import told_id
from interpose.server.client_tools import ASKED
from interpose.server.failures import LIMIT, OTHER, ShowError, ShownError, classified, error_id, told

HEARTBEAT = b": still here\n\n"
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""What some clients take for the end of a line, escaped as JSON has it."""
ABORTED = ("aborted", "the run was stopped")
TOOL_FAILED = "the tool failed"


def framed(seq: int, data: str) -> bytes:
    """Return one server-sent event."""
    if not data.isascii():
        data = data.translate(LINE_ENDS)
    return b"id: %d\ndata: %s\n\n" % (seq, data.encode())


class Failed:
    """What of a run failed: the run itself, and which of its tool calls."""

    __slots__ = ("calls", "kind")

    def __init__(self) -> None:
        self.calls: set[str] = set()
        self.kind = OTHER


class NoteFailures(Middleware[Any]):
    """Notes what failed, since an event tells only in words what errors say: for the model and the log, not clients."""

    name = "interpose.server"

    def __init__(self, failed: Failed) -> None:
        self._failed = failed

    async def wrap_run(self, ctx: Any, call_next: Any) -> Any:  # noqa: ARG002  # the seam's arguments
        """Note what failed the run."""
        try:
            return await call_next()
        except BaseException as error:
            self._failed.kind = LIMIT if _is_limit(error) else classified(error)
            raise

    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:  # noqa: ARG002  # the seam's arguments
        """Note a call whose result is an error that came from within."""
        if result.is_error:
            self._failed.calls.add(call.id)


def _is_limit(error: BaseException) -> bool:
    return isinstance(error, Signal) and error.note.rank is Rank.LIMIT


class Shown:
    """Makes of a run's events what its owner's clients see."""

    def __init__(self, owner: str, run_id: str, failed: Failed, show_error: ShowError | None = None) -> None:
        self._owner = owner
        self._run_id = run_id
        self._failed = failed
        self._show = show_error

    def event(self, event: AnyEvent) -> AnyEvent:
        """Return *event* as it is shown."""
        match event:
            case RunStartedEvent():
                if self._owner:
                    parent = event.parent_run_id and told_id(self._owner, event.parent_run_id)
                    return event.replace(**self._ids(event), parent_run_id=parent)
            case RunFinishedEvent():
                return self._finished(event)
            case RunErrorEvent():
                return self._error(event)
            case MessagesSnapshotEvent():
                return event.replace(messages=tuple([self.message(one) for one in event.messages]))
            case ToolCallResultEvent():
                if event.tool_call_id in self._failed.calls:
                    return event.replace(content=self.tool_failed(event.tool_call_id, str(event.content)))
        return event

    def frame(self, event: AnyEvent) -> bytes:
        """Return *event* as a server-sent event."""
        return framed(event.seq or 0, self.event(event).to_json())

    def tool_failed(self, call_id: str, text: str) -> str:
        """Return what is shown of a failed tool's text."""
        id = error_id(self._run_id, call_id)
        shown = ShownError(kind="tool", code="tool_failed", text=text, error_id=id, public=TOOL_FAILED)
        return told(shown, self._show)

    def message(self, wire: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a message as it is shown: what a failed tool says is left to the model."""
        if wire.get("role") != "tool" or "error" not in wire:
            return wire
        text = self.tool_failed(str(wire.get("toolCallId")), str(wire["error"]))
        return {**{key: wire[key] for key in wire if key != "metadata"}, "content": text, "error": text}

    def _ids(self, event: RunStartedEvent | RunFinishedEvent) -> dict[str, str]:
        return {"thread_id": told_id(self._owner, event.thread_id), "run_id": told_id(self._owner, event.run_id)}

    def _finished(self, event: RunFinishedEvent) -> RunFinishedEvent:
        ids = self._ids(event)
        outcome = event.outcome
        if outcome is not None and outcome.get("type") == "interrupt":
            outcome = _interrupted(outcome, ids["run_id"])
        return event.replace(**ids, outcome=outcome)

    def _error(self, event: RunErrorEvent) -> RunErrorEvent:
        code, public = self._public(event)
        id = error_id(self._run_id, "run")
        shown = ShownError(kind="run", code=code, text=event.message, error_id=id, public=public)
        return event.replace(code=code, message=told(shown, self._show))

    def _public(self, event: RunErrorEvent) -> tuple[str, str]:
        """Return the code and the general text of a `RUN_ERROR`; the code of a provider is not told."""
        if event.code == "aborted":
            return ABORTED
        code, _, text = self._failed.kind
        return code, text


def _interrupted(outcome: Mapping[str, Any], run_id: str) -> Mapping[str, Any]:
    """Return an outcome with questions for a person; where only calls of the client's own tools wait, a success."""
    asked = list(outcome.get("interrupts", ()))
    for_person = [bound(one, run_id) for one in asked if one.get("reason") != ASKED]
    calls = [one["toolCallId"] for one in asked if one.get("reason") == ASKED and "toolCallId" in one]
    if calls and not for_person:
        return {"type": "success", "pendingToolCallIds": calls}
    return {**outcome, "interrupts": for_person}


def bound(interrupt: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return a question with what TanStack AI wants to see before it lets a person answer.

    Source: @tanstack/ai-client 0.33, read 2026-11; other clients pass it by.
    """
    binding = {"v": 1, "kind": "generic", "interruptId": interrupt["id"], "interruptedRunId": run_id, "generation": 0}
    return {**interrupt, "metadata": {**(interrupt.get("metadata") or {}), "tanstack:interruptBinding": binding}}
