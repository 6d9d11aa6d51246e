"""Checkpoints: what of a run outlives its process, in parts that are appended while it goes on and folded when read."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec
from msgspec import field

from interpose.errors import ResumeError
from interpose.interrupts import OpenInterrupt
from interpose.messages import AssistantMessage, Message, Value
from interpose.request import Step, Usage
from interpose.saved import Counts, Kept, Private, SavedAnswer, SavedResult, SavedStep
from interpose.text import canonical_json, to_json
from interpose.tools import Tool

VERSION = 1
"""The shape of checkpoints that this release writes; it reads this one and older ones."""


class Checkpoint(Value, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is needed to go on with a run, or what is new of it since the part before.

    A run writes part 0 when it begins, then one part after every model response and every tool result, each with what
    is new alone. `fold` makes the whole of them:

    - of the first part: `run_id` (which every part has), `thread_id`, `parent_run_id`, `resumed_from`, `agent`,
      `base`, `committed`, `handed_in`, `created_at`;
    - of the last part: `part`, `status`, `number`, `phase`, `offered` (the tools that the open step offers, by name),
      `asks` (those of them to which a rule of the step alone applies), `interrupts`, `expires_at`;
    - one after the other: `messages`, `steps`;
    - merged by key: `private`, `tools`;
    - of the last part that tells them: `state`, `thread_state`, `usage`, `counts`;
    - of the step that is open, so that a higher `number` empties them: `started`, `passed`, `kept` and `resolved` one
      after the other, `answered` and `answers` merged by key, `nested` folded by key, where a part 0 begins anew. What
      was answered becomes the `results` of its step.

    `messages` are those of the run, of which the caller handed in the first `handed_in`: not those that the thread had
    when the run began, whose count is `base`. Of a run that failed, the thread has the first `committed` of them too.
    `answered` holds the results of finished calls of the open step by call id, `started` the ids of calls that change
    something and may have begun, `passed` the boundaries that are done with, `answers` what a person answered, by the
    ids of what is `resolved`, `nested` the checkpoints of nested runs by call id, `tools` the `tool_hash` of each tool
    by name. Times are in seconds since 1970, UTC.
    """

    version: int = field(default_factory=lambda: VERSION)  # a factory, since a plain default would not be written
    run_id: str
    part: int = 0
    thread_id: str = ""
    parent_run_id: str | None = None
    resumed_from: str | None = None
    agent: str = ""
    base: int = 0
    committed: int = 0
    handed_in: int = 0
    offered: tuple[str, ...] | None = None
    asks: tuple[str, ...] = ()
    status: Literal["running", "paused"] = "running"
    number: int = 0
    phase: str = ""
    messages: tuple[Message, ...] = ()
    steps: tuple[SavedStep, ...] = ()
    started: tuple[str, ...] = ()
    answered: Mapping[str, SavedResult] = {}
    passed: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    interrupts: tuple[OpenInterrupt, ...] = ()
    answers: Mapping[str, SavedAnswer] = {}
    resolved: tuple[OpenInterrupt, ...] = ()
    nested: Mapping[str, "Checkpoint"] = {}
    state: Mapping[str, Any] | None = None
    thread_state: Mapping[str, Any] | None = None
    private: Mapping[str, Private] = {}
    usage: Usage | None = None
    counts: Counts | None = None
    tools: Mapping[str, str] = {}
    created_at: float = 0.0
    expires_at: float | None = None

    @classmethod
    def from_json(cls, data: str | bytes) -> Self:
        """Return the checkpoint that *data* describes.

        Raises:
            ResumeError: it is no checkpoint, is cut off, or was written by a newer release.
        """
        try:
            version = _version_of.decode(data).version
            if version <= VERSION:
                return _decoder.decode(data)  # type: ignore[return-value]  # there is one class of checkpoints
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, TypeError, RecursionError) as error:
            raise ResumeError(f"this is no checkpoint, or a damaged one: {error}") from error
        raise ResumeError(
            f"this checkpoint is of version {version}, and this release of interpose reads up to {VERSION}; "
            "resume it with the release that wrote it, or a newer one"
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the checkpoint that `to_dict` gave.

        Raises:
            ResumeError: as with `from_json`.
        """
        return cls.from_json(to_json(data))

    @classmethod
    def fold(cls, parts: Iterable["Checkpoint"]) -> "Checkpoint":
        """Return what *parts*, which may come in any order, make together.

        Raises:
            ResumeError: there is none, or one is missing.
        """
        ordered = sorted(parts, key=lambda one: one.part)
        if not ordered or not ordered[0].thread_id:
            raise ResumeError("the first part of this checkpoint is missing")
        for number, one in enumerate(ordered, ordered[0].part):
            if one.part != number:
                raise ResumeError(f"part {number} of the checkpoint of run {ordered[0].run_id!r} is missing")
        return ordered[0] if len(ordered) == 1 else _fold(ordered)

    def message(self, id: str) -> AssistantMessage:
        """Return the answer with this id, such as that of a saved step.

        Raises:
            ResumeError: it is not there.
        """
        for message in self.messages:
            if message.id == id and isinstance(message, AssistantMessage):
                return message
        raise ResumeError(f"checkpoint of run {self.run_id!r}: the answer {id!r}, which a step refers to, is missing")

    def past_steps(self) -> tuple[Step, ...]:
        """Return the saved steps as a result shows them."""
        return tuple([one.step(self.message(one.message_id)) for one in self.steps])

    def check(self, tools: Iterable[Tool], versions: Mapping[str, int]) -> None:
        """Check that an agent with *tools*, and middleware whose saved state is of *versions*, can go on from here.

        Tools and middleware that are new do no harm.

        Raises:
            ResumeError: a tool is gone or changed, or saved state is of another version; lists what differs.
        """
        now = {tool.name: tool_hash(tool) for tool in tools}
        differs = [
            f"tool {name!r} is gone" if name not in now else f"tool {name!r} takes other arguments now"
            for name, was in self.tools.items()
            if now.get(name) != was
        ]
        for name, saved in self.private.items():
            if name not in versions:
                differs.append(f"middleware {name!r}, which saved state, is gone")
            elif versions[name] != saved.version:
                differs.append(
                    f"middleware {name!r} saved state of version {saved.version}, now it is {versions[name]}"
                )
        if differs:
            raise ResumeError(
                f"run {self.run_id!r} of agent {self.agent!r} cannot go on with this agent: {'; '.join(differs)}"
            )


class _Version(msgspec.Struct):
    version: int


_version_of = msgspec.json.Decoder(_Version)
_decoder = msgspec.json.Decoder(Checkpoint)


def _fold(parts: Sequence[Checkpoint]) -> Checkpoint:
    first, last = parts[0], parts[-1]
    messages: list[Message] = []
    steps: list[SavedStep] = []
    merged: dict[str, dict[str, Any]] = {"private": {}, "tools": {}}
    told: dict[str, Any] = {"state": None, "thread_state": None, "usage": None, "counts": None}
    open_step = _OpenStep()
    for part in parts:
        if part.number > open_step.number:
            _settle(steps, open_step)
            open_step = _OpenStep(part.number)
        messages.extend(part.messages)
        steps.extend(part.steps)
        open_step.take(part)
        for name, items in merged.items():
            items.update(getattr(part, name))
        told.update({name: value for name in told if (value := getattr(part, name)) is not None})
    return first.replace(
        part=last.part,
        status=last.status,
        number=last.number,
        phase=last.phase,
        interrupts=last.interrupts,
        offered=last.offered,
        asks=last.asks,
        expires_at=last.expires_at,
        messages=tuple(messages),
        steps=tuple(steps),
        **open_step.fields(),
        **merged,
        **told,
    )


class _OpenStep:
    """What is gathered of one step until the next begins."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.started: list[str] = []
        self.passed: list[str] = []
        self.kept: list[Kept] = []
        self.resolved: dict[str, OpenInterrupt] = {}
        self.answered: dict[str, SavedResult] = {}
        self.answers: dict[str, SavedAnswer] = {}
        self.nested: dict[str, list[Checkpoint]] = {}

    def take(self, part: Checkpoint) -> None:
        self.started.extend(part.started)
        self.passed.extend(part.passed)
        self.kept.extend(part.kept)
        self.resolved.update({one.id: one for one in part.resolved})
        self.answered.update(part.answered)
        self.answers.update(part.answers)
        for call_id, inner in part.nested.items():
            parts = self.nested.setdefault(call_id, [])
            if inner.part == 0:
                parts.clear()
            parts.append(inner)

    def fields(self) -> dict[str, Any]:
        return {
            "started": tuple(self.started),
            "passed": tuple(self.passed),
            "kept": tuple(self.kept),
            "resolved": tuple(self.resolved.values()),
            "answered": self.answered,
            "answers": self.answers,
            "nested": {call_id: Checkpoint.fold(parts) for call_id, parts in self.nested.items()},
        }


def _settle(steps: list[SavedStep], done: _OpenStep) -> None:
    """Give the step that is *done* the results of its calls."""
    if done.answered and steps and steps[-1].number == done.number:
        steps[-1] = steps[-1].replace(results=(*steps[-1].results, *done.answered.values()))


def tool_hash(tool: Tool) -> str:
    """Return a short hash of the tool's name and arguments; its description may change without harm."""
    return hashlib.sha256(canonical_json([tool.name, tool.parameters])).hexdigest()[:16]


def seal(checkpoint: Checkpoint, key: bytes) -> dict[str, Any]:
    """Return *checkpoint* as a JSON-able dict with a keyed hash, for one that travels outside a store."""
    data = checkpoint.to_dict()
    return {"checkpoint": data, "seal": _mac(data, key)}


def unseal(sealed: Mapping[str, Any], key: bytes) -> Checkpoint:
    """Return the checkpoint that `seal` was given.

    Raises:
        ResumeError: it was changed since, was sealed with another key, or is no checkpoint.
    """
    data = sealed.get("checkpoint")
    if not isinstance(data, Mapping) or not isinstance(sealed.get("seal"), str):
        raise ResumeError("this is no sealed checkpoint: expected a dict with 'checkpoint' and 'seal'")
    if not hmac.compare_digest(_mac(data, key).encode(), sealed["seal"].encode()):
        raise ResumeError(
            "the seal of this checkpoint does not fit: it was changed, or sealed with another key; "
            "give the agents of all processes the same checkpoint_key="
        )
    return Checkpoint.from_dict(data)


def _mac(data: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, canonical_json(data), hashlib.sha256).hexdigest()
