"""The nodes of one outermost run, as they come, and the document that is made of them.

The document is what `report.json` holds. Messages and tools that many requests share stand in it once: a request names
them as ranges, `[[first, count], …]`, of the tables `messages` and `tools`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import is_
from typing import Any

import msgspec

from interpose.info import Node

FORMAT = "interpose-report/1"
Ranges = list[list[int]]


class Table:
    """Things that several requests share, each once; told apart by identity, since the record makes each once."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._last: Sequence[Any] = ()
        self._ranges: Ranges = []

    def ranges(self, items: Sequence[Any]) -> Ranges:
        """Return *items* as ranges of numbers in the table; those of a longer list of the same begin with the same."""
        known = len(self._last)
        if known and len(items) >= known and all(map(is_, self._last, items)):
            ranges, rest = [list(one) for one in self._ranges], items[known:]
        else:
            ranges, rest = [], items
        for item in rest:
            number = self._number(item)
            if ranges and sum(ranges[-1]) == number:
                ranges[-1][1] += 1
            else:
                ranges.append([number, 1])
        self._last, self._ranges = items, ranges
        return ranges

    def _number(self, item: Any) -> int:
        number = self._numbers.get(id(item))
        if number is None:
            number = self._numbers[id(item)] = len(self.items)
            self.items.append(item)  # keeps it alive, and so its id its own
        return number


class Collected:
    """One outermost run and all below it, while it goes on."""

    __slots__ = ("_tables", "content", "messages", "nodes", "open", "root", "tools")

    def __init__(self, content: bool) -> None:
        self.content = content
        self.root: str | None = None
        self.nodes: dict[str, tuple[Node, Any]] = {}
        self.messages = Table()
        self.tools = Table()
        self._tables: dict[str, tuple[Table, Table]] = {}

    def take(self, node: Node) -> None:
        """Take the start or the end of a node."""
        given: Any = None
        if node.phase == "start":
            self.root = self.root or node.id
            node = node.replace(content=None)
        elif self.content and node.content is not None:
            given = node.content["in"]
            if node.kind == "model" and given is not None:
                given = self._compact(given)
        self.nodes[node.id] = (node, given)

    def _compact(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return *request* with its messages and tools as ranges."""
        compact = {**request, "messages": self.messages.ranges(request["messages"])}
        if "tools" in request:
            compact["tools"] = self.tools.ranges(request["tools"])
        return compact

    def document(self) -> dict[str, Any]:
        """Return everything as JSON-able values."""
        nodes = [_told(node, given, self.content) for node, given in self.nodes.values()]
        return {
            "format": FORMAT,
            "run": _summary(nodes),
            "nodes": nodes,
            "messages": self.messages.items,
            "tools": self.tools.items,
        }


LEFT_OUT = frozenset(("phase", "content", "changes", "usage", "meta", "error", "failures"))
PLAIN = tuple([name for name in Node.__struct_fields__ if name not in LEFT_OUT])


def _told(node: Node, given: Any, content: bool) -> dict[str, Any]:
    """Return a node without what it does not have; without *content*, its structure only."""
    told = {name: value for name in PLAIN if (value := getattr(node, name)) is not None and value != 0 and value != ""}
    told["started_at"] = node.started_at
    if node.duration_ms is not None:
        told["duration_ms"] = round(node.duration_ms, 3)
    if node.attempts is not None:
        told["attempts"] = node.attempts
    if node.usage is not None:
        told["usage"] = node.usage
    if node.error is not None:
        told["error"] = node.error if content else _kind(node.error)
    if node.failures:
        told["failures"] = node.failures if content else [_kind(one) for one in node.failures]
    if node.step is not None:
        told["step"] = node.step
    meta = node.meta if content else _figures(node.meta)
    if meta:
        told["meta"] = meta
    if node.changes:
        who = [{"middleware": one.middleware, "hook": one.hook, "field": one.field} for one in node.changes]
        told["changes"] = node.changes if content else who
    if content and node.content is not None:
        out = node.content.get("out")
        told |= {name: value for name, value in (("in", given), ("out", out)) if value is not None}
    return told


def _kind(error: str) -> str:
    """Return the kind of an error without what it says."""
    head = error.partition(":")[0]
    return head if head.isidentifier() else "error"


def _figures(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers and truths of *meta*: its texts may quote what was said."""
    return {name: value for name, value in meta.items() if isinstance(value, bool | int | float)}


def _summary(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a list of runs shows of this one."""
    root = nodes[0]
    names = ("name", "thread_id", "status", "outcome", "finish_reason", "error", "started_at", "duration_ms", "usage")
    summary = {"id": root["run_id"], **{name: root[name] for name in (*names, "resumed_from") if name in root}}
    summary["started"] = datetime.fromtimestamp(root["started_at"], UTC).isoformat(timespec="milliseconds")
    summary["steps"] = sum(node["kind"] == "step" and node["run_id"] == root["run_id"] for node in nodes)
    summary["model_calls"] = sum(node.get("attempts", 0) for node in nodes if node["kind"] == "model")
    summary["tool_calls"] = sum(node["kind"] == "tool" for node in nodes)
    summary["nodes"] = len(nodes)
    return summary


def encode(document: Mapping[str, Any]) -> bytes:
    """Return *document* as JSON."""
    return msgspec.json.encode(document)
