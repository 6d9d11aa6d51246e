"""What stores cost: `python -m bench.stores`, with `--postgres URL` for a database of that kind too.

Figures are wall time on one event loop: the median of a few hundred steps, in the best of several rounds; beside it the
mean of that round, with what the disk takes for the log and other programs for themselves. From each the median of the
store in memory is subtracted, which pays for the same JSON.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from interpose import AssistantMessage, Message, ModelResponse, ToolCall, ToolMessage, ToolResult, Usage, UserMessage
from interpose.checkpoint import Checkpoint
from interpose.saved import Counts, SavedResult, SavedStep
from interpose.stores import MemoryStore, SQLStore

SIZES = (200, 2_000, 20_000)
ROUNDS, STEPS = 5, 300
SIBLINGS = 8
STEP_US, SIBLING_US, MESSAGE_US = 250.0, 40.0, 5.0
PIECE = "The stock is counted. "


@dataclass(frozen=True)
class Line:
    """One line of the table; *target* is None where none was set."""

    what: str
    us: float
    target: float | None = None
    mean: float | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f"under {self.target:g}"
        mean = "" if self.mean is None else f"{self.mean:.1f}"
        verdict = "" if self.target is None else "yes" if self.us < self.target else "NO"
        return f"{self.what:<64} {self.us:>9.1f} {mean:>9} {target:<10} {verdict}"


def thread(count: int) -> list[Message]:
    """Return *count* messages: questions, calls, results and answers in turn."""
    messages: list[Message] = []
    for number in range(count // 4):
        call = ToolCall(f"call_{number}", "search", {"query": f"box {number}", "limit": 5})
        messages += [
            UserMessage(f"How many are there in box {number}? " * 4),
            AssistantMessage("I shall look.", tool_calls=(call,)),
            ToolMessage(PIECE * 12, call.id),
            AssistantMessage(f"There are {number}. " + PIECE * 3),
        ]
    return messages


class Run:
    """A run that writes its checkpoint as the engine does: a part for each answer, one for each result."""

    def __init__(self, store: Any, run_id: str, thread_id: str) -> None:
        self.store = store
        self.run_id = run_id
        self.thread_id = thread_id
        self.part = -1

    def new(self, **fields: Any) -> Checkpoint:
        """Return the next part."""
        self.part += 1
        return Checkpoint(run_id=self.run_id, part=self.part, **fields)

    async def begin(self) -> None:
        """Write part 0."""
        first = self.new(thread_id=self.thread_id, agent="agent", messages=(UserMessage("go"),), tools={"search": "x"})
        await self.store.put(first)

    async def step(self, number: int, calls: int) -> None:
        """Write what a step writes that asks for *calls* tool calls, whose results come at the same moment."""
        asked = tuple([ToolCall(f"c{number}_{n}", "search", {"query": "box", "limit": 5}) for n in range(calls)])
        answer = AssistantMessage("I shall look.", tool_calls=asked)
        done = SavedStep.of(number, ModelResponse(answer, usage=Usage(900, 40)), Usage(900, 40))
        counts = Counts(model_calls=number + 1, tool_calls=calls, tokens=940)
        await self.store.put(
            self.new(number=number, messages=(answer,), steps=(done,), usage=Usage(900, 40), counts=counts)
        )
        results = [SavedResult.of(ToolResult(tool_call_id=call.id, data=PIECE * 12)) for call in asked]
        await together([self.store.put(self.new(number=number, answered={one.tool_call_id: one})) for one in results])


async def together(puts: list[Awaitable[None]]) -> None:
    """Await one as the engine awaits a sole call, several side by side."""
    if len(puts) == 1:
        await puts[0]
    else:
        await asyncio.gather(*puts)


async def per_step_us(store: Any, calls: int, thread_id: str, mark: str) -> tuple[float, float]:
    """Return what the checkpoints of one step take, as (median, mean)."""
    rounds = []
    for number in range(ROUNDS):
        run = Run(store, f"{mark}{number}", thread_id)
        await run.begin()
        times = []
        for step in range(STEPS):
            began = time.perf_counter()
            await run.step(step, calls)
            times.append((time.perf_counter() - began) * 1e6)
        rounds.append((statistics.median(times), statistics.mean(times)))
        await store.drop(run.run_id)
    return min(rounds)


async def per_message_us(store: Any, size: int) -> float:
    """Return what reading one message of a thread of *size* takes."""
    best = float("inf")
    for _ in range(7):
        began = time.perf_counter()
        messages = await store.load(f"t{size}")
        best = min(best, (time.perf_counter() - began) / len(messages))
    return best * 1e6


async def measure(name: str, store: Any, floor: dict[str, float]) -> list[Line]:
    """Return the lines of one store; *floor* is filled by the first, which is in memory, and subtracted after it."""
    lines = []
    step_us, sibling_us = (None, None) if name == "Postgres" else (STEP_US, SIBLING_US)
    for size in SIZES:
        await store.commit(f"t{size}", f"seed{size}", thread(size))
    for size in (0, *SIZES):
        one, mean = await per_step_us(store, 1, f"t{size}", f"a{size}_")
        least = floor.setdefault("one", one)
        lines.append(Line(f"{name}: step with one call, thread of {size:,}", one - least, step_us, mean - least))
    one, _ = await per_step_us(store, 1, "t0", "b")
    many, _ = await per_step_us(store, SIBLINGS, "t0", "c")
    further = (many - one) / (SIBLINGS - 1)
    over = further - floor.setdefault("further", further)
    lines.append(Line(f"{name}: each further call of a step", over, sibling_us))
    lines += [
        Line(f"{name}: reading a message of {size:,}", await per_message_us(store, size), MESSAGE_US) for size in SIZES
    ]
    return lines


async def compare(urls: dict[str, str]) -> list[Line]:
    """Measure the store in memory, then those of *urls*."""
    floor: dict[str, float] = {}
    lines = await measure("memory", MemoryStore(), floor)
    lines.insert(0, Line("memory: step with one call, whole", floor["one"]))
    for name, url in urls.items():
        async with SQLStore(url) as store:
            lines += await measure(name, store, floor)
    return lines


def main(arguments: list[str] | None = None, told: Callable[[str], None] = print) -> int:
    """Print the table; 1 if a target is missed. For what Postgres takes to write, none was set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="measure this database too")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        urls = {"SQLite": f"sqlite:///{folder}/bench.db"}
        if options.postgres:
            urls["Postgres"] = options.postgres
        lines = asyncio.run(compare(urls))
    told(f"{'over the store in memory':<64} {'µs':>9} {'mean':>9} target")
    for line in lines:
        told(str(line))
    return int(any(one.target is not None and one.us >= one.target for one in lines))


if __name__ == "__main__":
    sys.exit(main())
