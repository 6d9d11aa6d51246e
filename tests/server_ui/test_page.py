"""The chat page as a whole: its files, its size on a phone, keys, colours, and what is said to screen readers."""

from pathlib import Path
from typing import Any

import pytest
from tests.flow.browser import needs_browser, opened
from tests.server_ui.serving import served
from tests.server_ui.talking import chat, finished, say, scripted

from interpose import tool
from interpose.testing import calls, text

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
PHONE = {"width": 360, "height": 740, "scheme": "light"}
WIDE = (
    "A_very_long_word_" * 20
    + "\n\n| "
    + " | ".join(f"column {n}" for n in range(12))
    + " |\n|"
    + "---|" * 12
    + "\n| "
    + " | ".join("cell" for _ in range(12))
    + " |\n\n```\n"
    + "x" * 300
    + "\n```\n\n- "
    + "y" * 200
    + "\n\n"
    + "https://a.example/" * 10
)


@tool(approval=True)
def pay(amount: int, to: str) -> str:
    """Pay."""
    return "z" * 300


async def overflow(page: Any) -> int:
    """How many pixels the page, or what scrolls in it, is wider than the screen."""
    return int(
        await page.evaluate(
            """Math.max(...[document.documentElement, document.body, document.getElementById("scroll")]
                .map((one) => one.scrollWidth - one.clientWidth))"""
        )
    )


async def test_nothing_is_wider_than_a_phone(browser: Any) -> None:
    turns = (calls(("pay", {"amount": 1, "to": "w" * 200}), text=WIDE), text(WIDE, reasoning=WIDE))
    agent = scripted(*turns, tools=[pay], post_model_hooks=())
    async with chat(browser, agent, view=PHONE) as (page, _):
        await say(page, "q" * 200)
        await page.locator(".question").wait_for()
        assert await overflow(page) == 0
        await page.get_by_role("button", name="Edit").click()
        assert await overflow(page) == 0
        await page.get_by_role("button", name="Back").click()
        await page.get_by_role("button", name="Approve").click()
        await finished(page)
        await page.locator(".call summary").click()
        await page.get_by_text("Reasoning", exact=True).click()
        assert await overflow(page) == 0


async def test_conversations_are_in_a_drawer_on_a_phone(browser: Any) -> None:
    async with chat(browser, scripted("Hi."), view=PHONE) as (page, _):
        await say(page, "about trains")
        await finished(page)
        thread = page.get_by_role("button", name="about trains").first
        assert not await thread.is_visible()
        await page.get_by_role("button", name="Conversations").click()
        await thread.click()
        await thread.wait_for(state="hidden")
        assert await page.locator(".is-text").is_visible()


async def test_what_is_touched_is_large_enough_on_a_phone(browser: Any) -> None:
    async with chat(browser, scripted(calls(("pay", {"amount": 1, "to": "x"})), tools=[pay]), view=PHONE) as (page, _):
        await say(page, "Pay.")
        await page.locator(".question").wait_for()
        sizes = await page.evaluate(
            """[...document.querySelectorAll(".button, select")].filter((one) => one.checkVisibility())
                .map((one) => Math.round(one.getBoundingClientRect().height))"""
        )
        assert len(sizes) > 5
        assert min(sizes) >= 40


async def test_page_can_be_used_with_keys_alone(browser: Any) -> None:
    agent = scripted(calls(("pay", {"amount": 1, "to": "x"})), "Paid.", "New.", tools=[pay])
    async with chat(browser, agent) as (page, _):
        await page.keyboard.type("Pay it.")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("Please.")
        await page.keyboard.press("Enter")
        await page.locator(".question:focus").wait_for()
        await page.keyboard.press("Tab")  # the arguments, which can be scrolled
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.get_by_text("Paid.", exact=True).wait_for()
        assert await page.locator(".bubble").inner_text() == "Pay it.\nPlease."
        await finished(page)
        await page.locator("#prompt").press("Escape")
        await page.keyboard.press("n")
        await page.keyboard.type("New?")
        await page.keyboard.press("Enter")
        await page.get_by_text("New.", exact=True).wait_for()
        await finished(page)
        await page.keyboard.press("Escape")
        await page.keyboard.press("]")
        await page.get_by_text("Paid.", exact=True).wait_for()
        await page.keyboard.press("?")
        assert await page.locator("#keys").is_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        assert await page.locator("#prompt:focus").count() == 1


async def test_every_control_has_a_name(browser: Any) -> None:
    agent = scripted(calls(("pay", {"amount": 1, "to": "x"})), tools=[pay])
    async with chat(browser, {"a": agent, "b": scripted("x")}) as (page, _):
        await say(page, "Pay.")
        await page.locator(".question").wait_for()
        await page.get_by_role("button", name="Edit").click()
        nameless = await page.evaluate(
            """[...document.querySelectorAll("button, input, textarea, select, [tabindex='0']")]
                .filter((one) => one.checkVisibility())
                .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length))
                .map((one) => one.outerHTML.slice(0, 100))"""
        )
        assert nameless == []


async def test_what_happens_is_said_to_screen_readers(browser: Any) -> None:
    async with chat(browser, scripted(calls(("pay", {"amount": 1, "to": "x"})), "Paid.", tools=[pay])) as (page, _):
        await say(page, "Pay.")
        await page.locator("#alerts", has_text="A question waits for your answer: Run pay?").wait_for(state="attached")
        await page.get_by_role("button", name="Approve").click()
        await page.locator("#news", has_text="guide says: Paid.").wait_for(state="attached")


@pytest.mark.parametrize("scheme", ["dark", "light"])
async def test_text_can_be_read_in_both_themes(browser: Any, scheme: str) -> None:
    agent = scripted(calls(("pay", {"amount": 1, "to": "x"}), text="I `pay`."), tools=[pay])
    async with chat(browser, agent, view={"scheme": scheme}) as (page, _):
        await say(page, "Pay.")
        await page.locator(".question").wait_for()
        faint = await page.evaluate(CONTRAST)
        assert faint == []


async def test_theme_that_was_chosen_is_kept(browser: Any) -> None:
    async with chat(browser, scripted("Hi."), view={"scheme": "dark"}) as (page, _):
        await page.get_by_role("button", name="Dark or light").click()
        assert await page.evaluate("document.documentElement.dataset.theme") == "light"
        await page.reload()
        assert await page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


async def test_page_is_found_at_the_root_and_under_a_path(browser: Any) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from interpose.server import create_app

    inner = create_app({"guide": scripted("Hi.")}, ui=True)
    async with served({"other": scripted("x")}) as server:
        await server.down()
        server.app = Starlette(routes=[Mount("/apps/talk", inner)])
        await server.up()
        async with opened(browser, f"{server.url}apps/talk/") as page:
            await finished(page)
            assert page.url.partition("#")[0] == f"{server.url}apps/talk/ui/"
            await say(page, "Hi")
            await page.get_by_text("Hi.", exact=True).wait_for()
            await finished(page)
