"""The pages in a real browser: readable, quick with many nodes, usable by keyboard, and deaf to hostile text."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.flow.browser import launched, needs_browser, opened
from tests.layers.play import agent_of, echo

from interpose import Limits, Middleware, Usage
from interpose.report import Report
from interpose.testing import calls, text

pytestmark = needs_browser
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
USED = Usage(input_tokens=1200, output_tokens=30, cost_usd=0.01)


class Hides(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request.without_tools("spare"))


async def spare() -> str:
    """Never used."""
    return ""


async def fails(why: str) -> str:
    """Fail."""
    raise OSError(why)


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    async with launched() as browser:
        yield browser


async def reported(folder: Path, *turns: Any, **options: Any) -> str:
    """Run and return the address of the run's page."""
    tools = [echo, spare, fails]
    agent = agent_of(*turns, tools=tools, middleware=[Report(folder), Hides()], name="scout", **options)
    result = await agent.run("Look around.")
    return (folder / result.run_id / "index.html").as_uri()


async def test_page_shows_the_tree_and_the_details_of_a_node(browser: Any, tmp_path: Path) -> None:
    url = await reported(tmp_path, calls(("echo", {"x": "hello"}), usage=USED), text("There.", usage=USED))
    async with opened(browser, url) as page:
        assert await page.locator(".row .name").all_inner_texts() == [
            "scout", "step 0", "scripted", "echo", "step 1", "scripted",
        ]  # fmt: skip
        assert await page.locator(".card b").all_inner_texts() != []
        await page.get_by_role("treeitem").filter(has_text="echo").click()
        assert "hello" in await page.locator(".details").inner_text()
        await page.locator(".row.model").first.click()
        details = await page.locator(".details").inner_text()
        assert "Hides.wrap_model_call changed tools" in details
        assert "spare" in details
        await page.get_by_role("tab", name="Steps").click()
        assert "2,400" in await page.locator("tfoot").inner_text()
        await page.get_by_role("tab", name="Conversation").click()
        assert "There." in await page.locator(".talk").inner_text()


async def test_page_opens_at_the_node_that_failed(browser: Any, tmp_path: Path) -> None:
    url = await reported(tmp_path, calls(("fails", {"why": "no disk"})), text("x"))
    async with opened(browser, url) as page:
        assert "no disk" in await page.locator(".details").inner_text()
        assert await page.locator("[aria-selected=true].row .name").inner_text() == "fails"


async def test_hostile_text_is_shown_as_text(browser: Any, tmp_path: Path) -> None:
    url = await reported(tmp_path, calls(("fails", {"why": HOSTILE}), text=HOSTILE), text(HOSTILE))
    async with opened(browser, url) as page:
        for row in await page.locator(".row").all():
            await row.click()
        assert HOSTILE in await page.locator(".details").inner_text()
        assert "taken" not in await page.title()
        assert await page.locator("img").count() == 0
    async with opened(browser, (tmp_path / "index.html").as_uri()) as page:
        assert await page.locator("tbody tr").count() == 1


async def test_keys_move_fold_and_find(browser: Any, tmp_path: Path) -> None:
    url = await reported(tmp_path, calls(("echo", {"x": "needle"})), text("There."))
    async with opened(browser, url) as page:
        chosen = page.locator("[aria-selected=true].row .name")
        await page.keyboard.press("ArrowDown")
        assert await chosen.inner_text() == "step 0"
        await page.keyboard.press("ArrowLeft")
        assert await page.locator(".row:visible").count() == 4
        await page.keyboard.press("ArrowRight")
        assert await page.locator(".row:visible").count() == 6
        await page.keyboard.press("/")
        await page.keyboard.type("needle")
        shown = await page.locator(".row:visible .name").all_inner_texts()
        assert shown == ["scout", "step 0", "scripted", "echo", "step 1", "scripted"]
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        await page.keyboard.type("step 1")
        assert await page.locator(".row:visible .name").all_inner_texts() == ["scout", "step 1"]


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1440, "light")])
async def test_page_fits_its_window(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    url = await reported(tmp_path, calls(("echo", {"x": "y" * 500})), text("z" * 500))
    for address in (url, (tmp_path / "index.html").as_uri()):
        async with opened(browser, address, width=width, scheme=scheme) as page:
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
    async with opened(browser, url, width=390) as page:
        await page.locator(".row.tool").click()
        assert await page.get_by_role("button", name="back").is_visible()
        await page.get_by_role("button", name="back").click()
        assert not await page.get_by_role("button", name="back").is_visible()


async def test_index_keeps_all_columns_where_a_name_is_long_and_without_a_break(browser: Any, tmp_path: Path) -> None:
    await agent_of(text("x"), middleware=[Report(tmp_path)], name="n" * 150).run("go")
    page = await browser.new_page(viewport={"width": 1100, "height": 500})
    await page.goto((tmp_path / "index.html").as_uri())
    last = await page.locator("th").last.bounding_box()
    assert last["x"] + last["width"] <= 1100


async def test_thousand_nodes_open_soon(browser: Any, tmp_path: Path) -> None:
    turns = [calls(("echo", {"x": f"call {n}"}), text="I look. " * 5, usage=USED) for n in range(333)]
    url = await reported(tmp_path, *turns, text("Done."), limits=Limits(max_steps=None))
    took = []
    for _ in range(3):
        async with opened(browser, url) as page:
            await page.locator(".row").first.wait_for()
            assert await page.locator(".row").count() == 1002
            took.append(await page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))
    assert min(took) < 3000  # under one second on a machine that does nothing else
