"""The nodes of one outermost run, as they come, and the document that is made of them.

The document is what `report.json` holds. Messages and tools that many requests share stand in it once: a request names
them as ranges, `[[first, count], …]`, of the tables `messages` and `tools`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
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
        self._last: list[Any] = []
        self._ranges: Ranges = []

    def ranges(self, items: list[Any]) -> Ranges:
        """Return *items* as ranges of numbers in the table; those of a longer list of the same begin with the same."""
        last = self._last
        known = len(last)
        if items is last:
            return self._ranges
        if known and len(items) >= known and items[:known] == last:  # the same objects, nearly always: fast
            ranges, rest = self._ranges.copy(), items[known:]
        else:
            ranges, rest = [], items
        for item in rest:
            number = self._number(item)
            if ranges and sum(ranges[-1]) == number:
                ranges[-1] = [ranges[-1][0], ranges[-1][1] + 1]
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
    """One outermost run and all below it, while it goes on: the last event of each node, in the order of their starts.

    *root* is the id of its first node.
    """

    __slots__ = ("content", "messages", "nodes", "root", "tools")

    def __init__(self, content: bool, root: str) -> None:
        self.content = content
        self.root = root
        self.nodes: dict[str, Node] = {}
        self.messages = Table()
        self.tools = Table()

    def end(self, node: Node) -> None:
        """Take the end of a node."""
        if not self.content:
            node = bare(node)
        elif node.kind == "model" and node.content is not None and node.content["in"] is not None:
            given = {**node.content["in"]}
            given["messages"] = self.messages.ranges(given["messages"])
            if "tools" in given:
                given["tools"] = self.tools.ranges(given["tools"])
            node = node.replace(content={"in": given, "out": node.content["out"]})
        self.nodes[node.id] = node

    def document(self) -> dict[str, Any]:
        """Return everything as what `encode` takes."""
        nodes = list(self.nodes.values())
        return {
            "format": FORMAT,
            "run": _summary(nodes),
            "nodes": nodes,
            "messages": self.messages.items,
            "tools": self.tools.items,
        }


def bare(node: Node) -> Node:
    """Return the structure of *node*: what was said is left out, also where an error or a change quotes it."""
    return node.replace(
        content=None,
        error=None if node.error is None else _kind(node.error),
        failures=tuple([_kind(one) for one in node.failures]),
        meta={name: value for name, value in node.meta.items() if isinstance(value, bool | int | float)},
        changes=tuple([one.replace(old=None, new=None) for one in node.changes]),
    )


def _kind(error: str) -> str:
    """Return the kind of an error without what it says."""
    head = error.partition(":")[0]
    return head if head.isidentifier() else "error"


IN_SUMMARY = (
    "name", "thread_id", "status", "outcome", "finish_reason", "error", "started_at", "duration_ms", "usage",
    "resumed_from",
)  # fmt: skip


def _summary(nodes: list[Node]) -> dict[str, Any]:
    """Return what a list of runs shows of this one."""
    root = nodes[0]
    summary: dict[str, Any] = {"id": root.run_id}
    summary |= {name: value for name in IN_SUMMARY if (value := getattr(root, name)) is not None}
    summary["started"] = datetime.fromtimestamp(root.started_at, UTC).isoformat(timespec="milliseconds")
    summary["steps"] = len([1 for node in nodes if node.kind == "step" and node.run_id == root.run_id])
    summary["model_calls"] = sum([node.attempts or 0 for node in nodes if node.kind == "model"])
    summary["tool_calls"] = len([1 for node in nodes if node.kind == "tool"])
    summary["nodes"] = len(nodes)
    return summary


def encode(document: Mapping[str, Any]) -> bytes:
    """Return *document* as JSON."""
    return msgspec.json.encode(document)
