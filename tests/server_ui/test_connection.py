"""The chat page when things go wrong: stopped, cut off, reloaded, failing, refused."""

from typing import Any

import pytest
from tests.flow.browser import needs_browser, opened
from tests.server_ui.serving import served
from tests.server_ui.talking import Held, chat, finished, said, say, scripted

from interpose import Middleware, tool
from interpose.testing import calls, fail, hang, text

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]


async def test_stop_cancels_the_run_and_keeps_what_was_said(browser: Any) -> None:
    ended: list[str] = []

    class Notes(Middleware):
        def on_abort(self, ctx: Any, info: Any) -> None:
            ended.append(ctx.run_id)

    agent = scripted(hang(after=("Once upon",)), "A new answer.", middleware=[Notes()])
    async with chat(browser, agent) as (page, _):
        await say(page, "A story.")
        await page.locator(".is-text", has_text="Once upon").wait_for()
        await page.get_by_role("button", name="Stop").click()
        await page.get_by_text("Stopped", exact=True).wait_for()
        await finished(page)
        assert await said(page) == ["Once upon"]
        assert len(ended) == 1
        await say(page, "Again.")
        await page.get_by_text("A new answer.", exact=True).wait_for()


async def test_lost_connection_is_taken_up_where_it_broke(browser: Any) -> None:
    held = Held()
    words = [f"{n} " for n in range(12)]
    async with chat(browser, scripted(text("".join(words), chunks=words), middleware=[held])) as (page, server):
        await say(page, "Count.")
        held.let(4)
        await page.locator(".is-text", has_text="0 1 2 3").wait_for()
        server.cut()
        await page.locator("#link.is-lost, #link.is-running").wait_for()
        held.let()
        await finished(page)
        assert await said(page) == ["".join(words).strip()]
        page.said.clear()  # the browser tells of the cut connection


async def test_connection_that_died_silently_is_made_anew(browser: Any) -> None:
    held = Held()
    agent = scripted(text("Still here.", chunks=("Still", " here.")), middleware=[held])
    async with served({"guide": agent}, heartbeat_s=1000.0) as server, opened(browser, server.url) as page:
        await finished(page)
        await page.clock.install()
        await say(page, "Hello?")
        held.let(1)
        await page.clock.run_for(1000)
        await page.locator(".is-text", has_text="Still").wait_for()
        async with page.expect_request("**/events") as again:
            await page.clock.run_for(60_000)
        assert (await again.value).headers["last-event-id"].isdigit()
        held.let()
        await page.clock.resume()
        await finished(page)
        assert await said(page) == ["Still here."]


async def test_run_is_read_on_after_a_reload(browser: Any) -> None:
    held = Held()
    words = [f"{n} " for n in range(12)]
    async with chat(browser, scripted(text("".join(words), chunks=words), middleware=[held])) as (page, _):
        await say(page, "Count.")
        held.let(4)
        await page.locator(".is-text", has_text="0 1 2 3").wait_for()
        await page.reload()
        await page.locator("#link.is-running").wait_for()
        assert await said(page) == ["0 1 2 3"]
        held.let()
        await finished(page)
        assert await said(page) == ["".join(words).strip()]


async def test_run_goes_on_while_another_conversation_is_shown(browser: Any) -> None:
    held = Held()
    async with chat(browser, scripted("Long answer.", middleware=[held])) as (page, _):
        await say(page, "long")
        await page.locator("#link.is-running").wait_for()
        await page.get_by_role("button", name="New conversation").first.click()
        await finished(page)
        held.let()
        await page.get_by_role("button", name="long").first.click()
        await page.locator(".is-text", has_text="Long answer.").wait_for()
        await finished(page)


async def test_server_that_is_away_for_a_while_is_waited_for(browser: Any) -> None:
    held = Held()
    async with chat(browser, scripted(text("Here I am.", chunks=("Here", " I", " am.")), middleware=[held])) as (
        page,
        server,
    ):
        await say(page, "Where?")
        held.let(1)
        await page.locator(".is-text", has_text="Here").wait_for()
        await server.down()
        await page.locator("#link.is-lost").wait_for()
        held.let()
        await server.up()
        await finished(page)
        assert await said(page) == ["Here I am."]
        page.said.clear()  # the browser tells of what it could not reach


async def test_failed_run_is_told_and_tried_again(browser: Any) -> None:
    agent = scripted(fail(RuntimeError("secret"), after=("Half a",)), "A whole answer.")
    async with chat(browser, agent) as (page, _):
        await say(page, "Hi")
        error = page.locator(".is-error")
        await error.wait_for()
        assert "the run failed" in await error.inner_text()
        assert "secret" not in await page.locator("body").inner_text()
        assert await page.locator(".is-text.is-half").inner_text() != ""
        await page.get_by_role("button", name="Try again").click()
        await finished(page)
        await page.get_by_text("A whole answer.", exact=True).wait_for()
        assert await said(page) == ["A whole answer."]
        assert await error.count() == 0
        assert await page.locator(".bubble").count() == 1


async def test_steps_that_were_done_are_kept_when_a_run_is_tried_again(browser: Any) -> None:
    seen: list[list[str]] = []
    looked: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        looked.append("left")
        return "a door"

    def last(request: Any) -> Any:
        seen.append([message.text for message in request.messages])
        return text("Through the door.")

    agent = scripted(calls(("look", {})), fail(RuntimeError("boom")), last, tools=[look])
    async with chat(browser, agent) as (page, _):
        await say(page, "Where?")
        await page.get_by_role("button", name="Try again").click()
        await page.get_by_text("Through the door.", exact=True).wait_for()
        assert looked == ["left"]
        assert seen == [["Where?", "", "a door"]]


async def test_message_that_the_server_never_got_can_be_sent_again(browser: Any) -> None:
    async with chat(browser, scripted("Here.")) as (page, server):
        await server.down()
        await say(page, "Anybody?")
        await page.locator("#link.is-lost").wait_for()
        await server.up()
        await page.get_by_text("The server did not get this.").first.wait_for()
        page.said.clear()  # the browser tells of what it could not reach
        await page.get_by_role("button", name="Try again").click()
        await finished(page)
        assert await said(page) == ["Here."]


async def test_run_that_the_server_has_forgotten_is_told(browser: Any) -> None:
    held = Held()
    async with chat(browser, scripted("Never.", "Again.", middleware=[held])) as (page, server):
        await say(page, "Hi")
        await page.locator("#link.is-running").wait_for()
        other = scripted("Again.")
        async with served({"guide": other}) as restarted:
            kept_app, server.app = server.app, restarted.app
            await server.down()
            await server.up()
            await page.locator(".is-error", has_text="does not know this run any more").wait_for()
            page.said.clear()  # the browser tells of what it could not reach
            await page.get_by_role("button", name="Try again").click()
            await page.get_by_text("Again.", exact=True).wait_for()
        held.let()
        server.app = kept_app


async def test_server_that_cannot_be_reached_is_told_at_once(browser: Any) -> None:
    async with chat(browser, scripted("Hi.")) as (page, _):
        await page.route("**/ag-ui", lambda route: route.abort())
        await page.reload()
        await page.get_by_text("The server cannot be reached.").wait_for()
        page.said.clear()  # the browser tells of what it could not reach
        await page.unroute("**/ag-ui")
        await page.get_by_role("button", name="Try again").click()
        await finished(page)


async def test_token_is_asked_for_once_and_kept_for_the_tab(browser: Any) -> None:
    agent = scripted("Come in.", "Still in.")
    async with served({"guide": agent}, auth={"right": "ann"}) as server, opened(browser, server.url) as page:
        await page.locator("#token-field").fill("wrong")
        await page.keyboard.press("Enter")
        await page.get_by_text("The server does not take this token.").wait_for()
        await page.locator("#token-field").fill("right")
        await page.get_by_role("button", name="Use it").click()
        await finished(page)
        await say(page, "Hi")
        await page.get_by_text("Come in.", exact=True).wait_for()
        await page.reload()
        await finished(page)
        await say(page, "Hi again")
        await page.get_by_text("Still in.", exact=True).wait_for()
        kept = await page.evaluate("JSON.stringify([localStorage, document.cookie, location.href])")
        assert "right" not in kept
        page.said.clear()  # the browser tells of the refused requests


async def test_conversations_of_one_token_are_not_shown_with_another(browser: Any) -> None:
    agent = scripted("For Ann.")
    async with served({"guide": agent}, auth={"a1": "ann", "b2": "bob"}) as server, opened(browser, server.url) as page:
        await page.locator("#token-field").fill("a1")
        await page.keyboard.press("Enter")
        await finished(page)
        await say(page, "about money")
        await page.get_by_text("For Ann.", exact=True).wait_for()
        await finished(page)
        await page.evaluate("sessionStorage.clear()")
        await page.reload()
        await page.locator("#token-field").fill("b2")
        await page.keyboard.press("Enter")
        await finished(page)
        assert await page.locator(".thread").count() == 0
        page.said.clear()  # the browser tells of the refused requests
