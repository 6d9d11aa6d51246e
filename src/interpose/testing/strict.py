"""The checks that real providers make of a request before they answer."""

from collections import deque
from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

import msgspec
from msgspec import Struct

from interpose.errors import BadRequest
from interpose.messages import Message, ToolMessage
from interpose.request import ModelRequest

REMEMBERED_HISTORIES = 16


class _Checked(Struct):
    """A history that was found in order, and the ids of its calls."""

    messages: tuple[Message, ...]
    call_ids: set[str]


class RequestCheck:
    """Raises `BadRequest` for a request that a real provider would refuse.

    Of a history that begins with the very messages of one checked before, only the rest is looked at. The latest few
    histories are remembered, so that runs which take turns each find their own.
    """

    def __init__(self) -> None:
        self._histories: deque[_Checked] = deque(maxlen=REMEMBERED_HISTORIES)
        self._tools: tuple[Any, ...] = ()

    def __call__(self, request: ModelRequest) -> None:
        """Check one request."""
        try:
            self._check(request)
        except _Refused as refused:
            raise BadRequest(
                f"the scripted model refuses this request, as a real provider would: {refused}",
                provider=request.provider,
                model=request.model,
                status_code=400,
            ) from None

    def _check(self, request: ModelRequest) -> None:
        if not request.messages and not request.instructions:
            raise _Refused("it has neither messages nor instructions")
        _check_text(request.instructions, "the instructions")
        self._check_tools(request)
        self._check_history(request.messages)

    def _check_tools(self, request: ModelRequest) -> None:
        tools, choice = request.tools, request.settings.tool_choice
        forced = choice not in (None, "auto", "none")
        if forced and not tools:
            raise _Refused(f"tool choice {choice!r} forces a call, but no tools are offered")
        if _same(tools, self._tools) and not forced:
            return
        names = [tool.name for tool in tools]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise _Refused(f"tools are offered twice under one name: {', '.join(map(repr, twice))}")
        if forced and choice != "required" and choice not in names:
            raise _Refused(f"tool choice {choice!r} names a tool that is not offered; offered: {names}")
        for tool in tools:
            _check_text(tool.to_dict(), f"the tool {tool.name!r}")
        self._tools = tools

    def _check_history(self, messages: tuple[Message, ...]) -> None:
        known = self._longest_known_beginning(messages)
        if known is None:
            call_ids: set[str] = set()
            _check_messages(messages, 0, call_ids)
            self._histories.append(_Checked(messages, call_ids))
        elif len(known.messages) != len(messages):
            call_ids = known.call_ids
            self._histories.remove(known)  # its ids grow now: after a refusal it must not be found again
            _check_messages(messages, len(known.messages), call_ids)
            self._histories.append(_Checked(messages, call_ids))

    def _longest_known_beginning(self, messages: tuple[Message, ...]) -> _Checked | None:
        best = None
        for known in self._histories:
            length = len(known.messages)
            if length > len(messages) or (best is not None and length <= len(best.messages)):
                continue
            if not length or known.messages[-1] is not messages[length - 1]:
                continue
            if all(map(is_, known.messages, messages)):
                best = known
        return best


class _Refused(Exception):
    pass


def _same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return left is right or (len(left) == len(right) and all(map(is_, left, right)))


def _check_messages(messages: tuple[Message, ...], start: int, call_ids: set[str]) -> None:
    """Check the messages from *start* on; *call_ids* holds the calls before it, all answered, and takes up the new."""
    waiting: dict[str, int] = {}
    for position in range(start, len(messages)):
        message = messages[position]
        where = f"message {position} ({message.role})"
        if isinstance(message, ToolMessage):
            _check_answer(message, where, waiting, call_ids)
        elif waiting:
            break
        for call in message.tool_calls:
            if not call.id:
                raise _Refused(f"{where} has a call of {call.name!r} without an id")
            if call.id in call_ids:
                raise _Refused(f"{where} has the call id {call.id!r}, which an earlier call has too")
            if not isinstance(call.args, Mapping):
                raise _Refused(f"{where} has arguments of {call.name!r} that are no object: {call.args!r:.80}")
            call_ids.add(call.id)
            waiting[call.id] = position
        _check_text(msgspec.structs.replace(message, metadata=None) if message.metadata else message, where)
    if waiting:
        call_id, position = next(iter(waiting.items()))
        raise _Refused(f"the call {call_id!r} of message {position} has no result in the tool messages right after it")


def _check_answer(message: ToolMessage, where: str, waiting: dict[str, int], call_ids: Iterable[str]) -> None:
    call_id = message.tool_call_id
    if waiting.pop(call_id, None) is not None:
        return
    if call_id in call_ids:
        raise _Refused(f"{where} is a second result of the call {call_id!r}, or does not follow it directly")
    raise _Refused(f"{where} is the result of {call_id!r}, which no earlier message asks for")


def _check_text(value: Any, where: str) -> None:
    try:
        if isinstance(value, str):
            value.encode()
        else:
            _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise _Refused(f"{where} holds half a surrogate pair, which is no valid Unicode: {error}") from None


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
