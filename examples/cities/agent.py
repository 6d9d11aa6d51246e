"""An agent that answers from a database, on a model that runs in this process.

    interpose run examples/cities/agent.py:agent "How many people live in Lyon?"

Three middlewares are at work: one guards the streamed text, one caches tool results, one takes the times.
"""

import atexit
import functools
import re
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from interpose import Agent, Middleware, ModelRequest, ModelResponse, RunContext, RunResult, ToolCall, ToolResult, tool
from interpose.builtin import ContentGuard, ToolCache
from interpose.info import ToolPhaseInfo
from interpose.middleware import ModelNext, RunNext, ToolNext

DATA = Path(__file__).with_name("cities.sql")


@functools.cache
def database() -> str:
    """Return the URI of the database, read-only; it is made when it is first asked for and goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="cities-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "cities.db"
    with closing(sqlite3.connect(path)) as made:
        made.executescript(DATA.read_text(encoding="utf-8"))
    return f"{path.as_uri()}?mode=ro"


@tool
def population(city: str) -> str:
    """Return how many people live in a city.

    Args:
        city: The name of the city.
    """
    with closing(sqlite3.connect(database(), uri=True)) as db:
        row = db.execute("SELECT name, country, inhabitants FROM city WHERE name = ?", (city.strip(),)).fetchone()
    if row is None:
        return f"There is no city named {city!r} in the database."
    name, country, inhabitants = row
    return f"{name} in {country} has {inhabitants:,} inhabitants, says registry@{country.lower()}.example."


@dataclass
class Times:
    """What one run has taken so far; times in seconds."""

    model_s: float = 0.0
    tool_s: float = 0.0
    tools_run: int = 0
    tools_asked: int = 0


class Timing(Middleware):
    """Takes the times of each seam and adds them to the summary of the command line.

    It stands innermost, so a call that the cache answers does not reach it.
    """

    run_state = Times

    async def wrap_run(self, ctx: RunContext, call_next: RunNext) -> RunResult:
        started = time.perf_counter()
        result = await call_next()
        times: Times = ctx.private(self)
        figures = {
            "time in the model": f"{times.model_s:.2f} s",
            "time in tools": f"{times.tool_s * 1000:.1f} ms",
            "time of the run": f"{time.perf_counter() - started:.2f} s",
            "answered by the cache": times.tools_asked - times.tools_run,
        }
        ctx.emit("summary", figures)
        return result

    async def wrap_model_call(self, ctx: RunContext, request: ModelRequest, call_next: ModelNext) -> ModelResponse:
        started = time.perf_counter()
        response = await call_next(request)
        ctx.private(self).model_s += time.perf_counter() - started
        return response

    async def wrap_tool_call(self, ctx: RunContext, call: ToolCall, call_next: ToolNext) -> ToolResult:
        started = time.perf_counter()
        result = await call_next(call)
        times: Times = ctx.private(self)
        times.tool_s += time.perf_counter() - started
        times.tools_run += 1
        return result

    def on_tool_phase_complete(self, ctx: RunContext, info: ToolPhaseInfo) -> None:
        ctx.private(self).tools_asked += len(info.calls)


def in_words(figure: re.Match[str]) -> str:
    """Return a figure as people say it: 522,000 as 522 thousand, 3,281,000 as 3.28 million."""
    number = int(figure[0].replace(",", ""))
    return f"{number / 1_000_000:.2f} million" if number >= 1_000_000 else f"{round(number / 1000)} thousand"


agent = Agent(
    "local:",
    name="cities",
    instructions="Repeat the data, word for word.",
    tools=[population],
    middleware=[
        # What leaves has no address in it, and figures as people say them. The text is held back only as far as a
        # figure or an address may still grow.
        ContentGuard(
            [(r"[\w.+-]+@[\w.-]+\w", "(address hidden)"), (r"\b\d{1,3}(,\d{3})+\b|\b\d{5,}\b", in_words)],
            hold_chars=10,
        ),
        ToolCache(scope="agent"),
        Timing(),
    ],
)
