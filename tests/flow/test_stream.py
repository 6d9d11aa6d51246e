"""Server-sent events: a snapshot first, then what changes; nothing is missed, and nobody is waited for."""

import asyncio
import json
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest
from tests.flow.client import Frame, page
from tests.flow.nodes import Told, tell_guide, tell_long_run

from interpose.flow import Flow
from interpose.flow.history import RECENT, History
from interpose.flow.stream import Bell, changes


def told_by(flow: Flow, run_id: str = "run_1") -> Told:
    return Told(lambda node: flow.on_node(None, node), run_id)  # type: ignore[arg-type]  # the node says all


def seqs_of(frames: list[Frame], run: str = "run_1") -> list[int]:
    """The numbers of the events of a run that frames told, in order."""
    seqs: list[int] = []
    for frame in frames:
        events = frame.data["events"] if frame.name == "snapshot" else [frame.data] if frame.name == "event" else []
        seqs += [event["seq"] for event in events if event["run"] == run]
    return seqs


async def test_page_that_comes_in_the_middle_of_a_run_gets_a_snapshot_first(flow: Flow) -> None:
    tell_guide(told_by(flow), until=1)
    async with page(flow.port) as stream:
        first = await stream.frame()
    assert first.name == "snapshot"
    assert ([run["id"] for run in first.data["runs"]], first.data["current"]) == (["run_1"], "run_1")
    assert seqs_of([first]) == list(range(len(first.data["events"])))


async def test_snapshot_of_nothing_is_one_too(flow: Flow) -> None:
    async with page(flow.port) as stream:
        assert (await stream.frame()).data == {"runs": [], "current": None, "events": []}


async def test_current_run_is_the_newest_that_goes_on(flow: Flow) -> None:
    told_by(flow, "going").start("run", "a")
    tell_guide(told_by(flow, "ended"))
    async with page(flow.port) as stream:
        assert (await stream.frame()).data["current"] == "going"


async def test_runs_and_events_come_as_they_happen(flow: Flow) -> None:
    async with page(flow.port) as stream:
        await stream.frame()
        told = told_by(flow)
        run = told.start("run", "scout")
        begun = await stream.until("event")
        told.end(run)
        ended = await stream.until("run")
    assert ([frame.name for frame in begun], [frame.name for frame in ended]) == (["run", "event"], ["event", "run"])
    assert (ended[-1].data["status"], ended[-1].data["id"]) == ("ok", "run_1")
    assert begun[-1].data["phase"] == "start"


async def test_every_frame_has_an_id_of_its_own(flow: Flow) -> None:
    async with page(flow.port) as stream:
        tell_guide(told_by(flow))
        frames = [await stream.frame()]
        while seqs_of(frames) != list(range(38)):
            frames.append(await stream.frame())
    ids = [frame.id for frame in frames]
    assert None not in ids
    assert len(set(ids)) == len(ids)


async def test_page_that_comes_back_misses_nothing_of_any_run(flow: Flow) -> None:
    a, b = told_by(flow, "a"), told_by(flow, "b")
    runs = {told: told.start("run", "one") for told in (a, b)}
    seen: list[Frame] = []
    async with page(flow.port) as stream:
        seen.append(await stream.frame())
        a.whole("step", "step-0", runs[a])
        b.whole("step", "step-0", runs[b])
        seen += await stream.until("event", 4)
        last = stream.last_id
    for told in (a, b):
        told.whole("step", "step-1", runs[told])
    async with page(flow.port, last) as stream:
        again = [await stream.frame()]
        for told in (a, b):
            told.whole("step", "step-2", runs[told])
        again += await stream.until("event", 6)
    assert again[0].name == "snapshot"
    for run in ("a", "b"):
        known = set(seqs_of(seen, run)) | ({0} if run == "a" else set())
        assert known | set(seqs_of(again, run)) == set(range(7))
        assert len(seqs_of(again, run)) == len(set(seqs_of(again, run))), "nothing is told twice"


async def test_page_whose_connection_breaks_again_while_it_is_told_what_it_missed_still_misses_nothing(
    flow: Flow,
) -> None:
    a, b = told_by(flow, "a"), told_by(flow, "b")
    a.start("run", "one")
    b.start("run", "two")
    async with page(flow.port) as stream:
        await stream.frame()
        last = stream.last_id
    a.whole("step", "step-0", None)
    async with page(flow.port, last) as stream:
        snapshot = await stream.frame()
        assert (snapshot.data["current"], snapshot.id) == ("b", None)
        assert stream.last_id is None, "it has not been told all yet"
    async with page(flow.port, last) as stream:
        await stream.frame()
        assert seqs_of(await stream.until("event", 2), "a") == [1, 2]


@pytest.mark.parametrize("last", ["", "nonsense", "00000000-3", "-1", "-", "\xb2", "x" * 500])
async def test_page_with_an_id_of_another_process_or_of_nobody_gets_a_snapshot(flow: Flow, last: str) -> None:
    tell_guide(told_by(flow))
    async with page(flow.port, last) as stream:
        assert len(seqs_of([await stream.frame()])) == 38


async def test_page_with_an_id_from_the_future_gets_a_snapshot_and_goes_on(flow: Flow) -> None:
    async with page(flow.port) as stream:
        await stream.frame()
        boot = str(stream.last_id).partition("-")[0]
    async with page(flow.port, f"{boot}-999999") as stream:
        assert (await stream.frame()).name == "snapshot"
        tell_guide(told_by(flow))
        assert seqs_of(await stream.until("event", 38)) == list(range(38))


async def test_page_that_was_away_for_long_gets_a_snapshot(flow: Flow) -> None:
    async with page(flow.port) as stream:
        await stream.frame()
        last = stream.last_id
    tell_long_run(told_by(flow), RECENT)
    async with page(flow.port, last) as stream:
        assert seqs_of([await stream.frame()]) == list(range(2 * RECENT))


async def test_page_that_dies_is_not_noticed_by_the_run(flow: Flow) -> None:
    told = told_by(flow)
    async with AsyncExitStack() as stack:
        for _ in range(5):
            stream = await stack.enter_async_context(page(flow.port))
            await stream.frame()
            stream.writer.transport.abort()
        tell_long_run(told, 300)
        await asyncio.sleep(0.1)
    async with page(flow.port) as stream:
        assert (await stream.frame()).data["runs"][0]["status"] == "ok"


async def test_page_that_does_not_read_costs_no_memory_and_is_told_all_once_it_reads(flow: Flow) -> None:
    told = told_by(flow)
    async with page(flow.port) as slow:
        await slow.frame()
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport can read
        for _ in range(6):
            tell_long_run(told, 1000, content="x" * 150)
            await asyncio.sleep(0.05)
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a socket's transport can read
        seen = 0
        while seen < 12_000:
            frame = await slow.frame()
            seqs = seqs_of([frame])
            assert frame.name != "event" or seqs[0] <= seen, "an event was passed over"
            seen = max(seen, *(seq + 1 for seq in seqs), 0)
    assert seen == 12_000


async def test_page_is_told_which_run_is_given_up() -> None:
    flow = Flow(port=0, max_runs=1)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    tell_guide(told_by(flow, "a"))
    async with page(flow.port) as stream:
        await stream.frame()
        told_by(flow, "b").start("run", "next")
        frames = await stream.until("gone")
    assert frames[-1].data == {"id": "a"}
    await flow.close()


async def test_silence_is_broken_by_a_comment() -> None:
    history, bell = History(20), Bell()
    async with aclosing(changes(history, bell, None, heartbeat_s=0.01)) as stream:  # type: ignore[type-var]  # closes
        chunks = [await anext(stream) for _ in range(3)]
    assert chunks[0].startswith(b"retry: ")
    assert chunks[1:] == [b": still here\n\n"] * 2
    assert bell.listeners == 0


async def test_event_told_in_another_thread_wakes_the_pages(flow: Flow) -> None:
    async with page(flow.port) as stream:
        await stream.frame()
        await asyncio.to_thread(tell_guide, told_by(flow))
        assert seqs_of(await stream.until("event", 38)) == list(range(38))


async def test_threads_that_tell_at_once_lose_nothing(flow: Flow) -> None:
    async with page(flow.port) as stream:
        await stream.frame()
        tolds = [told_by(flow, f"run {number}") for number in range(4)]
        await asyncio.gather(*(asyncio.to_thread(tell_long_run, told, 200) for told in tolds))
        frames = await stream.until("event", 1600)
    for told in tolds:
        assert seqs_of(frames, told.run_id) == list(range(400))


async def test_too_many_pages_are_refused_and_one_that_leaves_makes_room(flow: Flow) -> None:
    from tests.flow.client import ask

    async with AsyncExitStack() as stack:
        for _ in range(64):
            await (await stack.enter_async_context(page(flow.port))).frame()
        assert (await ask(flow.port, "/api/events")).status == 503
        assert (await ask(flow.port, "/api/runs")).status == 200
    async with asyncio.timeout(5):
        while True:
            try:
                async with page(flow.port) as stream:
                    assert (await stream.frame()).name == "snapshot"
                    break
            except AssertionError:
                await asyncio.sleep(0.02)


async def test_closing_ends_the_streams_at_once() -> None:
    flow = Flow(port=0)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    async with page(flow.port) as stream:
        await stream.frame()
        async with asyncio.timeout(0.9):
            await flow.close()
        with pytest.raises((EOFError, ValueError)):
            await stream.frame()


async def test_frames_are_json_on_one_line(flow: Flow) -> None:
    told = told_by(flow)
    async with page(flow.port) as stream:
        await stream.block()
        told.whole("tool", "two\nlines\r\n\x85\u2028", None, out="a\n\nb: c\r\nevent: x")
        blocks: list[Any] = [await stream.block() for _ in range(3)]
    assert [len(block.split(b"\n")) for block in blocks] == [3, 3, 3]
    assert json.loads(blocks[-1].split(b"\n")[2][6:])["content"]["out"] == "a\n\nb: c\r\nevent: x"
