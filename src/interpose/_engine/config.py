"""The config of a run and of its steps, as the hooks leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.legality import problem
from interpose._engine.plan import Hook, call_hook
from interpose._engine.signals import Signal
from interpose.errors import HookError
from interpose.info import RunConfig

if TYPE_CHECKING:
    from interpose._engine.run import Run


async def configure(run: Run, config: RunConfig) -> RunConfig:
    """Pipe *config*, with the messages as they are now, through the `on_config` hooks."""
    base, changes = config, list[tuple[str, RunConfig]]()
    for hook in run.plan.on_config:
        changed = await pipe_config(run, hook, config)
        if changed is not config:
            changes.append((repr(hook), changed))
            config = changed
    run.config_changes = changes
    if changes and run.record is not None:
        run.record.configured(base, changes)
    return config.replace(tools=_unique(config.tools)) if changes else config


async def pipe_config(run: Run, hook: Hook, config: RunConfig) -> RunConfig:
    """Return what *hook* makes of *config*.

    Raises:
        HookError: it returned something else.
    """
    said = await call_hook(hook, run.ctx, config)
    if run.noted is not None:
        raise Signal(run.noted)
    if said is None:
        return config
    if said.__class__ is not RunConfig:
        raise HookError(f"{hook!r} returned {type(said).__name__} ({said!r:.80}); expected a RunConfig or nothing")
    return said


async def configure_run(run: Run) -> None:
    """Pipe the config of the run: what is changed here lasts for all of it.

    Raises:
        HookError: a hook changed the messages, which are fixed here.
    """
    base = run.config.replace(messages=run.history.messages)
    config = await configure(run, base)
    if config is base:
        return
    if config.messages is not base.messages and config.messages != base.messages:
        who = run.config_changes[-1][0]
        raise HookError(f"{who} changed the messages at phase 'init', where they are fixed; do it at 'before_model'")
    run.config = config
    run.own_model = config.model is base.model


def who_broke(run: Run) -> str | None:
    """Return the hook that left messages which no provider takes, if one did."""
    return next((who for who, config in run.config_changes if problem(config.messages) is not None), None)


def _unique(tools: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *tools* with one of each name, the last."""
    by_name = {tool.name: tool for tool in tools}
    return tools if len(by_name) == len(tools) else tuple(by_name.values())
