"""`ConsoleLog`: the record as lines in the console, while it happens."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

import interpose.redaction  # noqa: F401  # its expressions take 40 ms to make: now, rather than in the first run
from interpose.context import RunContext
from interpose.info import Node
from interpose.middleware import Middleware
from interpose.request import Usage
from interpose.text import to_json

DIM, RED, GREEN, YELLOW, CYAN, BOLD = "2", "31", "32", "33", "36", "1"
STYLES = {"run": BOLD, "step": DIM, "model": CYAN, "tool": ""}
MARKS = {"finished": ("✓", GREEN), "interrupted": ("‖", YELLOW), "aborted": ("✗", RED), "failed": ("✗", RED)}
PLAIN_MARKS = {"✓": "+", "‖": "=", "✗": "x", "…": "...", "→": "->", "·": "-"}
MAX_LINE = 160
MAX_VERBOSE = 2000
# What a terminal would act on is shown as a picture of it.
PICTURES = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
PICTURES |= dict.fromkeys((*range(0x2028, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)  # these break and turn the text


class ConsoleLog(Middleware[Any]):
    """Writes one line for each node of a run: steps where they begin, what is in them and runs where they end.

    With *verbose* what went in and came out follows. *color* is decided by the stream and by `NO_COLOR` and
    `FORCE_COLOR` where it is None; *stream* is the error output.
    """

    def __init__(self, *, verbose: bool = False, color: bool | None = None, stream: TextIO | None = None) -> None:
        self.verbose = verbose
        self.color = color
        self.stream = stream
        self.reads_content = verbose
        self._depths: dict[str, tuple[int, str]] = {}
        self._roots: set[str] = set()

    def on_node(self, ctx: RunContext[Any], node: Node) -> None:  # noqa: ARG002  # the hook's arguments
        """Write the line of *node*."""
        if node.phase == "start":
            depth, root = self._depths.get(node.parent_id or "", (-1, node.id))
            self._depths[node.id] = (depth + 1, root)
            if depth < 0:
                self._roots.add(node.id)
            if node.kind != "step":
                return
        depth, root = self._depths.get(node.id, (0, node.id))
        if node.phase == "end":
            self._depths.pop(node.id, None)
            if node.kind == "step":
                return
        lines = [self._line(node, depth, root)]
        if self.verbose and node.phase == "end":
            lines += self._content(node, depth)
        self._roots.discard(node.id)
        self._write("\n".join(lines) + "\n")

    def _line(self, node: Node, depth: int, root: str) -> str:
        at = node.started_at + (node.duration_ms or 0.0) / 1000
        stamp = time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"
        tag = f" {root[-4:]}" if len(self._roots) > 1 else ""
        name = _harmless(node.name if node.kind != "step" else f"step {node.step}")
        if node.phase == "start":
            return f"{self._in(DIM, stamp + tag)} {'  ' * depth}{self._in(STYLES['step'], name)}"
        mark, style = MARKS[node.outcome or "finished"]
        parts = [f"{self._in(style, mark)} {self._in(STYLES[node.kind], name)}", self._in(DIM, _figures(node))]
        if node.error is not None:
            parts.append(self._in(RED, _short(_harmless(node.error))))
        return f"{self._in(DIM, stamp + tag)} {'  ' * depth}{'  '.join(filter(None, parts))}"

    def _content(self, node: Node, depth: int) -> list[str]:
        """Return what went in and came out, indented below the line of the node."""
        lead = " " * (13 + 2 * depth + 4)
        shown: list[tuple[str, Any]] = []
        content = node.content if isinstance(node.content, Mapping) else {}
        given, out = content.get("in"), content.get("out")
        if node.kind == "model":
            last = (given or {}).get("messages") or [{}]
            shown.append(("→", last[-1].get("text") or last[-1].get("tool_calls")))
            shown += [("·", (out or {}).get("reasoning")), ("←", (out or {}).get("text"))]
            shown += [("←", f"{call['name']}({to_json(call['args'])})") for call in (out or {}).get("tool_calls", ())]
        elif node.kind == "tool":
            shown += [("→", (given or {}).get("args")), ("←", (out or {}).get("data"))]
        else:
            shown.append(("←", (out or {}).get("text")))
        shown += [("Δ", f"{one.middleware}: {one.field}") for one in node.changes]
        shown += [("·", dict(node.meta) or None), *[("!", one) for one in node.failures]]
        return [f"{lead}{self._in(DIM, mark)} {line}" for mark, value in shown for line in _lines(value)]

    def _in(self, style: str, text: str) -> str:
        return f"\033[{style}m{text}\033[0m" if style and text and self._colored() else text

    def _colored(self) -> bool:
        if self.color is not None:
            return self.color
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        stream = self.stream or sys.stderr
        return bool(getattr(stream, "isatty", bool)()) and os.environ.get("TERM") != "dumb"

    def _write(self, text: str) -> None:
        stream = self.stream or sys.stderr
        if stream is None:  # a program without a console, as pythonw is
            return
        encoding = getattr(stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except (UnicodeEncodeError, LookupError):
            for mark, plain in PLAIN_MARKS.items():
                text = text.replace(mark, plain)
            text = text.encode("ascii", "replace").decode()
        stream.write(text)
        stream.flush()


def _figures(node: Node) -> str:
    parts = [_duration(node.duration_ms or 0.0)]
    usage = node.usage
    if usage is not None:
        parts += _usage(usage)
    if node.made_by:
        parts.append(f"made by {_harmless(node.made_by)}")
    if node.attempts is not None and node.attempts > 1:
        parts.append(f"{node.attempts} attempts")
    if node.call_class not in (None, "agent"):
        parts.append(str(node.call_class))
    if node.outcome == "interrupted":
        parts.append("waits for a person")
    elif node.kind == "run" and node.finish_reason not in (None, "stop"):
        parts.append(str(node.finish_reason))
    return "  ".join(parts)


def _usage(usage: Usage) -> list[str]:
    parts = []
    if usage.input_tokens is not None or usage.output_tokens is not None:
        parts.append(f"{usage.input_tokens or 0:,}→{usage.output_tokens or 0:,} tok")
    elif usage.total_tokens is not None:
        parts.append(f"{usage.total_tokens:,} tok")
    if usage.cost_usd is not None:
        parts.append(f"${usage.cost_usd:.4f}")
    return parts


def _duration(ms: float) -> str:
    if ms < 1000:
        return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
    return f"{ms / 1000:.2f} s" if ms < 60_000 else f"{int(ms // 60_000)} min {ms % 60_000 / 1000:.0f} s"


def _lines(value: Any) -> list[str]:
    """Return a value as lines that may be written, cut where it is long."""
    if value is None or value == "":
        return []
    text = value if isinstance(value, str) else to_json(value)
    cut = text if len(text) <= MAX_VERBOSE else text[:MAX_VERBOSE] + "…"
    return [_harmless(line) for line in cut.split("\n")]


def _harmless(text: str) -> str:
    return text.translate(PICTURES)


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"
