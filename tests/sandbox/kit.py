"""What the tests of the sandbox share: a box by hand, an agent that makes the calls given, and who is told of files."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose import Agent, FileEvent, Middleware
from interpose.events import CustomEvent, Event
from interpose.result import RunResult
from interpose.sandbox import Box, CommandLimits, Sandbox
from interpose.sandbox.box import BoxOptions, Isolation
from interpose.sandbox.bubblewrap import failing, missing
from interpose.sandbox.ignoring import IGNORED, ignoring
from interpose.testing import ScriptedModel, calls, collect, text

WHY_NOT = missing() or failing()
needs_bwrap = pytest.mark.skipif(WHY_NOT is not None, reason=f"commands cannot be isolated here: {WHY_NOT}")


@asynccontextmanager
async def box_in(
    folder: Path, isolation: Isolation = "bubblewrap", limits: CommandLimits | None = None, **more: Any
) -> AsyncIterator[Box]:
    options = BoxOptions(
        isolation=isolation,
        limits=limits or CommandLimits(timeout_s=20),
        ignored=ignoring(IGNORED),
        ignore=IGNORED,
        **more,
    )
    async with Box(folder, options) as box:
        yield box


class Seen(Middleware[Any]):
    """Keeps every file event that it is told of."""

    def __init__(self) -> None:
        self.events: list[FileEvent] = []

    def on_file(self, ctx: Any, event: FileEvent) -> None:
        self.events.append(event)

    @property
    def told(self) -> list[str]:
        return [f"{event.kind} {event.path}" for event in self.events]

    def of(self, path: str) -> FileEvent:
        [event] = [event for event in self.events if event.path == path]
        return event


def agent_in(folder: Any, *turns: Any, more: Any = (), tools: Any = (), **options: Any) -> Agent[Any]:
    """Return an agent that makes the *turns*, each a command or a call `(name, arguments)`, in a sandbox."""
    played = [calls(("run_command", {"command": turn}) if isinstance(turn, str) else turn) for turn in turns]
    model = ScriptedModel(*played, text("Done."))
    return Agent(model, tools=tools, middleware=[Sandbox(folder, **options), *more])


async def told_in(folder: Path, *turns: Any, **options: Any) -> Seen:
    """Return what was told of files while the turns were made."""
    seen = Seen()
    await agent_in(folder, *turns, more=[seen], **options).run("Go.")
    return seen


async def streamed(agent: Agent[Any]) -> tuple[list[Event], RunResult]:
    async with agent.stream("Go.") as run:
        events = await collect(run)
        return events, await run.result()


def file_events(events: list[Event]) -> Iterator[str]:
    for event in events:
        if isinstance(event, CustomEvent) and event.name == "sandbox.file":
            yield f"{event.value['kind']} {event.value['path']}"


def results_of(result: RunResult) -> list[Any]:
    return [one.data for step in result.steps for one in step.tool_results]
