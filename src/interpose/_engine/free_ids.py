"""Ids of tool calls: unique in a thread, whatever a provider or a middleware says."""

from __future__ import annotations

from collections.abc import Container

from interpose.ids import create_id
from interpose.messages import AssistantMessage


def with_free_ids(message: AssistantMessage, taken: set[str], own: Container[str]) -> AssistantMessage:
    """Return *message* with every call id that is empty, doubled or *taken* (but for its *own*) replaced."""
    calls = message.tool_calls
    if len(calls) == 1 and (call_id := calls[0].id) and call_id not in taken:
        taken.add(call_id)
        return message
    changed = False
    here: set[str] = set()
    for index, call in enumerate(calls):
        call_id = call.id
        if not call_id or call_id in here or (call_id in taken and call_id not in own):
            call_id = create_id("call")
            calls = (*calls[:index], call.replace(id=call_id), *calls[index + 1 :])
            changed = True
        here.add(call_id)
    taken |= here
    return message.replace(tool_calls=calls) if changed else message
