"""Conversations that the server keeps, or that went on in another place, on the chat page."""

from typing import Any

import pytest
from tests.flow.browser import needs_browser, opened
from tests.server_ui.talking import Held, chat, finished, said, say, scripted

from interpose import tool
from interpose.testing import calls, text

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def look() -> str:
    """Look."""
    return "a door"


async def test_conversation_of_another_browser_is_listed_and_goes_on(browser: Any) -> None:
    turns = (calls(("look", {}), text="Let me see."), text("A door.", reasoning="as it said"), "Open it.")
    async with chat(browser, scripted(*turns, tools=[look])) as (page, server):
        await say(page, "What is left?")
        await finished(page)
        async with opened(browser, server.url) as other:
            await other.get_by_role("button", name="What is left?").first.click()
            await other.get_by_text("A door.", exact=True).wait_for()
            assert await said(other) == ["Let me see.", "A door."]
            assert await other.locator(".call-came").inner_text() == "a door"
            assert await other.locator(".reasoning-text").all_text_contents() == ["as it said"]
            await say(other, "And then?")
            await other.get_by_text("Open it.", exact=True).wait_for()
            await finished(other)
        await page.reload()
        await page.get_by_text("Open it.", exact=True).wait_for()
        assert await said(page) == ["Let me see.", "A door.", "Open it."]
        assert await page.locator(".bubble").all_inner_texts() == ["What is left?", "And then?"]


async def test_question_asked_in_another_browser_can_be_answered(browser: Any) -> None:
    async with chat(browser, scripted(calls(("pay", {"amount": 3})), "Paid.", tools=[pay])) as (page, server):
        await say(page, "Pay.")
        await page.locator(".question").wait_for()
        async with opened(browser, server.url) as other:
            await other.get_by_role("button", name="Pay.").first.click()
            assert '"amount": 3' in await other.locator(".question").inner_text()
            await other.get_by_role("button", name="Approve").click()
            await other.get_by_text("Paid.", exact=True).wait_for()
            await finished(other)
        await page.reload()
        await page.get_by_text("Paid.", exact=True).wait_for()
        assert await page.locator(".question:not(.is-settled)").count() == 0


async def test_call_that_was_rejected_in_another_browser_is_shown_as_not_run(browser: Any) -> None:
    async with chat(browser, scripted(calls(("pay", {"amount": 3})), "Well.", tools=[pay])) as (page, server):
        await say(page, "Pay.")
        await page.get_by_role("button", name="Reject").click()
        await page.keyboard.type("too much")
        await page.keyboard.press("Control+Enter")
        await page.get_by_text("Well.", exact=True).wait_for()
        await finished(page)
        async with opened(browser, server.url) as other:
            await other.get_by_role("button", name="Pay.").first.click()
            await other.get_by_text("Well.", exact=True).wait_for()
            assert await other.locator(".call .state").all_inner_texts() == ["not run"]
            assert await other.locator(".call-came").inner_text() == "rejected by a person: too much"


async def test_run_that_goes_on_is_followed_in_another_browser(browser: Any) -> None:
    held = Held()
    async with chat(browser, scripted(text("One two.", chunks=("One", " two.")), middleware=[held])) as (page, server):
        await say(page, "Count.")
        held.let(1)
        await page.locator(".is-text", has_text="One").wait_for()
        async with opened(browser, server.url) as other:
            await other.get_by_role("button", name="Count.").first.click()
            await other.locator(".is-text", has_text="One").wait_for()
            held.let()
            await finished(other)
            assert await said(other) == ["One two."]
        await finished(page)


async def test_deleted_conversation_stays_away_though_the_server_has_it(browser: Any) -> None:
    async with chat(browser, scripted("Hi.")) as (page, _):
        await say(page, "secret plan")
        await finished(page)
        await page.get_by_label("Delete the conversation secret plan").click()
        await page.get_by_role("button", name="Delete", exact=True).last.click()
        await page.locator(".thread").wait_for(state="detached")
        await page.reload()
        await finished(page)
        assert await page.locator(".thread").count() == 0
        assert "secret" not in await page.evaluate("JSON.stringify(localStorage)")
