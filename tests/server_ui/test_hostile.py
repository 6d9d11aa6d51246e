"""What models, tools and users write is text on the chat page, whatever it looks like."""

import json
from typing import Any

import pytest
from tests.flow.browser import needs_browser
from tests.server_ui.talking import chat, finished, say, scripted

from interpose import Agent, Middleware, Pause, ToolCall, tool
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, text

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]

TAGS = (
    '</pre></textarea><script>document.title="owned"</script>'
    "<img src=x onerror=\"document.title='owned'\"><svg/onload=x>\"'&amp;"
)


async def untouched(page: Any) -> None:
    """The page has no element and no title of the hostile text; a script or an error would have failed the test."""
    assert await page.locator("#entries img, #entries script, #entries iframe, #entries svg:not(.icon)").count() == 0
    assert await page.title() == "guide · chat"


FRAMES = (
    "{}",
    "```html\n{}\n```",
    "`{}`",
    "# {}",
    "- {}",
    "> {}",
    "| a |\n|---|\n| {} |",
    "**{}**",
    "[{}](https://a.example/)",
)


async def test_markup_in_a_message_is_text(browser: Any) -> None:
    words = "\n\n".join(frame.format(TAGS) for frame in FRAMES)
    async with chat(browser, scripted(text(words))) as (page, _):
        await say(page, TAGS)
        await finished(page)
        told = await page.locator(".is-text").inner_text()
        assert told.count('<script>document.title="owned"</script>') == len(FRAMES)
        assert await page.locator(".bubble").inner_text() == TAGS
        await untouched(page)


NO_LINKS = (
    "[x](javascript:document.title='owned')",
    "[x](JaVaScRiPt:alert(1))",
    "[x](\tjavascript:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](data:text/html,x)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](//other.example)",
    "[x](ui/)",
    "<javascript:alert(1)>",
    "[x]( &#106;avascript:alert(1))",
    "![x](javascript:alert(1))",
    "[x](blob:x)",
)


async def test_other_links_than_those_of_the_web_stay_text(browser: Any) -> None:
    async with chat(browser, scripted(text("\n\n".join(NO_LINKS)))) as (page, _):
        await say(page, "Link?")
        await finished(page)
        assert await page.locator("#entries a").count() == 0
        assert await page.locator(".is-text p").count() == len(NO_LINKS)


async def test_links_of_the_web_open_apart_and_say_where_they_lead(browser: Any) -> None:
    words = "See https://a.example/x_(y)?q=1, [here](http://b.example/p) and [bank.example](https://evil.example/) ![p](https://c.example/p.png)"
    async with chat(browser, scripted(text(words))) as (page, _):
        await say(page, "Link?")
        await finished(page)
        links = page.locator("#entries a")
        hrefs = [await links.nth(n).get_attribute("href") for n in range(await links.count())]
        assert hrefs == [
            "https://a.example/x_(y)?q=1",
            "http://b.example/p",
            "https://evil.example/",
            "https://c.example/p.png",
        ]
        assert await links.nth(2).inner_text() == "bank.example (evil.example)"
        for n in range(4):
            assert "noopener" in await links.nth(n).get_attribute("rel")
            assert await links.nth(n).get_attribute("target") == "_blank"
        assert await page.locator("#entries img").count() == 0


async def test_hostile_calls_are_text(browser: Any) -> None:
    @tool(approval=True)
    def look(where: str) -> str:
        """Look."""
        return TAGS + where

    wrong = ToolCall(id="<b>1</b>", name="<img src=x onerror=alert(1)>", args={TAGS: TAGS})
    agent = scripted(calls(("look", {"where": TAGS}), wrong), "Done.", tools=[look], post_model_hooks=())
    async with chat(browser, agent) as (page, _):
        await say(page, "Look.")
        await page.locator(".question").wait_for()
        assert json.dumps(TAGS) in await page.locator(".question .value").inner_text()
        assert "<img src=x onerror=alert(1)>" in await page.locator(".call-name").all_inner_texts()
        await page.get_by_role("button", name="Approve").click()
        await finished(page)
        for summary in await page.locator(".call summary").all():
            await summary.click()
        assert TAGS in await page.locator(".call", has_text="look").locator(".value").last.inner_text()
        await untouched(page)


async def test_hostile_questions_events_and_errors_are_text(browser: Any) -> None:
    class Hostile(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            if ctx.answer(TAGS) is not None:
                raise RuntimeError(TAGS)
            ctx.emit(TAGS, {TAGS: TAGS})
            return Pause(TAGS, value=TAGS)

    agent = scripted("never", middleware=[Hostile()])
    async with chat(browser, agent, show_error=lambda shown: shown.text) as (page, _):
        await say(page, "Go.")
        await page.locator(".question").wait_for()
        assert await page.locator(".question h3").inner_text() == TAGS
        assert await page.locator(".question .value").inner_text() == TAGS
        assert "<script>" in await page.locator(".is-note summary").inner_text()
        await page.get_by_role("button", name="Yes").click()
        await page.locator(".is-error").wait_for()
        assert TAGS in await page.locator(".is-error p").inner_text()
        await untouched(page)


async def test_hostile_agent_names_and_titles_are_text(browser: Any) -> None:
    agent: Agent[Any] = Agent(ScriptedModel("Hi."), store=MemoryStore())
    names = {"<img src=x onerror=alert(1)>": agent, "é & <b>ü</b>?#%": scripted("Here.")}
    names = {name.replace("/", ""): one for name, one in names.items()}
    async with chat(browser, names) as (page, _):
        await page.get_by_label("Agent").select_option("é & <b>ü<b>?#%")
        await say(page, TAGS)
        await finished(page)
        assert await page.locator(".is-text h3").inner_text() == "é & <b>ü<b>?#%"
        assert "<script>" in await page.locator(".thread-title").inner_text()
        assert await page.locator("img").count() == 0


async def test_hidden_characters_can_be_seen(browser: Any) -> None:
    async with chat(browser, scripted(text("safe \u202egnp.exe\x07 end"))) as (page, _):
        await say(page, "Name?")
        await finished(page)
        assert await page.locator(".is-text p").inner_text() == "safe ⟨U+202E⟩gnp.exe␇ end"


PIECES = [
    "`",
    "*a",
    "**",
    "[",
    "[a](",
    "](",
    "_a_",
    ">",
    "-",
    "~~~",
    "http://a",
    "\\",
    "#",
    "(",
    "```",
    "1.",
    "*_",
    "~~a",
    "|",
    "|-",
    "[a](b",
]
PIECES += ["a\n", "> a\n", "  - ", "- a\n", "a|b\n", "\n|-|\n", "a\n\n"]


async def test_hostile_markdown_does_not_hold_the_page_up(browser: Any) -> None:
    async with chat(browser, scripted("Hi.")) as (page, _):
        for piece in PIECES:
            took = await page.evaluate(
                """async (text) => {
                    const { markdown } = await import("./static/markdown.js");
                    const began = performance.now();
                    markdown(text);
                    return performance.now() - began;
                }""",
                piece * (60_000 // len(piece)),
            )
            assert took < 2500, piece  # some 100 ms on a quiet machine; what is not linear takes far longer


async def test_nothing_but_the_server_can_be_reached_from_the_page(browser: Any) -> None:
    async with chat(browser, scripted("Hi.")) as (page, _):
        blocked = await page.evaluate(
            """async () => {
                const inline = document.createElement("script");
                inline.textContent = "document.title = 'owned'";
                document.body.append(inline);
                return fetch("http://127.0.0.1:9/").then(() => "reached", (error) => error.name);
            }"""
        )
        assert blocked == "TypeError"
        assert await page.title() == "guide · chat"
        assert any("Content Security Policy" in line for line in page.said)
        page.said.clear()
