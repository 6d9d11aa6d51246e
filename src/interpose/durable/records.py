"""What is recorded, as JSON: answers of models, results of tools, errors, results of runs.

Types are never chosen by data: an error comes back as a class of this library or of Python, looked up by its name in a
table, or as one that the program itself has listed.
"""

import builtins
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from interpose import errors
from interpose.errors import InterposeError, LimitExceeded, OutputError, ProviderError, ResumeError, RunAborted
from interpose.interrupts import OpenInterrupt
from interpose.messages import AssistantMessage, Message, ToolResult, Value
from interpose.output import OutputType
from interpose.request import ModelResponse, Usage
from interpose.result import RunResult
from interpose.saved import SavedResult, SavedStep
from interpose.text import to_json, to_jsonable

Record = dict[str, Any]
PROVIDER_FIELDS = ("provider", "model", "status_code", "retry_after_s", "retryable", "request_id", "code")


class RecordedError(InterposeError):
    """An error from before a crash whose class is not known here; *kind* is the name of that class.

    Classes listed in `DBOSAgents(errors=...)` come back as themselves.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


_OWN = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
_PYTHON = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}


class Errors:
    """The classes that errors may come back as: this library's, Python's, and *more*, made from their `args`."""

    def __init__(self, more: Iterable[type[Exception]] = ()) -> None:
        self._more = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in more}

    def record(self, error: BaseException) -> Record:
        """Return *error* as JSON; of a subclass that is not known, the nearest known class is kept."""
        kind = next((one for one in type(error).__mro__ if self._name(one) is not None), None)
        known = None if kind is None or kind in (Exception, BaseException, InterposeError) else self._name(kind)
        record: Record = {"message": str(error), "class": f"{type(error).__module__}.{type(error).__qualname__}"}
        if known is not None:
            record |= {"known": known, "fields": _fields(error)}
        return {"error": record}

    def restore(self, record: Record) -> Exception:
        """Return the error that `record` was given."""
        said = record["error"]
        message, name = str(said.get("message", "")), said.get("known")
        kind = self._more.get(name) or _OWN.get(name) or _PYTHON.get(name)
        fields = said.get("fields") or {}
        if kind is None:
            return RecordedError(message, str(said.get("class", "")))
        try:
            return _make(kind, message, fields)
        except Exception:  # of a class whose shape has changed since
            return RecordedError(message, str(said.get("class", "")))

    def _name(self, kind: type) -> str | None:
        full = f"{kind.__module__}.{kind.__qualname__}"
        if full in self._more:
            return full
        known = _OWN.get(kind.__name__) or _PYTHON.get(kind.__name__)
        return kind.__name__ if known is kind else None


def _fields(error: BaseException) -> Record:
    match error:
        case ProviderError():
            return {name: getattr(error, name) for name in PROVIDER_FIELDS}
        case LimitExceeded():
            return {"limit": error.limit, "value": to_jsonable(error.value)}
        case OutputError():
            return {"raw": error.raw}
        case ResumeError():
            return {"problems": [list(one) for one in error.problems]}
        case RunAborted():
            return {"reason": error.reason}
    plain = all(one is None or isinstance(one, str | int | float | bool) for one in error.args)
    return {"args": list(error.args)} if plain else {}


def _make(kind: type[Exception], message: str, fields: Record) -> Exception:
    if issubclass(kind, ProviderError):
        told: dict[str, Any] = {name: fields[name] for name in PROVIDER_FIELDS if name in fields}
        return kind(message, **told)
    if issubclass(kind, LimitExceeded):
        return kind(fields.get("limit", ""), fields.get("value"), message)
    if issubclass(kind, OutputError):
        return kind(message, fields.get("raw", ""))
    if issubclass(kind, ResumeError):
        return kind(message, tuple((str(one), str(what)) for one, what in fields.get("problems", ())))
    if issubclass(kind, RunAborted):
        return kind(fields.get("reason", ""))
    return kind(*fields["args"]) if "args" in fields else kind(message)


def response_record(response: ModelResponse) -> Record:
    """Return a model's answer as JSON."""
    return {"response": response.to_dict()}


def response_of(record: Record) -> ModelResponse:
    """Return the answer that `response_record` was given."""
    return msgspec.convert(record["response"], ModelResponse)


def result_record(result: ToolResult, *, ran: bool) -> Record:
    """Return a tool's result as JSON, which the model will read as it reads the result itself; *ran* as counted."""
    return {"result": SavedResult.of(result).to_dict(), "ran": ran}


def result_of(record: Record, call_id: str) -> ToolResult:
    """Return the result that `result_record` was given, as that of the call *call_id*."""
    return msgspec.convert(record["result"], SavedResult).result().replace(tool_call_id=call_id)


class SavedRun(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a run as it is saved; `new` counts the messages at the end that the run added.

    `said` holds the messages of steps that are not among `messages`, such as half an answer that a limit cut.
    """

    text: str = ""
    output: Any = None
    messages: tuple[Message, ...] = ()
    new: int = 0
    steps: tuple[SavedStep, ...] = ()
    said: tuple[AssistantMessage, ...] = ()
    usage: Usage = msgspec.field(default_factory=Usage)
    finish_reason: str = "stop"
    status: str = "finished"
    interrupts: tuple[OpenInterrupt, ...] = ()
    run_id: str = ""
    thread_id: str = ""
    checkpoint: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, result: RunResult) -> "SavedRun":
        """Return *result* in its saved form."""
        known = {one.id for one in result.messages}
        steps = []
        for step in result.steps:
            results = tuple([SavedResult.of(one) for one in step.tool_results])
            steps.append(SavedStep.of(step.number, step.response, step.usage).replace(results=results))
        return cls(
            text=result.text,
            output=to_jsonable(result.output),
            messages=result.messages,
            new=len(result.new_messages),
            steps=tuple(steps),
            said=tuple([one.response.message for one in result.steps if one.response.message.id not in known]),
            usage=result.usage,
            finish_reason=result.finish_reason,
            status=result.status,
            interrupts=result.interrupts,
            run_id=result.run_id,
            thread_id=result.thread_id,
            checkpoint=result.checkpoint,
        )

    def result(self, output: Any = None) -> RunResult:
        """Return the result, its output as the type *output*; of a step's request only what is known."""
        by_id = {one.id: one for one in (*self.messages, *self.said) if isinstance(one, AssistantMessage)}
        value = self.output
        if output is not None and value is not None:
            value = OutputType(output).decode(to_json(value))
        return RunResult(
            text=self.text,
            output=value,
            messages=self.messages,
            new_messages=self.messages[len(self.messages) - self.new :],
            steps=tuple([one.step(by_id[one.message_id]) for one in self.steps if one.message_id in by_id]),
            usage=self.usage,
            finish_reason=self.finish_reason,
            status="interrupted" if self.status == "interrupted" else "finished",
            interrupts=self.interrupts,
            run_id=self.run_id,
            thread_id=self.thread_id,
            checkpoint=self.checkpoint,
        )


def run_record(result: RunResult) -> Record:
    """Return the result of a run as JSON."""
    return SavedRun.of(result).to_dict()


def run_of(record: Record, output: Any = None) -> RunResult:
    """Return the result that `run_record` was given, its output as the type *output*."""
    return msgspec.convert(record, SavedRun).result(output)
