"""Requests and responses to hand to one hook alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from interpose.inputs import as_messages
from interpose.messages import AssistantMessage, Message, ToolCall
from interpose.request import ModelRequest, ModelResponse
from interpose.testing.turns import as_call


def make_request(*messages: Message | Mapping[str, Any] | str, **fields: Any) -> ModelRequest:
    """Return a request; strings become user messages, dicts the messages that they describe."""
    said = tuple([message for given in messages for message in _as_messages(given)])
    return ModelRequest(messages=said, **{"provider": "scripted", "model": "scripted", **fields})


def _as_messages(given: Message | Mapping[str, Any] | str) -> tuple[Message, ...]:
    return as_messages(given if isinstance(given, str) else [given])


def make_response(
    text_or_calls: str | AssistantMessage | Sequence[ToolCall | tuple[Any, ...] | str] = "", **fields: Any
) -> ModelResponse:
    """Return a response that says a text, or asks for calls given as `ToolCall` or `(name, arguments)`."""
    match text_or_calls:
        case str():
            message = AssistantMessage(text_or_calls)
        case AssistantMessage():
            message = text_or_calls
        case _:
            message = AssistantMessage(tool_calls=tuple([as_call(item) for item in text_or_calls]))
    return ModelResponse(message, **{"provider": "scripted", "model": "scripted", **fields})
