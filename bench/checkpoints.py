"""What checkpoints cost a run: `python -m bench.checkpoints`, with `--postgres URL` for a database of that kind too.

Real agents take steps of one tool call, or of several side by side, on no store, in memory and on SQLite, in turn.
A figure is the time from one model call to the next: the median of a run, in the best of many rounds, since others use
the machine too. What a store adds is that less what the store in memory takes, which pays for the same JSON.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from bench.stores import SIBLING_US, STEP_US, Line, thread
from interpose import Agent, AssistantMessage, Limits, Middleware, ModelRequest, ModelResponse, ToolCall, Usage, tool
from interpose.models.base import Model, ModelChunk, unfold
from interpose.stores import MemoryStore, SQLStore

ROUNDS, STEPS = 40, 60
PARALLEL = (2, 4, 8)
LONG = 2_000
PIECE = "The stock is counted. "


@tool(effect="read")
async def search(query: str, limit: int) -> str:
    """Search the boxes."""
    return f"{query}, {limit}: {PIECE * 11}"


@tool(effect="write")
async def order(query: str, limit: int) -> str:
    """Order from a box."""
    return f"{query}, {limit}: {PIECE * 11}"


@tool(effect="read")
async def wait(query: str, limit: int) -> str:
    """Search the boxes, each a moment after the one before, so that no two results come at once."""
    for _ in range(4 * limit):
        await asyncio.sleep(0)
    return f"{query}, {limit}: {PIECE * 11}"


class Clocked(Model):
    """Asks for *calls* tool calls in each of its steps, and notes when it is called."""

    provider = "bench"
    name = "bench"
    profile = None

    def __init__(self, tool_name: str, calls: int) -> None:
        self.tool_name = tool_name
        self.calls = calls
        self.called: list[float] = []

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the next answer."""
        self.called.append(time.perf_counter())
        if request.number == STEPS:
            return ModelResponse(AssistantMessage("There are 42."), usage=Usage(900, 40))
        places = range(self.calls)
        asked = tuple(
            [ToolCall(f"c{request.number}_{n}", self.tool_name, {"query": "box", "limit": n}) for n in places]
        )
        return ModelResponse(AssistantMessage("I shall look.", tool_calls=asked), "tool_calls", Usage(900, 40))

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the next answer."""
        for chunk in unfold(await self.generate(request)):
            yield chunk

    def step_us(self) -> float:
        """Return the median time of a step."""
        return statistics.median([b - a for a, b in zip(self.called, self.called[1:], strict=False)]) * 1e6


@dataclass
class Case:
    """Steps of one kind; *best* is filled by the rounds: the time of a step, by the name of the store."""

    what: str
    tool: str = "search"
    calls: int = 1
    layers: tuple[Any, ...] = ()
    thread_id: str | None = None
    best: dict[str, float] = field(default_factory=dict)

    async def round(self, name: str, store: Any, number: int) -> None:
        """Do one run, and keep its figure if it is the best."""
        model = Clocked(self.tool, self.calls)
        limits = Limits(max_steps=None)
        agent: Agent[Any] = Agent(
            model, tools=[search, order, wait], middleware=self.layers, limits=limits, store=store, post_model_hooks=()
        )
        thread_id = self.thread_id
        if thread_id is not None and store is not None:
            thread_id = f"{thread_id}{number}"
            await store.commit(thread_id, "seed", thread(LONG))
        await agent.run("How many are there?", thread_id=thread_id)
        self.best[name] = min(self.best.get(name, float("inf")), model.step_us())


class Watch(Middleware[Any]):
    """Stands before each tool call, so that calls do not begin as soon as they are asked for."""

    async def before_tool_call(self, ctx: Any, call: Any) -> None:
        """See each call."""


def cases() -> list[Case]:
    """Return what is measured, the simplest first."""
    return [
        Case("one call that reads"),
        Case("one call that writes", "order"),
        Case("one call that writes, behind a tool hook", "order", layers=(Watch(),)),
        Case(f"one call that reads, thread of {LONG:,}", thread_id="long"),
        *[Case(f"{n} calls", calls=n) for n in PARALLEL],
        Case("8 calls whose results come one by one", "wait", 8),
    ]


async def measured(stores: dict[str, Any], rounds: int) -> list[Case]:
    """Return the cases, measured on all stores in turn."""
    found = cases()
    for number in range(rounds):
        for case in found:
            for name, store in stores.items():
                await case.round(name, store, number)
    return found


def lines(found: list[Case], name: str, *, has_target: bool) -> list[Line]:
    """Return what the store *name* adds."""
    one = found[0]
    told = []
    for case in found:
        added = case.best[name] - case.best["memory"]
        if case.calls == 1:
            told.append(Line(f"{name}: step with {case.what}", added, STEP_US if has_target else None))
        else:
            further = (added - (one.best[name] - one.best["memory"])) / (case.calls - 1)
            target = SIBLING_US if has_target and case.tool == "search" else None
            told.append(Line(f"{name}: each further call of {case.what}", further, target))
    return told


async def compare(urls: dict[str, str], rounds: int) -> list[Line]:
    """Measure no store, the store in memory, and those of *urls*."""
    stores: dict[str, Any] = {"none": None, "memory": MemoryStore()}
    opened = {name: SQLStore(url) for name, url in urls.items()}
    found = await measured(stores | opened, rounds)
    for store in opened.values():
        await store.aclose()
    told = [Line("no store: step with one call, whole", found[0].best["none"])]
    told += [
        Line(f"memory: step with {case.what}, over none", case.best["memory"] - case.best["none"])
        for case in found
        if case.thread_id is None  # without a store there is no thread, so this would not be what checkpoints add
    ]
    for name in opened:
        told += lines(found, name, has_target=name == "SQLite")
    return told


def main(arguments: list[str] | None = None, told: Callable[[str], None] = print) -> int:
    """Print the table; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="measure this database too")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each kind on each store")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        urls = {"SQLite": f"sqlite:///{folder}/bench.db"}
        if options.postgres:
            urls["Postgres"] = options.postgres
        found = asyncio.run(compare(urls, options.rounds))
    told(f"{'what checkpoints add to a step':<64} {'µs':>9} {'':>9} target")
    for line in found:
        told(str(line))
    return int(any(line.target is not None and line.us >= line.target for line in found))


if __name__ == "__main__":
    sys.exit(main())
