"""How the page shows what a middleware changed in a text."""

from typing import Any

import pytest
from tests.flow.browser import launched, needs_browser, opened
from tests.flow.nodes import Told

from interpose.flow import Flow

pytestmark = needs_browser
TEXT = "You plan trips.\nBe brief.\nAnswer in French.\nThank you."


@pytest.mark.parametrize(
    ("new", "gone", "come", "same"),
    [
        (f"{TEXT}\nBe kind.", [], ["Be kind."], ["…\nAnswer in French.\nThank you."]),
        (TEXT.replace("French", "Dutch"), ["Answer in French."], ["Answer in Dutch."],
         ["You plan trips.\nBe brief.", "Thank you."]),
        ("You plan trips.\nThank you.", ["Be brief.\nAnswer in French."], [], ["You plan trips.", "Thank you."]),
    ],
    ids=["added", "replaced", "removed"],
)  # fmt: skip
async def test_lines_that_changed_are_marked_alone(new: str, gone: list[str], come: list[str], same: list[str]) -> None:
    flow = Flow(port=0)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    told = Told(lambda node: flow.on_node(None, node), "run_1")  # type: ignore[arg-type]  # the node says all
    run = told.start("run", "scout")
    change = {"middleware": "Adds", "hook": "before_model_call", "field": "instructions", "old": TEXT, "new": new}
    told.end(run, outcome="finished", changes=[change])
    try:
        async with launched() as browser, opened(browser, flow.url) as page:
            await page.locator("#details .change").wait_for()

            async def shown(kind: str) -> list[Any]:
                return [str(one) for one in await page.locator(f"#details .{kind} pre").all_text_contents()]

            assert (await shown("was"), await shown("is"), await shown("same")) == (gone, come, same)
    finally:
        await flow.close()


async def test_attachments_are_lines_and_shown_as_text() -> None:
    flow = Flow(port=0)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    told = Told(lambda node: flow.on_node(None, node), "run_1")  # type: ignore[arg-type]  # the node says all
    run = told.start("run", "scout")
    parts = [
        {"type": "image", "media_type": "image/png", "size_bytes": 6309},
        {"type": "file", "media_type": "application/pdf", "name": "<b>plan</b>\u202e.pdf"},
        {"odd": 1},
    ]
    told.whole("model", "m", run, given={"messages": [{"role": "user", "text": "Look.", "parts": parts}]})
    try:
        async with launched() as browser, opened(browser, flow.url) as page:
            await page.locator(".card.kind-model").click()
            shown = await page.locator("#details .attached").all_text_contents()
            assert shown[0] == "image image/png · 6.3 kB"
            assert shown[1].startswith("file <b>plan</b>")
            assert "\u202e" not in shown[1]
            assert "odd" in await page.locator("#details .message").first.inner_text()
    finally:
        await flow.close()
