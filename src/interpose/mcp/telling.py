"""What a run does, told as progress of the call that it answers."""

import time
from collections.abc import Awaitable, Callable

from interpose.events import (
    CustomEvent,
    Event,
    StepStartedEvent,
    TextMessageContentEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

EVERY_S = 0.5
"""How often it is told that text is being written."""


class Progress:
    """Tells one call's client what happens, in short lines; the numbers only count up, since nobody knows the end."""

    def __init__(self, report: Callable[[float, float | None, str | None], Awaitable[None]]) -> None:
        self._report = report
        self._count = 0
        self._steps = 0
        self._letters = 0
        self._told_at = 0.0
        self._names: dict[str, str] = {}

    async def tell(self, event: Event) -> None:
        """Tell of *event*, if it is of interest."""
        line = self._line(event)
        if line is not None:
            self._count += 1
            await self._report(float(self._count), None, line)

    def _line(self, event: Event) -> str | None:
        match event:
            case StepStartedEvent():
                self._steps += 1
                return f"step {self._steps}"
            case ToolCallStartEvent():
                self._names[event.tool_call_id] = event.tool_call_name
                return f"calls {event.tool_call_name}"
            case ToolCallResultEvent():
                return f"has the result of {self._names.get(event.tool_call_id, 'a tool')}"
            case CustomEvent(name="mcp.progress", value=dict() as value) if value.get("message"):
                return f"{value.get('toolName')}: {value['message']}"
            case TextMessageContentEvent():
                self._letters += len(event.delta)
                now = time.monotonic()
                if now - self._told_at >= EVERY_S:
                    self._told_at = now
                    return f"writes ({self._letters} characters)"
        return None
