"""What the record costs: `python -m bench.record` prints microseconds of CPU time a step, with and without readers.

The workload is a run of 100 steps, each a model call that asks for one tool, on a scripted model. "quiet" has as many
middlewares as the others, none of which listens to the record; "baseline" is the same thing again, so that what the two
differ by is the noise. Best of several rounds, taken in turns. The time of the run's own thread is shown beside that
of the whole process: a report's files are written in a thread of its own. Readers are opened before.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interpose import Agent, Limits, Middleware, Usage, tool
from interpose.report import ConsoleLog, Report
from interpose.testing import ScriptedModel, calls, text

STEPS = 100
ROUNDS = 60
LIMIT_US = 40.0


@tool
async def look(where: str) -> dict[str, Any]:
    """Look somewhere."""
    return {"where": where, "found": ["a door", "a window"], "open": True}


class Quiet(Middleware[Any]):
    """Has a hook, as readers have, but not that of the record."""

    def on_should_continue(self, ctx: Any, state: Any) -> None:
        """Say nothing."""


class Structure(Middleware[Any]):
    """Listens, and wants no contents."""

    reads_content = False

    def on_node(self, ctx: Any, node: Any) -> None:
        """Do nothing."""


class Contents(Structure):
    """Listens, and wants contents."""

    reads_content = True


class Nowhere:
    """A stream that takes everything."""

    encoding = "utf-8"

    def write(self, text: str) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""


def readers(folder: Path) -> dict[str, Callable[[], Middleware[Any]]]:
    """Return what is measured."""
    return {
        "baseline": Quiet,
        "quiet": Quiet,
        "structure": Structure,
        "contents": Contents,
        "ConsoleLog()": lambda: ConsoleLog(stream=Nowhere()),  # type: ignore[arg-type]  # all of a stream that it uses
        "Report(content=False)": lambda: Report(folder / "structure", content=False),
        "Report()": lambda: Report(folder / "contents"),
    }


async def one_run(reader: Middleware[Any]) -> tuple[float, float]:
    """Return the CPU time of one run, in seconds: of this thread, and of the process."""
    used = Usage(input_tokens=120, output_tokens=18)
    turns = [calls(("look", {"where": f"room {n}"}), text="Let me look.", usage=used) for n in range(STEPS - 1)]
    model = ScriptedModel(*turns, text("Done.", usage=used))
    limits = Limits(max_steps=None)
    async with Agent(model, tools=[look], limits=limits, post_model_hooks=()) as agent:
        await agent.use(reader)
        thread, process = time.thread_time(), time.process_time()
        await agent.run("Look around.")
        return time.thread_time() - thread, time.process_time() - process


def measure(rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """Return, for each reader, the least CPU time a step, in microseconds: of the run's thread, and of the process."""
    best: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        makers = readers(Path(folder))
        for _ in range(rounds):
            for name, make in makers.items():
                took = asyncio.run(one_run(make()))
                known = best.get(name, took)
                best[name] = (min(known[0], took[0]), min(known[1], took[1]))
    return {name: (thread / STEPS * 1e6, process / STEPS * 1e6) for name, (thread, process) in best.items()}


def main() -> None:
    """Print the table."""
    found = measure()
    base = found["baseline"]
    print(f"{'reader':<24}{'run µs/step':>13}{'added':>9}{'process':>10}{'added':>9}")
    for name, (thread, process) in found.items():
        print(f"{name:<24}{thread:>13.1f}{thread - base[0]:>9.1f}{process:>10.1f}{process - base[1]:>9.1f}")
    thread, process = [found["Report()"][place] - base[place] for place in (0, 1)]
    print(
        f"\nA report adds {thread:.1f} µs a step in the run's thread and {process - thread:.1f} in its own; "
        f"the target is {LIMIT_US:.0f}."
    )


if __name__ == "__main__":
    main()
