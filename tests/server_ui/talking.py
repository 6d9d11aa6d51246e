"""Agents to talk to, and what a person does on the page."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.flow.browser import opened
from tests.server_ui.serving import Served, served

from interpose import Agent, Middleware
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel


class Held(Middleware):
    """Holds back every event of a kind until it is let go, one by one or all."""

    def __init__(self, kind: str = "TEXT_MESSAGE_CONTENT") -> None:
        self.kind = kind
        self._free = asyncio.Semaphore(0)

    async def on_chunk(self, ctx: Any, event: Any) -> None:
        if event.type == self.kind:
            await self._free.acquire()

    def let(self, count: int = 1000) -> None:
        for _ in range(count):
            self._free.release()


def scripted(*turns: Any, **options: Any) -> Agent[Any]:
    options.setdefault("store", MemoryStore())
    return Agent(ScriptedModel(*turns), **options)


@asynccontextmanager
async def chat(
    browser: Any, agent: Agent[Any] | Mapping[str, Agent[Any]], *, view: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Any, Served]]:
    """Yield the page of a server with *agent*, ready to be written on."""
    agents = agent if isinstance(agent, Mapping) else {"guide": agent}
    async with served(agents, **options) as server, opened(browser, server.url, **(view or {})) as page:
        await page.locator("#link.is-live, dialog[open]").first.wait_for()
        yield page, server


async def say(page: Any, text: str) -> None:
    await page.fill("#prompt", text)
    await page.keyboard.press("Enter")


async def said(page: Any) -> list[str]:
    """What stands on the page as the agent's texts."""
    return [text.strip() for text in await page.locator(".is-text .words").all_inner_texts()]


async def finished(page: Any) -> None:
    await page.locator("#link.is-live").wait_for()
