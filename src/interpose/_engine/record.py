"""The record: a tree of nodes, run, step, model or tool, nested run; built only where somebody listens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from interpose._engine.plan import Hook, call_hook
from interpose.ids import create_id
from interpose.info import Node
from interpose.messages import ToolCall, ToolResult

if TYPE_CHECKING:
    from interpose._engine.run import Run

Kind = Literal["run", "step", "model", "tool"]
logger = logging.getLogger("interpose")


class OpenNode:
    """A node while it is open; `meta` is what `ctx.meta` wrote on it."""

    __slots__ = ("content", "id", "kind", "meta", "name", "parent_id", "started")

    def __init__(self, kind: Kind, name: str, content: Any, parent_id: str | None, started: float) -> None:
        self.kind: Kind = kind
        self.name = name
        self.content = content
        self.parent_id = parent_id
        self.started = started
        self.id = create_id(kind)
        self.meta: dict[str, Any] = {}


class Record:
    """The nodes of one run, told to those who listen: the run's own middleware, and those of the runs around it."""

    __slots__ = ("listeners", "parent_id", "run", "stack")

    def __init__(self, run: Run, listeners: tuple[tuple[Hook, Any], ...], parent_id: str | None) -> None:
        self.run = run
        self.listeners = listeners
        self.parent_id = parent_id
        self.stack: list[OpenNode] = []

    @property
    def current(self) -> OpenNode:
        """The node of the run that is open now: its model call, its step, or itself."""
        return self.stack[-1]

    def open(self, kind: Kind, name: str, content: Any = None, parent: OpenNode | None = None) -> OpenNode:
        """Return a new node under *parent*, or under the current one."""
        above = parent or (self.stack[-1] if self.stack else None)
        return OpenNode(kind, name, content, above.id if above else self.parent_id, self.run.clock.monotonic())

    async def opened(self, node: OpenNode) -> None:
        """Tell that *node* begins."""
        await self._tell(
            Node(
                phase="start",
                kind=node.kind,
                name=node.name,
                run_id=self.run.run_id,
                id=node.id,
                parent_id=node.parent_id,
                content=node.content,
                meta=node.meta,
            )
        )

    async def push(self, kind: Kind, name: str, content: Any = None) -> OpenNode:
        """Open a node of the run itself and tell it; later nodes stand under it."""
        node = self.open(kind, name, content)
        self.stack.append(node)
        await self.opened(node)
        return node

    async def pop(self, node: OpenNode, content: Any = None, error: BaseException | None = None) -> None:
        """Close *node*, and what was left open above it."""
        while self.stack and node in self.stack:
            top = self.stack.pop()
            await self.close(top, content=content if top is node else None, error=error)

    async def close(
        self, node: OpenNode, *, content: Any = None, error: BaseException | None = None, failed: str | None = None
    ) -> None:
        """Tell that *node* ends."""
        text = failed if failed is not None else _error_text(error)
        await self._tell(
            Node(
                phase="end",
                kind=node.kind,
                name=node.name,
                run_id=self.run.run_id,
                id=node.id,
                parent_id=node.parent_id,
                status="ok" if text is None else "error",
                error=text,
                duration_ms=(self.run.clock.monotonic() - node.started) * 1000,
                content={"in": node.content, "out": content},
                meta=node.meta,
            )
        )

    async def close_tool(
        self, node: OpenNode, ran: ToolCall, result: ToolResult | None, error: BaseException | None
    ) -> None:
        """Close the node of a tool call, with the arguments that really ran."""
        node.content = ran
        failed = result.text if result is not None and result.is_error else None
        await self.close(node, content=result, error=error, failed=failed)

    async def _tell(self, node: Node) -> None:
        for hook, ctx in self.listeners:
            try:
                await call_hook(hook, ctx, node)
            except Exception:
                logger.exception("%r failed; the run goes on", hook)


def _error_text(error: BaseException | None) -> str | None:
    if error is None:
        return None
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
