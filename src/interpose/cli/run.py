"""`interpose run`: prompts in, answers out, each prompt a run of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from interpose.agent import Agent
from interpose.cli.live import live_line
from interpose.cli.screen import NOTE, Screen
from interpose.cli.signals import call_on
from interpose.cli.summary import Summary
from interpose.events import Event
from interpose.messages import Message
from interpose.result import RunResult

STOPPING_S = 1.0
"""After how long it is said that something still runs after Ctrl-C."""


async def show_run(
    agent: Agent[Any],
    prompt: str | Sequence[Message],
    screen: Screen,
    *,
    summary: Summary | None = None,
    thread_id: str | None = None,
) -> RunResult:
    """Run the agent, write its events to *screen* as they come, then the *summary*, if one is wanted."""
    async with (
        live_line(screen) as middleware,
        agent.stream(prompt, thread_id=thread_id, middleware=middleware) as run,
    ):
        async for event in run:
            screen.show(event)
            if summary is not None:
                summary.note(event)
        result = await run.result()
    screen.end_line()
    for question in result.interrupts:
        screen.line(f"paused: {question.message or question.reason}", NOTE)
    if summary is not None:
        screen.summary(summary.rows(result))
    return result


async def print_events(agent: Agent[Any], prompt: str) -> None:
    """Run the agent and print one event a line, as JSON."""
    async with agent.stream(prompt) as run:
        async for event in run:
            _print(event)
        await run.result()


def _print(event: Event) -> None:
    sys.stdout.write(event.to_json() + "\n")
    sys.stdout.flush()


def run_prompts(agent: Agent[Any], prompts: Sequence[str], screen: Screen, *, as_json: bool) -> None:
    """Run the agent on each prompt, one after the other, nothing remembered between them."""

    async def all_runs() -> None:
        async with agent:
            for prompt in prompts:
                if as_json:
                    await print_events(agent, prompt)
                else:
                    if len(prompts) > 1:
                        screen.line(f"> {prompt}", "bold")
                    await show_run(agent, prompt, screen, summary=Summary())

    run_until_interrupted(all_runs(), screen)


def run_until_interrupted(work: Coroutine[Any, Any, None], screen: Screen) -> None:
    """Run *work* in a loop of its own: Ctrl-C ends it in good order, a second one leaves the process at once.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """

    async def main() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        presses = 0

        def interrupt() -> None:
            nonlocal presses
            presses += 1
            if presses > 1 or task is None:
                os._exit(130)
            task.cancel()
            loop.call_later(STOPPING_S, screen.line, "stopping: a tool is still running; Ctrl-C again leaves it", NOTE)

        call_on(signal.SIGINT, interrupt)
        await work

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
