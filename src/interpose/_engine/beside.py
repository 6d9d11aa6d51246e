"""What a run does beside its steps: work that hooks defer, and what they enter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

logger = logging.getLogger("interpose")


class Beside:
    """Deferred work and entered context managers of one run, waited for and left after its terminal hook."""

    __slots__ = ("run_id", "stack", "tasks")

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.tasks: list[asyncio.Task[Any]] = []
        self.stack = AsyncExitStack()

    def defer(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Start *coroutine* now."""
        self.tasks.append(asyncio.get_running_loop().create_task(coroutine))

    async def enter(self, manager: AbstractAsyncContextManager[Any]) -> Any:
        """Enter *manager*."""
        return await self.stack.enter_async_context(manager)

    async def finish(self, limit_s: float) -> None:
        """Wait for deferred work and for what it defers, *limit_s* each time, then leave what was entered.

        Failures are logged; work that is late is cancelled.
        """
        while self.tasks:
            tasks, self.tasks = self.tasks, []
            done, late = await asyncio.wait(tasks, timeout=limit_s)
            for task in late:
                task.cancel()
                logger.error("deferred work of run %s took over %s s and was cancelled", self.run_id, limit_s)
            if late:
                await asyncio.wait(late, timeout=1)
            for task in done:
                if not task.cancelled() and (error := task.exception()) is not None:
                    logger.error("deferred work of run %s failed", self.run_id, exc_info=error)
        try:
            await self.stack.aclose()
        except Exception:
            logger.exception("leaving what run %s had entered failed", self.run_id)
