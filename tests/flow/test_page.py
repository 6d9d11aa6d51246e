"""The page as a person meets it, in a real browser."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
import pytest_asyncio
from tests.flow.browser import launched, needs_browser, opened
from tests.flow.nodes import Told, tell_guide

from interpose.flow import Flow

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = '</pre><script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">"\'&amp;\u202e'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    """One browser for all tests here; each has a context of its own."""
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def flow() -> AsyncIterator[Flow]:
    flow = Flow(port=0)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    yield flow
    await flow.close()


def told_by(flow: Flow, run_id: str = "run_1", **options: Any) -> Told:
    return Told(lambda node: flow.on_node(None, node), run_id, **options)  # type: ignore[arg-type]  # the node says all


async def texts(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in await page.locator(selector).all_inner_texts()]


async def test_run_is_followed_live(browser: Any, flow: Flow) -> None:
    async with opened(browser, flow.url) as page:
        await page.get_by_text("No runs yet").wait_for()
        told = told_by(flow)
        run = told.start("run", "scout")
        await page.locator(".run.is-running", has_text="scout").wait_for()
        step = told.start("step", "step-0", run)
        tool = told.start("tool", "look around", step)
        card = page.locator(".card.kind-tool")
        await page.locator(".card.kind-tool.is-running.is-selected", has_text="look around").wait_for()
        assert await page.locator("#details .state").inner_text() == "running"
        told.now_ms += 1234
        told.end(tool, "a door", given={"args": {"where": "left"}})
        await page.locator("#details", has_text="a door").wait_for()
        assert "1.23 s" in await card.inner_text()
        told.end(step)
        told.end(run, outcome="finished")
        await page.locator(".run.is-ok", has_text="scout").wait_for()
        assert await page.locator(".run-head .state").inner_text() == "finished"


async def test_next_run_is_followed_when_the_shown_one_is_over(browser: Any, flow: Flow) -> None:
    tell_guide(told_by(flow, "a"))
    async with opened(browser, flow.url) as page:
        await page.locator(".run-head h1", has_text="city guide").wait_for()
        told_by(flow, "b").start("run", "second")
        await page.locator(".run-head h1", has_text="second").wait_for()


async def test_run_that_a_person_chose_stays(browser: Any, flow: Flow) -> None:
    for name in ("a", "b"):
        told = told_by(flow, name)
        told.end(told.start("run", f"agent {name}"))
    async with opened(browser, flow.url) as page:
        await page.locator(".run", has_text="agent a").click()
        told_by(flow, "c").start("run", "agent c")
        await page.locator(".run", has_text="agent c").wait_for()
        await page.wait_for_timeout(150)
        assert await page.locator(".run-head h1").inner_text() == "agent a"
        assert page.url.endswith("#a")


async def test_address_names_a_run(browser: Any, flow: Flow) -> None:
    for name in ("a/ö", "b"):
        told = told_by(flow, name)
        told.end(told.start("run", f"agent {name}"))
    async with opened(browser, f"{flow.url}#a%2F%C3%B6") as page:
        await page.locator(".run-head h1", has_text="agent a/ö").wait_for()


async def test_two_runs_at_once_are_kept_apart(browser: Any, flow: Flow) -> None:
    tolds = [told_by(flow, name) for name in ("a", "b")]
    runs = [told.start("run", f"agent {told.run_id}") for told in tolds]
    async with opened(browser, flow.url) as page:
        await page.locator(".run").nth(1).wait_for()
        for number in range(30):
            for told, run in zip(tolds, runs, strict=True):
                told.whole("tool", f"{told.run_id} {number}", run)
        for name in ("a", "b"):
            await page.locator(".run", has_text=f"agent {name}").click()
            await page.locator(".figures", has_text="31 nodes").wait_for()
            names = await texts(page, "#time .row-text")
            assert len(names) > 5
            assert {text.split()[0] for text in names[1:]} == {name}


@pytest.mark.parametrize("where", ["name", "content", "message", "error", "meta", "change", "run id"])
async def test_hostile_text_is_shown_as_text(browser: Any, flow: Flow, where: str) -> None:
    told = told_by(flow, HOSTILE if where == "run id" else "run_1")
    run = told.start("run", HOSTILE if where == "name" else "scout")
    fields: dict[str, Any] = {
        "content": {"out": {HOSTILE: [HOSTILE]}},
        "message": {"given": {"messages": [{"role": HOSTILE, "text": HOSTILE, "tool_calls": [{"name": HOSTILE}]}]}},
        "error": {"error": HOSTILE},
        "meta": {"meta": {HOSTILE: HOSTILE}},
        "change": {
            "changes": [{"middleware": HOSTILE, "hook": HOSTILE, "field": HOSTILE, "old": HOSTILE, "new": None}]
        },
    }
    kind = "model" if where == "message" else "tool"
    told.whole(kind, HOSTILE if where == "name" else "look", run, **fields.get(where, {"out": "x"}))
    async with opened(browser, flow.url) as page:
        await page.locator(f".card.kind-{kind}").click()
        await page.locator("#details .details-head").wait_for()
        if where in fields:
            await page.locator("#details", has_text="<script>document.title").first.wait_for()
        await page.wait_for_timeout(100)
        assert await page.title() != "owned"
        assert await page.locator("img, main script, pre script").count() == 0
        assert "\u202e" not in await page.locator("body").inner_text(), "nothing turns the text around unseen"


async def test_details_say_what_went_in_what_came_out_and_who_changed_it(browser: Any, flow: Flow) -> None:
    tell_guide(told_by(flow))
    async with opened(browser, flow.url) as page:
        await page.locator(".card.kind-model").nth(1).click()
        details = page.locator("#details")
        await details.locator(".change", has_text="HideBrokenTools").wait_for()
        assert await texts(page, "#details .was li") == ["population", "weather", "research", "search"]
        assert await texts(page, "#details .is li") == ["population", "research", "search"]
        said = await details.inner_text()
        for word in ("Compare Lyon and Nice", "1,710 in, 90 out", "openai", "810 ms", "step-1", "research"):
            assert word in said
        await details.get_by_role("button", name="step-1").click()
        await page.locator("#details h2", has_text="step-1").wait_for()


async def test_search_finds_names_and_content_and_enter_goes_through_them(browser: Any, flow: Flow) -> None:
    tell_guide(told_by(flow))
    async with opened(browser, flow.url) as page:
        await page.locator(".card").nth(3).wait_for()
        await page.keyboard.press("/")
        await page.keyboard.type("Matisse")
        await page.locator("#found", has_text="2").wait_for()
        assert await page.locator(".card.is-dim").count() > 3
        seen = []
        for name in ("research", "researcher", "research"):
            await page.keyboard.press("Enter")
            await page.locator("#details h2").get_by_text(name, exact=True).wait_for()
            seen.append(await page.locator("#found").inner_text())
        assert seen == ["1 of 2", "2 of 2", "1 of 2"]
        await page.keyboard.press("Escape")
        await page.locator(".card:not(.is-dim)").first.wait_for()
        assert await page.locator(".is-dim").count() == 0


async def test_keys_move_fold_and_switch(browser: Any, flow: Flow) -> None:
    tell_guide(told_by(flow, "older"))
    tell_guide(told_by(flow, "newer"))
    async with opened(browser, flow.url) as page:
        title = page.locator("#details h2")

        async def at(name: str) -> None:
            await page.locator("#details h2", has_text=name).wait_for()

        async def press(*keys: str) -> None:
            for key in keys:
                await page.keyboard.press(key)

        await at("city guide")
        await press("j", "ArrowDown")
        await at("gpt-5.5")
        await press("ArrowUp")
        await at("step-0")
        rows = await page.locator("#time .row").count()
        await press("ArrowLeft")
        await page.wait_for_function(f"document.querySelectorAll('#time .row').length < {rows}")
        await press("ArrowRight", "ArrowRight")
        await at("gpt-5.5")
        await press("e")
        await at("weather")
        await press("Home")
        await at("city guide")
        await press("End")
        await at("gpt-5.5")
        await press("2")
        assert not await page.locator("#time").is_visible()
        await press("3")
        assert not await page.locator("#graph").is_visible()
        await press("1", "]")
        await page.wait_for_function("location.hash === '#older'")
        await press("f")
        assert await page.locator("#follow").get_attribute("aria-pressed") == "true"
        await press("?")
        await page.locator("dialog[open]").wait_for()
        await press("Escape")
        await page.locator("dialog[open]").wait_for(state="detached")
        await press("Enter")
        assert await page.evaluate("document.activeElement.id") == "details"
        assert await title.is_visible()


async def test_error_before_the_chosen_node_is_found_backwards(browser: Any, flow: Flow) -> None:
    told = told_by(flow)
    run = told.start("run", "scout")
    for number in range(4):
        told.whole("tool", f"tool {number}", run, error="x" if number in (1, 3) else None)
    async with opened(browser, flow.url) as page:
        await page.locator(".card").nth(4).wait_for()
        for keys, name in ((["End", "E"], "tool 1"), (["E"], "tool 3"), (["e"], "tool 1")):
            for key in keys:
                await page.keyboard.press(key)
            await page.locator("#details h2", has_text=name).wait_for()


async def test_theme_is_that_of_the_system_until_one_is_chosen(browser: Any, flow: Flow) -> None:
    async with opened(browser, flow.url, scheme="light") as page:
        colour = "getComputedStyle(document.body).backgroundColor"
        light = await page.evaluate(colour)
        await page.emulate_media(color_scheme="dark")
        dark = await page.evaluate(colour)
        assert light != dark
        await page.keyboard.press("t")
        assert await page.evaluate(colour) == light
        await page.reload()
        assert await page.evaluate(colour) == light


async def test_phone_shows_one_part_at_a_time_and_nothing_is_wider_than_it(browser: Any, flow: Flow) -> None:
    tell_guide(told_by(flow))
    async with opened(browser, flow.url, width=390, height=844) as page:
        await page.locator(".card.is-error").click()
        await page.locator("#details", has_text="did not answer").wait_for()
        for name, shown in (("runs", "#runs"), ("graph", "#graph"), ("time", "#time"), ("details", "#details")):
            await page.locator(f"[data-pane-to={name}]").click()
            visible = [
                part for part in ("#runs", "#graph", "#time", "#details") if await page.locator(part).is_visible()
            ]
            assert visible == [shown]
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
        await page.locator("[data-pane-to=runs]").click()
        await page.locator(".run").click()
        assert await page.locator("#graph").is_visible()


async def test_page_says_that_the_app_is_away_and_goes_on_when_it_is_back(browser: Any) -> None:
    flow = Flow(port=0)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    again = Flow(port=flow.port)
    told = told_by(flow, "before")
    told.end(told.start("run", "before"))
    async with opened(browser, flow.url) as page:
        await page.locator("#link.is-live").wait_for()
        await flow.close()
        await page.locator("#link.is-lost").wait_for()
        assert await page.locator(".run", has_text="before").is_visible(), "what was seen stays"
        await again.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
        told_by(again, "after").start("run", "after")
        await page.locator("#link.is-live").wait_for()
        await page.locator(".run", has_text="after").wait_for()
        assert await page.locator(".run.is-gone", has_text="before").is_visible()
        page.said.clear()  # the browser writes of lost connections itself
        await again.close()


async def test_page_whose_connection_breaks_misses_nothing_of_any_run(browser: Any, flow: Flow) -> None:
    """The connection is cut below the page, while two runs go on of which one is not shown."""
    a, b = told_by(flow, "a"), told_by(flow, "b")
    runs = {told: told.start("run", f"agent {told.run_id}") for told in (a, b)}
    async with Cut(flow.port) as cut, opened(browser, f"http://127.0.0.1:{cut.port}/") as page:
        for name in ("a", "b"):
            await page.locator(".run", has_text=f"agent {name}").click()
            await page.locator(".card.kind-run").wait_for()
        for number in range(200):
            if number in (40, 120):
                cut.cut()
            for told, run in runs.items():
                told.whole("tool", f"tool {number}", run)
            await asyncio.sleep(0.005)
        for name in ("a", "b"):
            await page.locator(".run", has_text=f"agent {name}").click()
            await page.locator(".figures", has_text="201 nodes").wait_for()
            await page.locator("#time").focus()
            await page.keyboard.press("End")
            await page.locator("#details h2", has_text="tool 199").wait_for()
            height = await page.evaluate("document.querySelector('#time .sizer').offsetHeight")
            assert height == 201 * 28, "every node has a row"
        assert cut.times == 2
        page.said.clear()  # the browser writes of lost connections itself


async def test_answer_that_comes_later_than_the_stream_loses_nothing(browser: Any, flow: Flow) -> None:
    """The events of a run are asked for when it is opened; the stream may be quicker than that answer."""

    async def late(route: Any) -> None:
        answer = await route.fetch()
        await asyncio.sleep(0.4)
        await route.fulfill(response=answer)

    async with opened(browser, flow.url) as page:
        await page.locator("#link.is-live").wait_for()
        await page.route("**/api/runs/**", late)
        async with page.expect_request("**/api/runs/**"):
            told = told_by(flow)
            run = told.start("run", "scout")
        await asyncio.sleep(0.2)
        told.whole("tool", "look", run)
        told.start("tool", "wait", run)
        await page.locator(".card", has_text="wait").wait_for()
        await page.locator(".figures", has_text="3 nodes").wait_for()


class Cut:
    """A relay in front of the page's server whose connections can be cut."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.times = 0
        self.writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self.relay, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def cut(self) -> None:
        self.times += 1
        for writer in self.writers:
            writer.transport.abort()

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.to)
        self.writers |= {writer, back}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.pipe(reader, back))
                group.create_task(self.pipe(there, writer))
        finally:
            self.writers -= {writer, back}

    async def pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def __aexit__(self, *failure: object) -> None:
        self.server.close()
        self.cut()
        await asyncio.sleep(0.05)


FRAMES = """() => {
  window.frames = []; window.tasks = [];
  new PerformanceObserver((list) => { for (const one of list.getEntries()) window.tasks.push(one.duration); })
    .observe({ entryTypes: ["longtask"] });
  let before = performance.now();
  const tick = (now) => { window.frames.push(now - before); before = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


class Meter:
    """What a page's main thread does: CPU time, which other programs do not change, beside the times that are seen."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.before = 0.0

    async def begin(self) -> None:
        self.session = await self.page.context.new_cdp_session(self.page)
        await self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        await self.page.evaluate(FRAMES)
        await self.read()

    async def read(self) -> dict[str, float]:
        """Return what was measured since the last time: CPU in ms, frames, and times between frames and of tasks."""
        metrics = (await self.session.send("Performance.getMetrics"))["metrics"]
        now = next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration") * 1000
        cpu, self.before = now - self.before, now
        seen = await self.page.evaluate(
            """() => {
              const frames = window.frames.splice(0).sort((a, b) => a - b);
              const tasks = window.tasks.splice(0);
              const p95 = frames[Math.floor(frames.length * 0.95)];
              return { frames: frames.length, p50: frames[frames.length >> 1], p95, longest: Math.max(0, ...tasks) };
            }"""
        )
        return {"cpu": cpu, **seen}


@pytest.mark.timeout(120)
async def test_two_thousand_nodes_stay_smooth(browser: Any, flow: Flow) -> None:
    told = told_by(flow)
    async with opened(browser, flow.url) as page:
        await page.locator("#link.is-live").wait_for()
        meter = Meter(page)
        await meter.begin()
        run = told.start("run", "long one")
        for number in range(500):
            step = told.start("step", f"step-{number}", run)
            told.whole("model", "gpt-5.5", step, 8, given={"messages": []}, out={"text": "x" * 300})
            for tool in range(2):
                told.whole("tool", f"look {tool}", step, 3, out="y" * 200)
            told.end(step)
            await asyncio.sleep(0.005)
        await page.locator(".figures", has_text="2,001 nodes").wait_for(timeout=30_000)
        growing = await meter.read()
        for box in ("#graph", "#time"):
            await page.locator(box).hover()
            for down in (1, -1):
                for _ in range(30):
                    await page.mouse.wheel(0, down * 900)
                    await page.wait_for_timeout(16)
        scrolling = await meter.read()
        in_document = await page.locator(".card, .band, .row").count()
    print("\n", growing, scrolling, in_document)  # noqa: T201  # for who runs it with -s
    assert in_document < 250, "only what can be seen is in the document"
    assert growing["cpu"] < 2 * 2001, "less than 2 ms of work a node"
    assert scrolling["cpu"] / scrolling["frames"] < 16, "60 frames a second"
