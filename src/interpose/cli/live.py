"""The live line: what a run is busy with, below what it has said, while it says nothing."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from interpose.cli.screen import Screen
from interpose.context import RunContext
from interpose.info import Node
from interpose.middleware import Middleware
from interpose.request import Usage

TICK_S = 0.12
QUIET_S = 0.3
"""How long nothing must have been written before the line comes: a quick run never shows it."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MAX_TOOLS = 3


class Progress(Middleware[Any]):
    """Knows what a run, and the runs nested in it, are busy with."""

    reads_content = False

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.step = 0
        self.usage: Usage | None = None
        self._open: dict[str, tuple[Node, float]] = {}

    def on_node(self, ctx: RunContext[Any], node: Node) -> None:  # noqa: ARG002  # the hook's arguments
        """Note what begins and what is over."""
        if node.phase == "start":
            self._open[node.id] = (node, time.monotonic())
            if node.kind == "step" and node.run_id == next(iter(self._open.values()))[0].run_id:
                self.step = node.step or 0
            return
        self._open.pop(node.id, None)
        if node.kind == "model" and node.usage is not None:
            self.usage = node.usage if self.usage is None else self.usage + node.usage

    def text(self) -> str:
        """Return the line, without the spinner."""
        parts = [f"step {self.step}", self._busy_with(), *_spent(self.usage)]
        return " · ".join(filter(None, parts))

    def _busy_with(self) -> str:
        """Return the tools that run, or the model that is waited for, and for how long."""
        deepest = [(node, since) for node, since in self._open.values() if node.kind in ("model", "tool")]
        parents = {node.parent_id for node, _ in self._open.values()}
        busy = [(node, since) for node, since in deepest if node.id not in parents]
        tools = [(node, since) for node, since in busy if node.kind == "tool"]
        if tools:
            names = ", ".join(node.name for node, _ in tools[:MAX_TOOLS])
            more = f" and {len(tools) - MAX_TOOLS} more" if len(tools) > MAX_TOOLS else ""
            return f"{names}{more} {_for(min(since for _, since in tools))}"
        if busy:
            node, since = busy[0]
            return f"waiting for {node.name} {_for(since)}"
        return _for(self.began)


@asynccontextmanager
async def live_line(screen: Screen) -> AsyncIterator[tuple[Middleware[Any], ...]]:
    """Show the line within this block, where a person looks on; give the middleware that it needs."""
    if not screen.is_live:
        yield ()
        return
    progress = Progress()
    task = asyncio.create_task(_tick(screen, progress))
    try:
        yield (progress,)
    finally:
        task.cancel()
        screen.status(None)


async def _tick(screen: Screen, progress: Progress) -> None:
    number = 0
    while True:
        await asyncio.sleep(TICK_S)
        number += 1
        if screen.quiet_for_s() >= QUIET_S:
            screen.status(f"{SPINNER[number % len(SPINNER)]} {progress.text()}")


def _for(since: float) -> str:
    seconds = time.monotonic() - since
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _spent(usage: Usage | None) -> list[str]:
    if usage is None:
        return []
    told = [] if usage.total_tokens is None else [f"{usage.total_tokens:,} tokens"]
    return told if usage.cost_usd is None else [*told, f"${usage.cost_usd:.4f}"]
