"""The agent that the fleet runs: it sells one item in four tool calls, and its model needs no network.

Every call of a tool is a line in a ledger that all workers append to, so that it can be counted afterwards.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from interpose import Agent, ModelRequest, ToolContext, tool
from interpose.durable.dbos import DBOSAgents
from interpose.messages import ToolCall
from interpose.models import Finish, Model, ModelChunk, ModelProfile, TextDelta, ToolCallDelta
from interpose.request import Usage

LEDGER = Path(os.environ.get("FLEET_LEDGER", "ledger.txt"))


def note(*words: object) -> None:
    """Append a line to the ledger, whole, whoever else writes."""
    line = " ".join(map(str, words)) + "\n"
    handle = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


async def do(ctx: ToolContext[Any], item: str, seconds: float) -> str:
    """Note that a call began, take a while, and note that it is done."""
    note("called", ctx.idempotency_key, ctx.tool_call.name if ctx.tool_call else "", os.getpid())
    await asyncio.sleep(seconds)
    note("done", ctx.idempotency_key)
    return f"{item}: done"


@tool
async def look_up(ctx: ToolContext[Any], item: str) -> str:
    """Look an item up."""
    return await do(ctx, item, 0.2)


@tool
async def reserve(ctx: ToolContext[Any], item: str) -> str:
    """Reserve an item."""
    return await do(ctx, item, 0.3)


@tool
async def charge(ctx: ToolContext[Any], item: str) -> str:
    """Charge the buyer of an item."""
    return await do(ctx, item, 0.4)


@tool
async def ship(ctx: ToolContext[Any], item: str) -> str:
    """Ship an item."""
    return await do(ctx, item, 0.3)


class Clerk(Model):
    """A model that always sells in the same three steps."""

    provider = "example"
    name = "clerk"
    profile = ModelProfile()
    steps = (("look_up", "reserve"), ("charge",), ("ship",))

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Ask for the tools of this step, or say that all is done."""
        await asyncio.sleep(0.05)
        item = request.messages[0].text
        if request.number < len(self.steps):
            for index, name in enumerate(self.steps[request.number]):
                yield ToolCallDelta(index, f"{name}-{request.number}", name, f'{{"item": "{item}"}}')
            yield Finish("tool_calls", Usage(100, 20))
        else:
            yield TextDelta(f"Sold {item}.")
            yield Finish("stop", Usage(100, 5))


def found_in_ledger(_ctx: Any, call: ToolCall) -> str | None:
    """Tell whether a call that was cut had come to its end; None where nobody knows."""
    done = f"done {call.idempotency_key}\n" in LEDGER.read_text()
    note("cut", call.idempotency_key, "found" if done else "unknown")
    return "done" if done else None


def fleet(url: str, *, schema: str, worker: bool) -> DBOSAgents:
    """Return what each process of the fleet runs, or what only submits."""
    agent = Agent(Clerk(), tools=[look_up, reserve, charge, ship])
    return DBOSAgents(
        {"shop": agent},
        database_url=url,
        schema=schema,
        worker=worker,
        worker_concurrency=10,
        on_unknown=found_in_ledger,
    )
