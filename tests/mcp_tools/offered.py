"""Agents for `interpose mcp`, whose model is played: what the prompt is decides what they do."""

import asyncio
import os
from typing import Any

from interpose import Agent, Limits, Middleware, tool
from interpose.testing import ScriptedModel, calls, text

print("printed while it is loaded")  # noqa: T201  # as people's files do, and must not reach the client


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    print("printed while it runs")  # noqa: T201  # as above
    await asyncio.sleep(seconds)
    return "waited"


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def turn(request: Any) -> Any:
    asked = request.messages[0].text
    if request.messages[-1].role == "tool" and asked != "for ever":
        return text(f"done: {asked}")
    match asked:
        case "for ever":
            return calls(("wait", {"seconds": 0.01}))
        case "hang":
            return calls(("wait", {"seconds": 60}))
        case "wait":
            return calls(("wait", {"seconds": 0.05}))
        case "pay":
            return calls(("pay", {}))
        case "fail":
            raise ValueError("the password is hunter2")
        case "exit":
            raise SystemExit(3)
    return text(f"you said: {asked}")


class Diary(Middleware[Any]):
    """Writes how runs end into the file that the environment names."""

    def on_abort(self, ctx: Any, info: Any) -> None:
        self._write(f"aborted: {info.reason}")

    def close(self) -> None:
        self._write("closed")

    def _write(self, line: str) -> None:
        if path := os.environ.get("DIARY"):
            with open(path, "a") as file:
                file.write(line + "\n")


agent = Agent(
    ScriptedModel(*[turn] * 1000),
    tools=[wait, pay],
    middleware=[Diary()],
    limits=Limits(max_steps=5),
    name="helper",
    post_model_hooks=(),
)
second = Agent(ScriptedModel(*["I am the second"] * 100), name="the second!")
typed = Agent(ScriptedModel(*['{"city": "Lyon"}'] * 100), name="typed", output={"type": "object", "properties": {}})
