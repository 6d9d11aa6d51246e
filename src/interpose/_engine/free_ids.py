"""Ids of tool calls: unique in a thread, whatever a provider or a middleware says."""

from __future__ import annotations

from collections.abc import Container

from interpose.ids import create_id
from interpose.messages import AssistantMessage, ToolCall


def with_free_ids(message: AssistantMessage, taken: set[str], own: Container[str]) -> AssistantMessage:
    """Return *message* with every call id that is empty, doubled or *taken* (but for its *own*) replaced."""
    calls: list[ToolCall] = []
    here: set[str] = set()
    for call in message.tool_calls:
        if not call.id or call.id in here or (call.id in taken and call.id not in own):
            call = call.replace(id=create_id("call"))
        here.add(call.id)
        calls.append(call)
    taken |= here
    if all(new is old for new, old in zip(calls, message.tool_calls, strict=True)):
        return message
    return message.replace(tool_calls=tuple(calls))
