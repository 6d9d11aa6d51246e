"""Many at once: nothing lost, nothing mixed, and nothing left behind."""

import asyncio

from bench.server import Counting, first_bytes_ms, is_whole, load, prompt, said
from tests.server.serving import served

from interpose import Agent


async def test_streams_side_by_side_are_whole() -> None:
    async with served(Agent(Counting())) as site:
        port = site.port
        marks = [f"s{n}" for n in range(100)]
        answers = await asyncio.gather(*[said(port, mark, 40, 0.005) for mark in marks])
        assert [is_whole(pieces, mark, 40) for mark, (pieces, _) in zip(marks, answers, strict=True)] == [True] * 100
        while site.runs.active:  # noqa: ASYNC110  # a run is kept for a moment after its reader has its last event
            await asyncio.sleep(0.01)
        assert site.runs.readers == 0


async def test_streams_of_a_process_of_its_own_leave_memory_flat() -> None:
    rounds = await load(60, 40, 5)
    assert rounds[-1][1] - rounds[1][1] < 15


async def test_first_byte_comes_soon() -> None:
    found = await first_bytes_ms(20)
    assert found[len(found) // 4] < 5


async def test_long_text_is_one_stream() -> None:
    async with served(Agent(Counting())) as site:
        pieces, _ = await said(site.port, "m", 5000, 0)
    assert is_whole(pieces, "m", 5000)
    assert "chunks" in prompt("m", 1, 0)
