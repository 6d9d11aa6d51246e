"""A page in a real browser: Chromium of the system, without a window."""

import importlib.util
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or importlib.util.find_spec("playwright") is None,
    reason="needs Chromium, and playwright (the extra test)",
)


@asynccontextmanager
async def launched() -> AsyncIterator[Any]:
    """Yield a browser."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(
    browser: Any, url: str, *, width: int = 1440, height: int = 900, scheme: Any = "dark"
) -> AsyncIterator[Any]:
    """Yield the page at *url*. What it wrote to its console, and errors in its scripts, fail the test."""
    said: list[str] = []
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    try:
        page = await context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.said = said  # a test that expects some looks at it, and empties it
        await page.goto(url)
        yield page
    finally:
        await context.close()
    assert said == []
