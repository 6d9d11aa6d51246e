"""The page of a run, read closely: round times on its axis, the lines that changed, attachments as such."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.flow.browser import launched, needs_browser, opened
from tests.layers.play import agent_of

from interpose import FilePart, ImagePart, Middleware, TextPart, UserMessage
from interpose.report import Report
from interpose.testing import FakeClock, text

pytestmark = needs_browser


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    async with launched() as browser:
        yield browser


class Adds(Middleware):
    async def before_model_call(self, ctx: Any, request: Any) -> Any:
        return request.with_instructions(request.instructions + "\nBe kind.")


class Waits(Middleware):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        await ctx.sleep(self.seconds)
        return await call_next(request)


async def page_of(browser: Any, folder: Path, *middleware: Middleware, given: Any = "go", **options: Any) -> Any:
    agent = agent_of(text("x"), middleware=[Report(folder), *middleware], **options)
    result = await agent.run(given)
    return opened(browser, (folder / result.run_id / "index.html").as_uri())


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.00038, ["0", "0.1 ms", "0.2 ms", "0.3 ms"]),
        (1.79, ["0", "500 ms", "1 s", "1.5 s"]),
        (42.0, ["0", "10 s", "20 s", "30 s", "40 s"]),
        (7000.0, ["0", "30 min", "1 h", "1 h 30 min"]),
    ],
)
async def test_axis_has_round_times_that_do_not_touch(
    browser: Any, tmp_path: Path, seconds: float, said: list[str]
) -> None:
    clock = FakeClock(auto=True)
    async with await page_of(browser, tmp_path, Waits(seconds), clock=clock) as page:
        ticks = page.locator(".axis .ticks span")
        assert await ticks.all_text_contents() == said
        boxes = [await ticks.nth(n).bounding_box() for n in range(len(said))]
        assert all(one["x"] + one["width"] < after["x"] for one, after in itertools.pairwise(boxes))


async def test_change_of_a_text_marks_the_lines_that_changed_alone(browser: Any, tmp_path: Path) -> None:
    async with await page_of(browser, tmp_path, Adds(), instructions="Plan trips.\nBe brief.") as page:
        await page.get_by_role("treeitem").nth(2).click()
        assert await page.locator(".change .delta.old").count() == 0
        assert await page.locator(".change .delta.new").all_text_contents() == ["+ Be kind."]
        assert await page.locator(".change .delta.same").all_text_contents() == ["  Plan trips.\n  Be brief."]


async def test_attachments_are_named_by_type_and_size(browser: Any, tmp_path: Path) -> None:
    parts = (
        TextPart("Look."),
        ImagePart(data="iVBORw0KGgo=" * 100, media_type="image/png"),
        FilePart(file_id="file-1", media_type="application/pdf", name="<b>plan</b>.pdf"),
    )
    async with await page_of(browser, tmp_path, given=[UserMessage(parts=parts)]) as page:
        await page.get_by_role("tab", name="Conversation").click()
        shown = await page.locator(".message.user .attached").all_text_contents()
        assert shown == ["image image/png 900 bytes", "file <b>plan</b>.pdf file-1 application/pdf"]


async def test_title_turns_no_text_around(browser: Any, tmp_path: Path) -> None:
    async with await page_of(browser, tmp_path, name="evil\u202egnp.exe\u2066\x7f") as page:
        assert (await page.title()).split(" · ")[0] == "evil\ufffdgnp.exe\ufffd\u2421"
