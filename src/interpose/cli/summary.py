"""The figures of a run, as rows of two texts.

A middleware adds rows of its own with `ctx.emit("summary", {"label": value, ...})`, at any time before the run ends.
"""

from collections.abc import Mapping
from typing import Any

from interpose.cli.plain import one_line
from interpose.events import CustomEvent, Event
from interpose.request import Usage
from interpose.result import RunResult

EVENT = "summary"


class Summary:
    """Collects the rows that middleware gives while a run goes on."""

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}

    def note(self, event: Event) -> None:
        """Take the rows in *event*, where it carries some."""
        if isinstance(event, CustomEvent) and event.name == EVENT and isinstance(event.value, Mapping):
            self._given |= event.value

    def rows(self, result: RunResult) -> list[tuple[str, str]]:
        """Return the rows of the finished run: its own figures, then those of middleware."""
        calls = sum(len(step.response.tool_calls) for step in result.steps)
        rows = [("steps", str(len(result.steps))), ("tool calls", str(calls)), ("tokens", _tokens(result.usage))]
        if result.usage.cost_usd is not None:
            rows.append(("cost", f"${result.usage.cost_usd:.4f}"))
        if result.finish_reason != "stop":
            rows.append(("ended by", str(result.finish_reason)))
        return rows + [(str(label), _figure(value)) for label, value in self._given.items()]


def _tokens(usage: Usage) -> str:
    if usage.total_tokens is None:
        return "unknown"
    parts = [("in", usage.input_tokens), ("out", usage.output_tokens)]
    return ", ".join(f"{count:,} {name}" for name, count in parts if count is not None) or f"{usage.total_tokens:,}"


def _figure(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else one_line(value)
