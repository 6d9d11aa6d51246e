"""What hooks are told: one small frozen value a seam."""

import difflib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Self

import msgspec
from msgspec import field

from interpose.messages import Message, ToolCall, ToolResult, Value
from interpose.request import ModelSettings, Step, Usage
from interpose.text import to_json


class RunConfig(Value, frozen=True, kw_only=True):
    """What a run, or one of its steps, starts from; `on_config` returns a changed copy.

    *model* is a `Model`, the name of another model of the same provider, or "provider:name". *messages* are those of
    the thread with the new ones. `output_schema` is set where the model is to answer in JSON.
    """

    model: Any
    instructions: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[Any, ...] = ()
    settings: ModelSettings = ModelSettings()
    output_schema: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("messages", "tools"):
            value = getattr(self, name)
            if value.__class__ is not tuple:
                msgspec.structs.force_setattr(self, name, tuple(value))


class StepInfo(Value, frozen=True):
    """For `on_step`: the number of the step, and the id that its message will have."""

    step: int
    message_id: str


class ToolPhaseInfo(Value, frozen=True):
    """For `on_tool_phase_complete`: the calls of the step, their results in order, and the calls that wait."""

    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    pending: tuple[ToolCall, ...] = ()


class ContinueState(Value, frozen=True):
    """For `on_should_continue`: where the run stands after a step."""

    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    finish_reason: str
    tool_call_count: int
    last_step_tool_call_count: int


class FinishInfo(Value, frozen=True):
    """For `on_finish`."""

    status: Literal["finished", "interrupted"]
    finish_reason: str
    text: str
    usage: Usage
    duration_ms: float


class AbortInfo(Value, frozen=True):
    """For `on_abort`."""

    reason: str
    duration_ms: float


class ErrorInfo(Value, frozen=True):
    """For `on_error`."""

    error: BaseException
    duration_ms: float


class Change(Value, frozen=True, omit_defaults=True):
    """One change that a middleware made to what passed through it: who, in which hook, which field, from what to what.

    *field* is a field of the model request or of the tool call (`tools`, `instructions`, `messages`,
    `settings.temperature`, `args.city`); *old* and *new* are compact, JSON-able and redacted: tools by their names,
    messages and long texts by the part that differs.
    """

    middleware: str
    hook: str
    field: str
    old: Any = None
    new: Any = None


class Later:
    """What a field of a node will be when somebody first reads it: most readers look at a part of all that there is.

    Whoever makes one calls it with the phase of the node. It is no struct, which an encoder would look into.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self, phase: str) -> Any:
        """Return it, made once."""


class Node(Value, frozen=True, omit_defaults=True):  # not kw_only: the engine makes six a step, four times as fast so
    """For `on_node`: the start or the end of one entry of the run's record; make one with keywords.

    *kind* is `run`, `step`, `model` or `tool`; *parent_id* is the node above, None for an outermost run. *started_at*
    is in seconds since 1970, UTC. *step* is the number of the step that a step, model or tool node belongs to.

    What follows is known at the end. *status* is `ok` or `error`; *outcome* tells a pause and an abort apart from the
    two. *usage* is of this call for a model, of all below for a step and a run (nested runs included). *attempts*
    counts the calls of the provider, 0 for a made-up response, whose maker *made_by* names; *failures* are the errors
    of attempts that failed, *superseded* how often something already shown was taken back. *content* is `{"in": …}`,
    at the end `{"in": …, "out": …}`: JSON-able, redacted, each text and result cut at 20 000 characters; None where
    no reader wants it. *changes* say who changed the request of a model call, or the arguments of a tool call. Dict
    and JSON leave out what a node does not have.
    """

    phase: Literal["start", "end"]
    kind: Literal["run", "step", "model", "tool"]
    name: str
    run_id: str
    id: str
    parent_id: str | None = None
    thread_id: str = ""
    started_at: float = 0.0
    step: int | None = None
    provider: str | None = None
    call_class: str | None = None
    tool_call_id: str | None = None
    resumed_from: str | None = None
    status: Literal["ok", "error"] | None = None
    outcome: Literal["finished", "interrupted", "aborted", "failed"] | None = None
    finish_reason: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    usage: Usage | None = None
    attempts: int | None = None
    failures: tuple[str, ...] = ()
    superseded: int = 0
    made_by: str | None = None
    content: Any = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the node as JSON-able dicts and lists."""
        self.whole()
        return super().to_dict()

    def to_json(self) -> str:
        """Return the node as compact JSON."""
        self.whole()
        return super().to_json()

    def __reduce__(self) -> Any:
        return super(Node, self.whole()).__reduce__()

    def whole(self) -> Self:
        """Return the node itself, with all of its fields made, as an encoder needs it that does not read them."""
        for name in MADE_WHEN_READ:
            getattr(self, name)
        return self


MADE_WHEN_READ = ("content", "changes")


def _made_when_read(name: str) -> None:
    """Let reading *name* make what is still to be made. It stays an ordinary field for everything else."""
    slot = Node.__dict__[name]

    def read(node: Node) -> Any:
        value = slot.__get__(node)
        if isinstance(value, Later):
            value = value(node.phase)
            slot.__set__(node, value)
        return value

    setattr(Node, name, property(read))


for _name in MADE_WHEN_READ:
    _made_when_read(_name)


class FileEvent(Value, frozen=True, kw_only=True):
    """For `on_file*`: a file was created, changed or deleted in the sandbox; *path* is relative to its workspace.

    A file that is renamed is deleted under one name and created under the other. *old* and *new* are its content
    around the event, None where there was no file or its content was not kept; what reads and compares them are
    `before`, `after` and `diff`. Dict and JSON have the kind and the path alone.
    """

    kind: Literal["create", "change", "delete"]
    path: str
    old: bytes | None = None
    new: bytes | None = None

    def before(self) -> str | bytes | None:
        """Return the content before the event: text where it is UTF-8, else bytes.

        None where there was no file, or where it was too large to be kept.
        """
        return _content(self.old)

    def after(self) -> str | bytes | None:
        """Return the content after the event, as `before` does; None where the file is gone."""
        return _content(self.new)

    def diff(self) -> str:
        """Return the change as a unified diff; one line that says so where content is binary or was not kept."""
        old = f"a/{self.path}" if self.kind != "create" else "/dev/null"
        new = f"b/{self.path}" if self.kind != "delete" else "/dev/null"
        before, after = self.before(), self.after()
        if (before is None and self.kind != "create") or (after is None and self.kind != "delete"):
            return f"Files {old} and {new} differ (their content was not kept)\n"
        if isinstance(before, bytes) or isinstance(after, bytes):
            return f"Binary files {old} and {new} differ\n"
        lines = difflib.unified_diff(_lines(before), _lines(after), old, new)
        return "".join([line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines])

    def to_dict(self) -> dict[str, Any]:
        """Return the kind and the path."""
        return {"kind": self.kind, "path": self.path}

    def to_json(self) -> str:
        """Return the kind and the path as compact JSON."""
        return to_json(self.to_dict())

    def __repr__(self) -> str:
        return f"FileEvent(kind={self.kind!r}, path={self.path!r})"


def _content(kept: bytes | None) -> str | bytes | None:
    if kept is None or b"\0" in kept:
        return kept
    try:
        return kept.decode()
    except UnicodeDecodeError:
        return kept


def _lines(text: str | None) -> list[str]:
    """Return the lines of *text* with their ends; only a line feed ends one."""
    if not text:
        return []
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])
