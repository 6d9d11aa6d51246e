"""Talking to an agent on the chat page, in a real browser and with the real server."""

import asyncio
from typing import Any

import pytest
from tests.flow.browser import needs_browser
from tests.server_ui.talking import Held, chat, finished, said, say, scripted

from interpose import Middleware, Retry, Usage, tool
from interpose.testing import calls, text

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]


async def test_text_is_shown_as_it_comes(browser: Any) -> None:
    held = Held()
    async with chat(browser, scripted(text("Hello there.", chunks=("Hello", " there.")), middleware=[held])) as (
        page,
        _,
    ):
        await say(page, "Hi")
        await page.locator("#link.is-running").wait_for()
        held.let(1)
        await page.locator(".is-text.is-open", has_text="Hello").wait_for()
        assert await said(page) == ["Hello"]
        held.let()
        await finished(page)
        assert await said(page) == ["Hello there."]
        assert await page.locator(".bubble").all_inner_texts() == ["Hi"]
        assert await page.locator("#news").inner_text() == "guide says: Hello there."


async def test_next_message_goes_on_with_the_thread(browser: Any) -> None:
    seen: list[list[str]] = []

    def turn(request: Any) -> Any:
        seen.append([message.text for message in request.messages])
        return text(f"answer {len(seen)}")

    async with chat(browser, scripted(turn, turn)) as (page, _):
        await say(page, "one")
        await finished(page)
        await say(page, "two")
        await page.get_by_text("answer 2", exact=True).wait_for()
        assert seen[1] == ["one", "answer 1", "two"]


async def test_agent_without_a_store_is_told_the_conversation(browser: Any) -> None:
    seen: list[list[str]] = []

    @tool
    def look() -> str:
        """Look."""
        return "a door"

    def turn(request: Any) -> Any:
        seen.append([message.text for message in request.messages])
        return calls(("look", {}), text="Let me see.") if len(seen) == 1 else text(f"answer {len(seen)}")

    async with chat(browser, scripted(turn, turn, turn, store=None, tools=[look])) as (page, _):
        await say(page, "one")
        await page.get_by_text("answer 2", exact=True).wait_for()
        await finished(page)
        await say(page, "two")
        await page.get_by_text("answer 3", exact=True).wait_for()
        assert seen[-1] == ["one", "Let me see.", "a door", "answer 2", "two"]


async def test_parallel_calls_are_shown_while_they_run(browser: Any) -> None:
    go = asyncio.Event()

    @tool
    async def weather(city: str) -> dict[str, Any]:
        """Tell the weather."""
        await go.wait()
        return {"city": city, "sky": "sunny"}

    agent = scripted(calls(("weather", {"city": "Lyon"}), ("weather", {"city": "Nice"})), "Sunny.", tools=[weather])
    async with chat(browser, agent) as (page, _):
        await say(page, "Weather?")
        await page.locator(".call .state.is-running", has_text="running").nth(1).wait_for()
        assert await page.locator(".call-brief").all_inner_texts() == ['city: "Lyon"', 'city: "Nice"']
        go.set()
        await finished(page)
        assert await page.locator(".call-came").all_inner_texts() == [
            'city: "Lyon", sky: "sunny"', 'city: "Nice", sky: "sunny"',
        ]  # fmt: skip
        await page.locator(".call summary").first.click()
        assert await page.locator(".call[open] .value").all_inner_texts() == [
            '{\n  "city": "Lyon"\n}', '{\n  "city": "Lyon",\n  "sky": "sunny"\n}',
        ]  # fmt: skip


async def test_failed_call_is_shown_as_one_and_the_model_is_told_again(browser: Any) -> None:
    seen: list[bool] = []

    @tool
    def look() -> str:
        """Look."""
        raise ValueError("sk-1")

    def turn(request: Any) -> Any:
        seen[:] = [message.is_error for message in request.messages if message.role == "tool"]
        return calls(("look", {})) if len(request.messages) == 1 else text(f"answer {len(request.messages)}")

    async with chat(browser, scripted(turn, turn, turn, store=None, tools=[look])) as (page, _):
        await say(page, "one")
        await finished(page)
        assert await page.locator(".call.is-bad .state").all_inner_texts() == ["failed"]
        assert "the tool failed (error id err_" in await page.locator(".call-came").inner_text()
        await say(page, "two")
        await page.get_by_text("answer 5", exact=True).wait_for()
        assert seen == [True]


async def test_name_of_a_custom_event_is_whole(browser: Any) -> None:
    class Emits(Middleware):
        def on_start(self, ctx: Any) -> None:
            ctx.emit("summary", {"words": "long " * 100})

    async with chat(browser, scripted("Hi.", middleware=[Emits()])) as (page, _):
        await say(page, "Hi")
        await finished(page)
        name = page.locator(".note-name")
        assert await name.evaluate("node => node.scrollWidth <= node.clientWidth")


async def test_reasoning_is_folded(browser: Any) -> None:
    async with chat(browser, scripted(text("Four.", reasoning="Two and two."))) as (page, _):
        await say(page, "2 + 2?")
        await finished(page)
        thought = page.locator(".reasoning-text")
        assert not await thought.is_visible()
        await page.get_by_text("Reasoning", exact=True).click()
        assert await thought.inner_text() == "Two and two."


async def test_superseded_message_is_withdrawn(browser: Any) -> None:
    class Again(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return Retry("With a full stop.") if not response.text.endswith(".") else None

    held = Held("TEXT_MESSAGE_END")
    turns = (text("Lyon", reasoning="first"), text("Nice.", reasoning="second"))
    async with chat(browser, scripted(*turns, middleware=[Again(), held])) as (page, _):
        await say(page, "A city?")
        await page.locator(".is-text", has_text="Lyon").wait_for()
        held.let()
        await finished(page)
        assert await said(page) == ["Nice."]
        assert await page.locator(".reasoning-text").all_text_contents() == ["second"]


async def test_events_of_an_app_are_shown_folded(browser: Any) -> None:
    class Tells(Middleware):
        def on_step(self, ctx: Any, info: Any) -> None:
            ctx.emit("progress", {"step": info.step})

    async with chat(browser, scripted("Done.", middleware=[Tells()])) as (page, _):
        await say(page, "Go")
        await finished(page)
        assert await page.locator(".is-note summary").inner_text() == 'progress\n{"step":0}'


async def test_usage_is_told_after_a_run(browser: Any) -> None:
    usage = Usage(input_tokens=1200, output_tokens=34, reasoning_tokens=5)
    async with chat(browser, scripted(text("Hi.", usage=usage))) as (page, _):
        await say(page, "Hi")
        line = page.locator(".is-usage")
        await line.wait_for()
        assert (await line.inner_text()).startswith("scripted · tokens: 1,200 in, 34 out, 5 for reasoning · ")


async def test_an_agent_can_be_chosen(browser: Any) -> None:
    async with chat(browser, {"guide": scripted("I guide."), "cook": scripted("I cook.")}) as (page, _):
        await page.get_by_label("Agent").select_option("cook")
        await say(page, "Who?")
        await finished(page)
        assert await said(page) == ["I cook."]
        assert await page.title() == "cook · chat"


async def test_conversations_are_listed_opened_and_deleted(browser: Any) -> None:
    async with chat(browser, scripted("first answer", "second answer")) as (page, _):
        await say(page, "about trains")
        await finished(page)
        await page.get_by_role("button", name="New conversation").first.click()
        assert await said(page) == []
        await say(page, "about boats")
        await finished(page)
        assert await page.locator(".thread-title").all_inner_texts() == ["about boats", "about trains"]
        await page.get_by_role("button", name="about trains").first.click()
        assert await said(page) == ["first answer"]
        await page.reload()
        await page.get_by_text("first answer").first.wait_for()
        await page.get_by_label("Delete the conversation about trains").click()
        await page.get_by_role("button", name="Delete", exact=True).last.click()
        await page.locator(".thread", has_text="about trains").wait_for(state="detached")
        assert await page.locator(".thread-title").all_inner_texts() == ["about boats"]
        assert await said(page) == []


async def test_nothing_is_sent_while_an_answer_comes(browser: Any) -> None:
    held = Held()
    agent = scripted("One.", middleware=[held])
    async with chat(browser, agent) as (page, _):
        await say(page, "first")
        await page.locator("#link.is-running").wait_for()
        await say(page, "second")
        assert await page.input_value("#prompt") == "second"
        held.let()
        await finished(page)
        assert await page.locator(".bubble").all_inner_texts() == ["first"]
