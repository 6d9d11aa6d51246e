"""Executing one tool call: when it is its turn, with the arguments as typed, what it raises made a result."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, current_task
from collections.abc import Callable
from contextlib import AsyncExitStack
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from interpose._engine.alone import Alone
from interpose._engine.deadline import Deadline
from interpose._engine.signals import PausedWithin, Signal
from interpose.errors import FatalToolError
from interpose.messages import ToolCall, ToolResult
from interpose.tools import Tool

if TYPE_CHECKING:
    from interpose._engine.tool_phase import ToolPass


async def gated(one: ToolPass, tool: Tool, call: ToolCall, typed: dict[str, Any]) -> ToolResult:
    """Execute when it is this call's turn: as many at once as the limits allow, and alone where the tool asks it."""
    async with AsyncExitStack() as stack:
        for gate in one.phase.gates:
            await stack.enter_async_context(gate.turn(tool.alone) if gate.__class__ is Alone else gate)
        return await execute(one, tool, call, typed)


async def execute(one: ToolPass, tool: Tool, call: ToolCall, typed: dict[str, Any]) -> ToolResult:
    """Run the tool itself; its exception becomes an error result, unless it is fatal or a cancellation asked for."""
    run = one.run
    if tool.context_parameter is not None:
        typed[tool.context_parameter] = one.ctx
    if run.journal is not None and tool.effect == "write":
        await run.journal.starting(call.id)
    clock = run.clock
    one.began = True
    started = clock.monotonic()
    task = current_task()
    before = task.cancelling()  # type: ignore[union-attr]  # a coroutine of ours always runs in a task
    seconds = tool.timeout_s if tool.timeout_s is not None else run.limits.tool_timeout_s
    try:
        if seconds is not None:
            with Deadline(clock, seconds):
                data = await _invoke(tool, typed)
        elif tool.is_async:
            data = await tool.function(**typed)
        else:
            data = await _invoke(tool, typed)
    except FatalToolError:
        raise
    except PausedWithin as within:
        one.asked, one.within = within.asked, within.checkpoint
        one.pause(within.note)
        raise
    except CancelledError as error:
        if run.noted is not None or one.noted is not None or task.cancelling() > before:  # type: ignore[union-attr]  # as above
            raise
        return _failed(call, f"{tool.name} was cancelled from within: {error!r}", clock.monotonic() - started)
    except TimeoutError as error:
        own = str(error)
        text = own or (f"timed out after {seconds} s" if seconds is not None else "timed out")
        return _failed(call, f"{tool.name} failed: {text}", clock.monotonic() - started)
    except SystemExit as error:  # as what reads a command line does with a wrong one
        text = f"the tool tried to end the process: SystemExit({error.code!r})"
        return _failed(call, text, clock.monotonic() - started)
    except Exception as error:
        text = str(error)
        return _failed(call, f"{type(error).__name__}: {text}" if text else repr(error), clock.monotonic() - started)
    if run.noted is not None:
        raise Signal(run.noted)
    duration_ms = (clock.monotonic() - started) * 1000
    if data.__class__ is ToolResult:
        return data.replace(tool_call_id=call.id, duration_ms=duration_ms)
    return ToolResult(tool_call_id=call.id, data=data, duration_ms=duration_ms)


async def _invoke(tool: Tool, typed: dict[str, Any]) -> Any:
    if tool.is_async:
        return await tool.function(**typed)
    data = await asyncio.to_thread(_call, tool.function, typed)
    return await data if isawaitable(data) else data


def _call(function: Callable[..., Any], typed: dict[str, Any]) -> Any:
    try:
        return function(**typed)
    except StopIteration as error:  # no future can hold one, so the caller would wait for ever
        raise RuntimeError("the tool raised StopIteration") from error


def _failed(call: ToolCall, text: str, seconds: float) -> ToolResult:
    return call.refuse(text).replace(duration_ms=seconds * 1000)
