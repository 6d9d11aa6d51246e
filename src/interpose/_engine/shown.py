"""What the record shows of what went in and came out: JSON-able, without secrets, each text and value cut to size."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from interpose._engine.provenance import Passed, changes_of
from interpose.info import Change, Later
from interpose.inputs import as_messages
from interpose.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult
from interpose.request import ModelRequest, ModelResponse, ModelSettings
from interpose.result import RunResult
from interpose.text import to_json

if TYPE_CHECKING:
    from interpose.redaction import Redactor

logger = logging.getLogger("interpose")
Kept = str | None
"""What something that may change was like, as JSON; None for what cannot change."""
Show = Callable[["Shown", Any, Kept], Any]
"""(Maker of the contents of a run, what is to be shown, what it was like)."""
MAX_NAME = 200


class Content(Later):
    """What went into a node and what came out; the start and the end of the node share it.

    It has no `__init__`, which would cost as much as all else: `Shown` fills it in. *given* and *out* are what is there
    to be shown, each with the text of what may change until it is read, and with the function that shows it, which is
    None once that is done.
    """

    __slots__ = ("given", "given_text", "out", "out_text", "show_given", "show_out", "shown")

    shown: Shown
    given: Any
    given_text: Kept
    show_given: Show | None
    out: Any
    out_text: Kept
    show_out: Show | None

    def __call__(self, phase: str) -> dict[str, Any]:
        """Return the content of the start or of the end of the node."""
        shown = self.shown
        with shown.lock:
            if self.show_given is not None:
                self.given = shown.made(self.show_given, self.given, self.given_text)
                self.show_given = self.given_text = None
            if phase == "start":
                return {"in": self.given}
            if self.show_out is not None:
                self.out = shown.made(self.show_out, self.out, self.out_text)
                self.show_out = self.out_text = None
            return {"in": self.given, "out": self.out}


class Changes(Later):
    """Who changed what on the way, until it is read."""

    __slots__ = ("passed", "shown")

    def __init__(self, shown: Shown, passed: tuple[Passed, ...]) -> None:
        self.shown = shown
        self.passed = passed

    def __call__(self, phase: str) -> tuple[Change, ...]:  # noqa: ARG002  # of both phases
        """Return them."""
        with self.shown.lock:
            made = self.shown.made(Shown.show_changes, self.passed)
            return () if made is None else made


class Shown:
    """Makes the contents of one run's nodes; what several requests share is made once, and is the same object.

    Contents are made when they are read, in any thread; what may change until then is kept as it was.
    """

    __slots__ = (
        "_calls",
        "_instructions",
        "_messages",
        "_offered",
        "_said",
        "_settings",
        "_shown",
        "_tools",
        "lock",
        "names",
        "redactor",
    )

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self.lock = threading.RLock()
        self._messages: tuple[Message, ...] = ()
        self._shown: list[dict[str, Any]] = []
        self._instructions = ("", "")
        self._offered: tuple[Any, list[dict[str, Any]]] = ((), [])
        self._settings: tuple[ModelSettings | None, Any] = (None, None)
        self._said: tuple[Any, dict[str, Any]] = (None, {})
        self._calls: dict[str, tuple[ToolCall, dict[str, Any]]] = {}
        self._tools: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.names: dict[str, str] = {}

    def name(self, name: str) -> str:
        """Return the name of a node; that of a tool may be anything that a model made up."""
        shown = self.names.get(name)
        if shown is None:
            shown = self.redactor.text(name[: 2 * MAX_NAME])
            self.names[name] = shown = shown if len(shown) <= MAX_NAME else shown[:MAX_NAME] + "…"
        return shown

    # What is kept until it is read.

    def content(self, given: Any, show: Show | None, text: Kept = None) -> Content:
        """Return the content of a node that begins with *given*; *text* is that of what may change."""
        content = Content()
        content.shown = self
        content.given = given
        content.given_text = text
        content.show_given = show
        content.out = content.out_text = content.show_out = None
        return content

    def made(self, show: Show, of: Any, text: Kept = None) -> Any:
        """Return what *show* gives, or nothing where the values of users play tricks on it."""
        try:
            return show(self, of, text)
        except Exception:
            logger.exception("part of a record could not be made")
            return None

    # How it is shown.

    def show_given(self, given: Any, _: Kept = None) -> Any:
        if given is None:
            return None
        try:
            return {"messages": [self._message(one) for one in as_messages(given)]}
        except Exception:
            return self.redactor.value(given)

    def show_result(self, result: RunResult, _: Kept = None) -> dict[str, Any]:
        shown: dict[str, Any] = {"text": self.redactor.cut(result.text), "finish_reason": result.finish_reason}
        if result.output is not None:
            shown["output"] = self.redactor.value(result.output)
        if result.interrupts:
            shown["interrupts"] = [self.redactor.value(one.to_dict()) for one in result.interrupts]
        return shown

    def show_request(self, request: ModelRequest, _: Kept = None) -> dict[str, Any]:
        shown: dict[str, Any] = {"provider": request.provider, "model": request.model}
        if request.instructions:
            if request.instructions != self._instructions[0]:
                self._instructions = (request.instructions, self.redactor.cut(request.instructions))
            shown["instructions"] = self._instructions[1]
        shown["messages"] = self._all_messages(request.messages)
        if request.tools:
            if request.tools is not self._offered[0]:
                self._offered = (request.tools, [self._tool(one) for one in request.tools])
            shown["tools"] = self._offered[1]
        if request.settings is not self._settings[0]:
            self._settings = (request.settings, self.redactor.value(request.settings))
        if self._settings[1]:
            shown["settings"] = self._settings[1]
        if request.output_schema is not None:
            shown["output_schema"] = self.redactor.value(request.output_schema)
        if request.metadata:
            shown["metadata"] = self.redactor.value(request.metadata)
        return shown

    def show_response(self, response: ModelResponse, _: Kept = None) -> dict[str, Any]:
        message = response.message
        self._calls = {}
        shown = self._message(message)
        self._said = (message, shown)  # it stands in the next request too
        return {**shown, "finish_reason": response.finish_reason}

    def show_changes(self, passed: tuple[Passed, ...], _: Kept = None) -> tuple[Change, ...]:
        return changes_of(passed, self.redactor)

    def show_call(self, call: ToolCall, text: Kept) -> dict[str, Any]:
        """Return a tool call, with the arguments that *text* has as JSON."""
        args = call.args if text is None else msgspec.json.decode(text)
        known = self._calls.get(call.id)
        if known is not None and known[0].args == args and known[0].name == call.name:
            return known[1]
        return self._call(call, args)

    def _call(self, call: ToolCall, args: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {"id": call.id, "name": self.name(call.name), "args": self.redactor.value(args)}
        if call.raw is not None:
            shown["raw"] = self.redactor.cut(call.raw)
        if call.error is not None:
            shown["error"] = self.redactor.cut(call.error)
        if call.edited_by is not None:
            shown["edited_by"] = self.redactor.cut(call.edited_by)
        return shown

    def show_answer(self, result: ToolResult, text: Kept) -> dict[str, Any]:
        """Return what a tool call came to, as *text* has it."""
        if result.parts:
            return {"data": [self._part(one) for one in result.parts], "is_error": result.is_error}
        data = result.data
        if text is not None:
            try:
                data = msgspec.json.decode(text)
            except msgspec.DecodeError:
                data = text
        return {"data": self.redactor.value(data), "is_error": result.is_error}

    def _all_messages(self, messages: tuple[Message, ...]) -> list[dict[str, Any]]:
        """Return *messages*; those that the last request had too are not made again."""
        before, shown = self._messages, self._shown
        size = len(before)
        if size and len(messages) >= size and messages[:size] == before:  # the same objects, nearly always: fast
            made = shown.copy()
            for one in messages[size:]:
                made.append(self._said[1] if one is self._said[0] else self._message(one))
        else:
            known = {id(message): made for message, made in zip(before, shown, strict=True)}
            made = [known.get(id(one)) or self._message(one) for one in messages]
        self._messages, self._shown = messages, made
        return made

    def _message(self, message: Any) -> dict[str, Any]:
        kind = message.__class__
        shown: dict[str, Any] = {"role": message.role, "id": message.id, "text": self.redactor.cut(message.text)}
        if kind is AssistantMessage:
            if message.reasoning:
                shown["reasoning"] = self.redactor.cut(message.reasoning)
            if message.tool_calls:
                shown["tool_calls"] = [self._said_call(one) for one in message.tool_calls]
        elif kind is not SystemMessage:
            if kind is ToolMessage:
                shown["tool_call_id"] = message.tool_call_id
                if message.is_error:
                    shown["is_error"] = True
            if message.name:
                shown["name"] = self.name(message.name)
        if kind is not SystemMessage and message.parts:
            others = [one for one in message.parts if type(one).__name__ not in IN_FIELDS]
            if others:
                shown["parts"] = [self._part(one) for one in others]
        if message.metadata:
            shown["metadata"] = self.redactor.value(message.metadata)
        return shown

    def _said_call(self, call: ToolCall) -> dict[str, Any]:
        shown = self._call(call, call.args)
        self._calls[call.id] = (call, shown)
        return shown

    def _part(self, part: Any) -> Any:
        """Return a part of a message; bytes by their size."""
        if not hasattr(part, "media_type"):
            return self.redactor.value(part)
        shown: dict[str, Any] = {"type": part.__struct_config__.tag}
        for name in ("media_type", "url", "file_id", "name"):
            value = getattr(part, name, None)
            if value is not None:
                shown[name] = f"<{len(value)} characters>" if value[:5] == "data:" else self.redactor.cut(value)
        if part.data is not None:
            shown["size_bytes"] = len(part.data) * 3 // 4
        return shown

    def _tool(self, tool: Any) -> dict[str, Any]:
        known = self._tools.get(id(tool))
        if known is None:
            parameters = _texts(tool.parameters, self.redactor)
            shown = {"name": self.name(tool.name), "description": self.redactor.cut(tool.description or "")}
            known = self._tools[id(tool)] = (tool, {**shown, "parameters": parameters})
        return known[1]


FIXED = frozenset((str, int, float, bool, bytes, type(None)))
"""Types of results that cannot change."""
IN_FIELDS = frozenset(("TextPart", "ReasoningPart", "ToolCall"))


def text_of_args(args: Any) -> str | None:
    """Return arguments as JSON; None where they cannot be written so, and are looked at later as they are."""
    try:
        return to_json(args)
    except Exception:
        return None


def text_of(result: ToolResult) -> str | None:
    """Return the text of a result that may change; None for one that cannot."""
    data = result.data
    if data.__class__ is not dict:
        return None if result.parts else result.text
    try:
        return to_json(data)
    except Exception:
        return result.text


def _texts(schema: Any, redactor: Redactor) -> Any:
    """Return a JSON schema with its texts redacted; a property named `token` is no secret."""
    if isinstance(schema, Mapping):
        return {str(key): _texts(value, redactor) for key, value in schema.items()}
    if isinstance(schema, list | tuple):
        return [_texts(one, redactor) for one in schema]
    if isinstance(schema, str):
        return redactor.cut(schema)
    return msgspec.to_builtins(schema) if schema is None or isinstance(schema, bool | int | float) else str(schema)
