"""`interpose chat`: a conversation, in which Ctrl-C cancels the answer and Ctrl-D leaves."""

import asyncio
from collections.abc import Callable
from typing import Any

from interpose.agent import Agent
from interpose.cli.run import show_run
from interpose.cli.screen import NOTE, Screen
from interpose.ids import create_id
from interpose.messages import Message, UserMessage


def chat(agent: Agent[Any], screen: Screen, report: Callable[[Exception], None]) -> None:
    """Answer what a person types until there is no more; *report* is told of a failed answer, and the chat goes on.

    One loop serves all runs, but does not run while the person types: Ctrl-C then only clears the line.
    """
    _edit_lines()
    said: tuple[Message, ...] = ()
    thread_id = create_id("thread")
    screen.line(f"chat with {agent.name}: Ctrl-C cancels an answer, Ctrl-D leaves", NOTE)
    with asyncio.Runner() as runner:
        try:
            while (prompt := _next_prompt(screen)) is not None:
                asked = (*said, UserMessage(prompt))
                try:
                    said = runner.run(show_run(agent, asked, screen, thread_id=thread_id)).messages
                except KeyboardInterrupt:
                    screen.line("(cancelled; this question is forgotten)", NOTE)
                except Exception as error:
                    report(error)
        finally:
            runner.run(agent.aclose())


def _next_prompt(screen: Screen) -> str | None:
    """Return the next line that is not empty, or None at the end of the input."""
    while True:
        try:
            prompt = screen.ask().strip()
        except KeyboardInterrupt:
            screen.plain("")
            continue
        except EOFError:
            screen.plain("")
            return None
        if prompt:
            return prompt


def _edit_lines() -> None:
    """Give the input line editing and a history, where Python has them."""
    try:
        import readline  # noqa: F401  # importing it is what switches it on
    except ImportError:
        return
