"""The benchmark of checkpoints does the work that it measures."""

from typing import Any

import pytest
from bench.checkpoints import STEPS, cases, lines, measured

from interpose.stores import MemoryStore

CALLS = {case.what: case.calls for case in cases()}


class Counting(MemoryStore):
    """Counts the parts that are written, and the results in them."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = 0
        self.results = 0

    async def put(self, checkpoint: Any, /, **options: Any) -> None:
        self.parts += 1
        self.results += len(checkpoint.answered)
        await super().put(checkpoint, **options)


@pytest.mark.parametrize("place", range(len(CALLS)), ids=list(CALLS))
async def test_every_result_of_every_step_is_in_a_checkpoint(place: int) -> None:
    store, case = Counting(), cases()[place]
    await case.round("memory", store, 0)
    assert store.results == STEPS * case.calls
    one_by_one = case.tool == "wait"
    writes_first = bool(case.layers)
    assert store.parts == 2 + STEPS * (1 + writes_first + (case.calls if one_by_one else 1))
    assert case.best["memory"] > 0


async def test_what_a_store_adds_is_told_of_every_case() -> None:
    found = await measured({"none": None, "memory": MemoryStore(), "other": MemoryStore()}, rounds=1)
    told = lines(found, "other", has_target=True)
    assert [line.target for line in told] == [250, 250, 250, 250, 40, 40, 40, None]
