"""What a step offers to the model, as its calls look it up, and the calls as hooks may handle them."""

from __future__ import annotations

from typing import Any

from interpose.messages import ToolCall
from interpose.tools import Tool


class Offered:
    """The tools of a request by name, and whether one of them asks to be alone."""

    __slots__ = ("alone", "by_name", "tools")

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self.by_name = {tool.name: tool for tool in tools}
        self.alone = any([tool.alone for tool in tools])


def own_copy(call: ToolCall) -> ToolCall:
    """Return *call* with arguments of its own: what a hook does to them in place must not reach the history."""
    args = dict(call.args)
    for key, value in args.items():
        if value.__class__ is dict or value.__class__ is list:
            args[key] = _copied(value)
    return ToolCall(call.id, call.name, args, call.raw, call.error, call.idempotency_key, call.edited_by)


def _copied(value: Any) -> Any:
    if value.__class__ is dict:
        return {key: _copied(item) for key, item in value.items()}
    if value.__class__ is list:
        return [_copied(item) for item in value]
    return value
