"""Events as they leave: one server-sent event each, with the owner's ids, and nothing that is not for clients."""

from collections.abc import Mapping, Sequence
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
from interpose.messages import Message
from interpose.middleware import Middleware
from interpose.result import RunStream
from interpose.server.caller import told_id
from interpose.server.client_tools import ASKED
from interpose.server.failures import LIMIT, OTHER, ShowError, ShownError, classified, error_id, logger, told

HEARTBEAT = b": still here\n\n"
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""What some clients take for the end of a line, escaped as JSON has it."""
ABORTED = ("aborted", "the run was stopped")
TOOL_FAILED = "the tool failed"
NOT_RUN = (
    "rejected by a person",
    "not executed: nobody answered",
    "not executed: the question",
    "not executed: the run",
    "not executed: the step limit",
    "not executed: this call was not issued",
)
"""How those error results begin that the engine, or a person, wrote of a call that was not run: all may read them."""
IS_ERROR = {"isError": True}
MOST_CHARS = 10_000
"""So much of a failed tool's text is logged."""


def framed(seq: int, data: str) -> bytes:
    """Return one server-sent event."""
    if not data.isascii():
        data = data.translate(LINE_ENDS)
    return b"id: %d\ndata: %s\n\n" % (seq, data.encode())


class Failed:
    """What of a run failed: the run itself, and which of its tool calls.

    *calls* are those whose texts are not for clients; None where nobody notes them, and none of them is.
    """

    __slots__ = ("calls", "kind", "run")

    def __init__(self, run: RunStream | None = None) -> None:
        self.run = run
        self.calls: set[str] | None = None
        self.kind = OTHER

    def is_error(self, event: ToolCallResultEvent) -> bool:
        """Whether a result is an error, as the run's history has it: results join it before they are told."""
        messages = () if self.run is None else _messages_of(self.run._run)
        found = next((one for one in reversed(messages) if one.id == event.message_id), None)
        if found is None:  # what is not known may not be shown
            return self.calls is None or event.tool_call_id in self.calls
        return bool(getattr(found, "is_error", False))

    def is_hidden(self, call_id: str, text: str) -> bool:
        """Whether the *text* of a call whose result is an error is not for clients."""
        return not text.startswith(NOT_RUN) and (self.calls is None or call_id in self.calls)


def _messages_of(run: Any) -> Sequence[Message]:
    """Return what is known of a run's messages: its history while it goes on, else what came out of it."""
    if (history := getattr(run, "history", None)) is not None:
        return tuple(history.messages)
    result = run._result or getattr(run._failure, "partial", None)
    return () if result is None else tuple(result.messages)


class NoteFailures(Middleware[Any]):
    """Notes what failed, since an event tells only in words what errors say: for the model and the log, not clients."""

    name = "interpose.server"

    def __init__(self, failed: Failed) -> None:
        self._failed = failed
        self._calls: set[str] = set()
        failed.calls = self._calls

    async def wrap_run(self, ctx: Any, call_next: Any) -> Any:  # noqa: ARG002  # the seam's arguments
        """Note what failed the run."""
        try:
            return await call_next()
        except BaseException as error:
            self._failed.kind = LIMIT if _is_limit(error) else classified(error)
            raise

    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
        """Note a call whose result is an error that came from within."""
        if result.is_error:
            self._calls.add(call.id)
            log_tool_failure(ctx.thread_id, ctx.run_id, call.id, result.text)


def log_tool_failure(thread_id: str, run_id: str, call_id: str, text: str) -> None:
    """Log what a failed tool says, under the id that clients are told."""
    if not text.startswith(NOT_RUN):
        id = error_id(thread_id, call_id)
        logger.warning("tool call %s of run %s failed (%s): %s", call_id, run_id, id, text[:MOST_CHARS])


def _is_limit(error: BaseException) -> bool:
    return isinstance(error, Signal) and error.note.rank is Rank.LIMIT


class Shown:
    """Makes of a run's events what its owner's clients see."""

    def __init__(
        self, owner: str, run_id: str, thread_id: str, failed: Failed, show_error: ShowError | None = None
    ) -> None:
        self._owner = owner
        self._run_id = run_id
        self._thread_id = thread_id
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
                return self._result(event)
        return event

    def frame(self, event: AnyEvent) -> bytes:
        """Return *event* as a server-sent event."""
        return framed(event.seq or 0, self.event(event).to_json())

    def tool_failed(self, call_id: str, text: str) -> str:
        """Return what is shown of a failed tool's text."""
        id = error_id(self._thread_id, call_id)
        shown = ShownError(kind="tool", code="tool_failed", text=text, error_id=id, public=TOOL_FAILED)
        return told(shown, self._show)

    def message(self, wire: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a message as it is shown: what a failed tool says is left to the model."""
        if wire.get("role") != "tool" or "error" not in wire or str(wire["error"]).startswith(NOT_RUN):
            return wire
        text = self.tool_failed(str(wire.get("toolCallId")), str(wire["error"]))
        return {**{key: wire[key] for key in wire if key != "metadata"}, "content": text, "error": text}

    def _result(self, event: ToolCallResultEvent) -> ToolCallResultEvent:
        """Return a result, marked where it is an error."""
        if not self._failed.is_error(event):
            return event
        id, text = event.tool_call_id, str(event.content)
        own = (event.metadata or {}).get("interpose") or {}
        marked = event.replace(metadata={**(event.metadata or {}), "interpose": {**own, **IS_ERROR}})
        if not self._failed.is_hidden(id, text):
            return marked
        if self._failed.calls is None:
            log_tool_failure(self._thread_id, self._run_id, id, text)
        return marked.replace(content=self.tool_failed(id, text))

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
