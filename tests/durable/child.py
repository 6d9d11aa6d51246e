"""A process of a fleet that is killed at a given moment, once: `child.py URL SCHEMA FOLDER MOMENT EFFECT`.

It runs `run-1` of an agent of three steps with two parallel tool calls each and a last answer. What really happens is
appended to `FOLDER/log`. The first process that reaches MOMENT kills itself; a later one goes on and prints the result.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from interpose import Agent, FatalToolError, Middleware, ModelRequest, RateLimited, ToolContext, tool
from interpose.builtin import RetryModelCalls
from interpose.durable.dbos import DBOSAgents
from interpose.request import Usage
from interpose.testing import FakeClock, ScriptedModel, calls, fail, text

URL, SCHEMA, FOLDER, MOMENT = sys.argv[1:5]
EFFECT: Any = sys.argv[5]
KILLED = Path(FOLDER) / "killed"


def log(line: str) -> None:
    with (Path(FOLDER) / "log").open("a") as file:
        file.write(f"{line}\n")


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what))


def reached(moment: str) -> None:
    """Die here, if this is the moment and nobody has died of it yet."""
    if moment == MOMENT and not KILLED.exists():
        KILLED.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@tool(effect=EFFECT)
async def note(ctx: ToolContext[Any], n: int) -> dict[str, int]:
    """Note a number."""
    log(f"tool {n} {ctx.idempotency_key}")
    reached(f"in tool {n}")
    await asyncio.sleep(0.02 if n % 2 else 0.2)  # the second of two ends first, and is recorded
    reached(f"late in tool {n}")
    if EFFECT == "read" and n == 1:
        raise ValueError("one is none")
    if MOMENT == "fatal" and n == 3:
        raise FatalToolError("enough")
    return {"noted": n}


class Killer(Middleware[Any]):
    """Stands outermost, so that hooks of its own come at every boundary of a step."""

    def on_start(self, ctx: Any) -> None:
        reached("start")

    def on_usage(self, ctx: Any, usage: Usage) -> None:
        reached(f"after model {ctx.step}")

    def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
        reached(f"after tools {ctx.step}")

    def on_finish(self, ctx: Any, info: Any) -> None:
        log("finish")
        reached("finish")


def turn(request: ModelRequest) -> Any:
    n = request.number
    log(f"model {n}")
    reached(f"in model {n}")
    usage = Usage(10, 1)
    if MOMENT == "in model 2" and n == 1 and request.attempt == 0:
        return fail(RateLimited("slow down", provider="scripted", retry_after_s=0.5))
    if n == 3:
        return text("done", usage=usage)
    return calls(("note", {"n": 2 * n}), ("note", {"n": 2 * n + 1}), usage=usage)


class Streams(Middleware[Any]):
    def on_chunk(self, ctx: Any, event: Any) -> None:
        """Have every answer streamed."""


async def main() -> None:
    layers: list[Any] = [Killer(), RetryModelCalls(), *([Streams()] if "stream" in sys.argv[3] else [])]
    agent = Agent(ScriptedModel(*[turn] * 100), tools=[note], middleware=layers, clock=FakeClock(auto=True))
    async with DBOSAgents({"a": agent}, database_url=URL, schema=SCHEMA, executor="worker-7", poll_s=0.05) as agents:
        handle = await agents.submit("a", "go", run_id="run-1")
        try:
            result = await handle.result()
        except FatalToolError as error:
            say(
                {
                    "error": "FatalToolError",
                    "message": str(error),
                    "steps": len(error.partial.steps if error.partial else ()),
                }
            )
            return
        results = [one.text for step in result.steps for one in step.tool_results]
        said = {"text": result.text, "results": results, "tokens": result.usage.total_tokens, "run": result.run_id}
        say(said | {"status": await handle.status(), "steps": len(result.steps)})


asyncio.run(main())
