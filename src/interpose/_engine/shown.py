"""What the record shows of what went in and came out: JSON-able, without secrets, each text and value cut to size."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from interpose._engine.provenance import Passed, changes_of
from interpose.info import Later
from interpose.inputs import as_messages
from interpose.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult
from interpose.request import ModelRequest, ModelResponse, ModelSettings
from interpose.result import RunResult
from interpose.text import to_json

if TYPE_CHECKING:
    from interpose.redaction import Redactor

logger = logging.getLogger("interpose")
MAX_NAME = 200


class Shown:
    """Makes the contents of one run's nodes; what several requests share is made once, and is the same object.

    Contents are made when they are read, in any thread; what may change until then is kept as it was.
    """

    __slots__ = (
        "_calls",
        "_instructions",
        "_lock",
        "_messages",
        "_names",
        "_offered",
        "_said",
        "_settings",
        "_shown",
        "_tools",
        "redactor",
    )

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._lock = threading.RLock()
        self._messages: tuple[Message, ...] = ()
        self._shown: list[dict[str, Any]] = []
        self._instructions = ("", "")
        self._offered: tuple[Any, list[dict[str, Any]]] = ((), [])
        self._settings: tuple[ModelSettings | None, Any] = (None, None)
        self._said: tuple[Any, dict[str, Any]] = (None, {})
        self._calls: dict[str, tuple[ToolCall, dict[str, Any]]] = {}
        self._tools: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._names: dict[str, str] = {}

    def name(self, name: str) -> str:
        """Return the name of a node; that of a tool may be anything that a model made up."""
        shown = self._names.get(name)
        if shown is None:
            shown = self.redactor.text(name[: 2 * MAX_NAME])
            self._names[name] = shown = shown if len(shown) <= MAX_NAME else shown[:MAX_NAME] + "…"
        return shown

    # What is kept until it is read.

    def given(self, given: Any) -> Later:
        """Return what a run was given, as messages."""
        return self._later(self._given, tuple(given) if isinstance(given, list) else given)

    def result(self, result: RunResult) -> Later:
        """Return what a run came to."""
        return self._later(self._result, result)

    def request(self, request: ModelRequest) -> Later:
        """Return what a model was sent."""
        return self._later(self._request, request)

    def response(self, response: ModelResponse) -> Later:
        """Return what a model answered."""
        return self._later(self._response, response)

    def call(self, call: ToolCall) -> Later:
        """Return a tool call, with the arguments as they are now."""
        return self._later(self._own_call, call, _kept(call.args))

    def answer(self, result: ToolResult) -> Later:
        """Return what a tool call came to, as it is now."""
        data = result.data
        if data.__class__ in FIXED or result.parts:
            return self._later(self._answer, result, None)
        return self._later(self._answer, result, result.text)

    def changes(self, passed: tuple[Passed, ...]) -> Later:
        """Return who changed what on the way."""
        return Later(self._made, changes_of, (passed, self.redactor), ())

    def _later(self, make: Callable[..., Any], *args: Any) -> Later:
        return Later(self._made, make, args)

    def _made(self, make: Callable[..., Any], args: tuple[Any, ...], otherwise: Any = None) -> Any:
        """Return what *make* gives, or *otherwise* where the values of users play tricks on it."""
        with self._lock:
            try:
                return make(*args)
            except Exception:
                logger.exception("part of a record could not be made")
                return otherwise

    # How it is shown.

    def _given(self, given: Any) -> Any:
        if given is None:
            return None
        try:
            return {"messages": [self._message(one) for one in as_messages(given)]}
        except Exception:
            return self.redactor.value(given)

    def _result(self, result: RunResult) -> dict[str, Any]:
        shown: dict[str, Any] = {"text": self.redactor.cut(result.text), "finish_reason": result.finish_reason}
        if result.output is not None:
            shown["output"] = self.redactor.value(result.output)
        if result.interrupts:
            shown["interrupts"] = [self.redactor.value(one.to_dict()) for one in result.interrupts]
        return shown

    def _request(self, request: ModelRequest) -> dict[str, Any]:
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

    def _response(self, response: ModelResponse) -> dict[str, Any]:
        message = response.message
        self._calls = {}
        shown = self._message(message)
        self._said = (message, shown)  # it stands in the next request too
        return {**shown, "finish_reason": response.finish_reason}

    def _own_call(self, call: ToolCall, kept: str | None) -> dict[str, Any]:
        args = call.args if kept is None else msgspec.json.decode(kept)
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

    def _answer(self, result: ToolResult, text: str | None) -> dict[str, Any]:
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


def _kept(args: Any) -> str | None:
    """Return arguments as JSON text; None where they cannot be written so, and are looked at later as they are."""
    try:
        return to_json(args)
    except Exception:
        return None


def _texts(schema: Any, redactor: Redactor) -> Any:
    """Return a JSON schema with its texts redacted; a property named `token` is no secret."""
    if isinstance(schema, Mapping):
        return {str(key): _texts(value, redactor) for key, value in schema.items()}
    if isinstance(schema, list | tuple):
        return [_texts(one, redactor) for one in schema]
    if isinstance(schema, str):
        return redactor.cut(schema)
    return msgspec.to_builtins(schema) if schema is None or isinstance(schema, bool | int | float) else str(schema)
