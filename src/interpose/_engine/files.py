"""Telling the run that a file changed: the `on_file*` hooks of all its middleware, and its stream."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from typing import TYPE_CHECKING

from interpose._engine.plan import Hook, call_hook
from interpose.errors import HookError

if TYPE_CHECKING:
    from interpose._engine.plan import Plan
    from interpose._engine.run import Run
    from interpose.info import FileEvent

logger = logging.getLogger("interpose")
KINDS = ("create", "change", "delete")
FILE_HOOKS = ("on_file", *[f"on_file_{kind}" for kind in KINDS])
EVENT = "sandbox.file"
"""The name of the `CUSTOM` event, whose value is `{"kind", "path"}`."""


def hears_files(run: Run) -> tuple[bool, bool]:
    """Return whether some hook of *run* is told of files, and whether somebody sees its events."""
    return any(run.plan.hooks[name] for name in FILE_HOOKS), bool(run.pipe.active)


def file_hooks(plan: Plan, kind: str) -> list[Hook]:
    """Return the hooks for an event of *kind*: of each middleware in order, first `on_file`, then that of the kind."""
    wanted = {"on_file": 0, f"on_file_{kind}": 1}
    place = {id(one): index for index, one in enumerate(plan.middleware)}
    found = [hook for name in wanted for hook in plan.hooks[name]]
    return sorted(found, key=lambda hook: (place[id(hook.middleware)], wanted[hook.name]))


async def tell_file(run: Run, event: FileEvent) -> None:
    """Call the hooks for *event*, then send it; a hook that fails is logged and harms nothing."""
    for hook in file_hooks(run.plan, event.kind):
        try:
            said = await call_hook(hook, run.ctx, event)
            if said is not None:
                raise HookError(f"{hook!r} returned {type(said).__name__} ({said!r:.80}); expected nothing")
        except Exception:
            logger.exception("%r failed; the run goes on", hook)
        except CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            logger.exception("%r failed; the run goes on", hook)
    run.emit(EVENT, event.to_dict())
