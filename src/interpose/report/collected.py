"""The nodes of one outermost run, as they come, and the document that is made of them.

The document is what `report.json` holds. Messages and tools that many requests share stand in it once: a request names
them as ranges, `[[first, count], …]`, of the tables `messages` and `tools`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from interpose.info import Node

FORMAT = "interpose-report/1"
Ranges = list[list[int]]


class Table:
    """What several requests share, once, as JSON; told apart by identity, as the record makes each once."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self._alive: list[Any] = []
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
            self.items.append(encode(item))
            self._alive.append(item)  # so that its id stays its own
        return number


class Collected:
    """One outermost run and all below it, while it goes on: each node as JSON as soon as it has ended.

    *root* is the id of its first node. JSON is a tenth of the size of what it is made of, and is made in no time.
    """

    __slots__ = ("content", "counts", "messages", "nodes", "root", "summary", "tools")

    def __init__(self, content: bool, root: str) -> None:
        self.content = content
        self.root = root
        self.nodes: dict[str, bytes] = {}
        self.messages = Table()
        self.tools = Table()
        self.counts = {"steps": 0, "model_calls": 0, "tool_calls": 0}
        self.summary: dict[str, Any] = {}

    def start(self, node: Node) -> None:
        """Take the start of a node: nodes stand in the order of their starts."""
        self.nodes[node.id] = b""
        if node.id == self.root:
            self.summary["id"] = node.run_id

    def end(self, node: Node) -> None:
        """Take the end of a node."""
        kind, counts = node.kind, self.counts
        if kind == "step":
            counts["steps"] += node.run_id == self.summary["id"]
        elif kind == "model":
            counts["model_calls"] += node.attempts or 0
        elif kind == "tool":
            counts["tool_calls"] += 1
        if not self.content:
            node = bare(node)
        elif kind == "model" and node.content is not None and node.content["in"] is not None:
            given = {**node.content["in"]}
            given["messages"] = self.messages.ranges(given["messages"])
            if "tools" in given:
                given["tools"] = self.tools.ranges(given["tools"])
            node = node.replace(content={"in": given, "out": node.content["out"]})
        self.nodes[node.id] = encode(node)
        if node.id == self.root:
            self._sum_up(node)

    def _sum_up(self, root: Node) -> None:
        """Note what a list of runs shows of this one."""
        told = {name: value for name in IN_SUMMARY if (value := getattr(root, name)) is not None}
        started = datetime.fromtimestamp(root.started_at, UTC).isoformat(timespec="milliseconds")
        self.summary |= told | {"started": started} | self.counts | {"nodes": len(self.nodes)}

    def document(self) -> bytes:
        """Return everything as JSON."""
        head = encode({"format": FORMAT, "run": self.summary})
        parts = [(b"nodes", self.nodes.values()), (b"messages", self.messages.items), (b"tools", self.tools.items)]
        lists = [b',"%b":[%b]' % (name, b",".join(items)) for name, items in parts]
        return b"".join([head[:-1], *lists, b"}"])


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


def _plain(value: Any) -> Any:
    return str(value)


encode = msgspec.json.Encoder(enc_hook=_plain).encode
