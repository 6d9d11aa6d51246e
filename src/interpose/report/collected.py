"""The nodes of one outermost run, as they come, and the document that is made of them.

The document is what `report.json` holds. Messages and tools that many requests share stand in it once: a request names
them as ranges, `[[first, count], …]`, of the tables `messages` and `tools`.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

import interpose.redaction  # noqa: F401  # its expressions take 40 ms to make: now, rather than in the first run
from interpose.info import Node

logger = logging.getLogger("interpose")
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
    """One outermost run and all below it, while it goes on: the last event of each node, in the order of their starts.

    *root* is the id of its first node. What nodes hold is made in `document`, when the run is over and off its loop.
    """

    __slots__ = ("content", "nodes", "root", "told")

    def __init__(self, content: bool, root: str) -> None:
        self.content = content
        self.root = root
        self.nodes: dict[str, Node] = {}
        self.told = False

    def document(self) -> tuple[dict[str, Any], bytes]:
        """Return what a list of runs shows of this one, and everything as JSON; nothing is left here then."""
        messages, tools = Table(), Table()
        summary = self._summary()
        left = [*reversed(self.nodes.values())]
        self.nodes.clear()
        nodes = []
        while left:  # each node goes as soon as it is told: the messages of all requests are many, at once
            nodes.append(encode(self._compact(left.pop(), messages, tools)))
        head = encode({"format": FORMAT, "run": summary})
        parts = [(b"nodes", nodes), (b"messages", messages.items), (b"tools", tools.items)]
        lists = [b',"%b":[%b]' % (name, b",".join(items)) for name, items in parts]
        return summary, b"".join([head[:-1], *lists, b"}"])

    def _compact(self, node: Node, messages: Table, tools: Table) -> Node:
        """Return *node* with what several share as ranges, or its structure alone."""
        try:
            return self._told(node, messages, tools) if self.content else bare(node)
        except Exception:  # another reader changed what it was shown, which all are shown
            if not self.told:
                self.told = True
                logger.exception("the content of %s %r, and perhaps of others, is left out", node.kind, node.name)
            return bare(node)

    def _told(self, node: Node, messages: Table, tools: Table) -> Node:
        content = node.content
        if node.kind != "model" or content is None or content["in"] is None:
            return node.whole()
        given = {**content["in"], "messages": messages.ranges(content["in"]["messages"])}
        if "tools" in given:
            given["tools"] = tools.ranges(given["tools"])
        return node.whole().replace(content={**content, "in": given})

    def _summary(self) -> dict[str, Any]:
        nodes = list(self.nodes.values())
        root = nodes[0]
        summary: dict[str, Any] = {"id": root.run_id}
        summary |= {name: value for name in IN_SUMMARY if (value := getattr(root, name)) is not None}
        if root.error is not None and not self.content:
            summary["error"] = _kind(root.error)
        summary["started"] = datetime.fromtimestamp(root.started_at, UTC).isoformat(timespec="milliseconds")
        summary["steps"] = len([1 for node in nodes if node.kind == "step" and node.run_id == root.run_id])
        summary["model_calls"] = sum([node.attempts or 0 for node in nodes if node.kind == "model"])
        summary["tool_calls"] = len([1 for node in nodes if node.kind == "tool"])
        summary["nodes"] = len(nodes)
        if failed := len([1 for node in nodes if node.status == "error"]):
            summary["errors"] = failed
        return summary


def bare(node: Node) -> Node:
    """Return the structure of *node*: what was said is left out, also where an error or a change quotes it."""
    return node.replace(
        content=None,
        error=None if node.error is None else _kind(node.error, said=node.kind == "tool"),
        failures=tuple([_kind(one) for one in node.failures]),
        meta={name: value for name, value in node.meta.items() if isinstance(value, bool | int | float)},
        changes=tuple([one.replace(old=None, new=None) for one in node.changes]),
    )


def _kind(error: str, *, said: bool = False) -> str:
    """Return the kind of an error without what it says; a text that was *said*, as to refuse a call, has none."""
    head = error.partition(":")[0]
    if said and NAME_OF_ERROR.fullmatch(head) is None:
        return "error"
    return head if head.isidentifier() else "error"


NAME_OF_ERROR = re.compile(r"[A-Z]\w*(?:Error|Exception|Timeout|Exit|Exceeded|Aborted|Limited|Interrupt)")
"""What exceptions are called, by which their texts are told from those that somebody wrote for the model."""


IN_SUMMARY = (
    "name", "thread_id", "status", "outcome", "finish_reason", "error", "started_at", "duration_ms", "usage",
    "resumed_from",
)  # fmt: skip


def _plain(value: Any) -> Any:
    return str(value)


encode = msgspec.json.Encoder(enc_hook=_plain).encode
