"""A process that measures one contestant, one round at a time, as it is told in lines of JSON on standard input.

`{"do": "prepare", "case": {…}}` proves the case with one counted run and finds how many runs make a round;
`{"do": "round"}` measures one; `{"do": "memory", "case": {…}}` measures W7 once, in a process of its own.
"""

import asyncio
import gc
import importlib
import json
import os
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from bench.cases import CHUNKS, LOOP_STEPS, TALLY, WAITING, Case, expected_text, problems, turns

Run = Callable[[], Awaitable[str]]

SLOW_S = 1.0


class Worker:
    """One contestant, and the case that it is at."""

    def __init__(self, contestant: str) -> None:
        self.contestant: Any = importlib.import_module(f"bench.{contestant}")
        self.case = Case("W1", 0)
        self.run: Run
        self.base: Run | None = None
        self.loops = 1

    async def prepare(self, case: Case, seconds: float) -> dict[str, Any]:
        """Prove that the contestant does the work of *case*, and find how many runs last *seconds*."""
        if reason := self.contestant.refuses(case):
            return {"refused": reason}
        await self._prove(case)
        self.case = case
        self.run = self.contestant.build(case)
        self.base = self.contestant.build(case.without_prior()) if case.prior else None
        once = await self._many(self.run, 1)
        if once < SLOW_S:
            once = await self._many(self.run, 1)
        if once < seconds / 20:
            once = await self._many(self.run, 5) / 5
        self.loops = max(1, int(seconds / once))
        return {"loops": self.loops, "slow": once > SLOW_S}

    async def _prove(self, case: Case) -> None:
        TALLY.reset()
        text = await self.contestant.build(case, counted=True)()
        if wrong := problems(case, text):
            raise AssertionError(f"{case.key} did not do its work: {'; '.join(wrong)}")

    async def _many(self, run: Run, loops: int) -> float:
        """Return how many seconds *loops* runs took, each checked by its text and all by their tool calls."""
        expected = expected_text(self.case)
        before = TALLY.tool_calls, TALLY.model_calls
        gc.collect()
        started = time.process_time()
        for _ in range(loops):
            if await run() != expected:
                raise AssertionError(f"{self.case.key}: a run did not answer what it should")
        took = time.process_time() - started
        self._check_counts(loops, before)
        return took

    def _check_counts(self, loops: int, before: tuple[int, int]) -> None:
        script = turns(self.case)
        calls = sum([len(turn.calls) for turn in script]) * loops
        if (TALLY.tool_calls - before[0], TALLY.model_calls - before[1]) != (calls, len(script) * loops):
            raise AssertionError(f"{self.case.key}: calls of the model or the tool are missing")

    async def round(self) -> dict[str, float]:
        """Measure one round, in CPU time of this process, so that other work on the machine counts less.

        *value* is µs a run, for W4 µs a chunk; *base*, where there are prior messages, is the same run without them.
        """
        if self.case.workload == "W5-loop":
            return await self._loop_round()
        per_run = 1e6 / self.loops
        took = await self._many(self.run, self.loops) * per_run
        if self.base is not None:
            return {"value": took, "base": await self._many(self.base, self.loops) * per_run}
        return {"value": took / CHUNKS if self.case.workload == "W4" else took}

    async def _loop_round(self) -> dict[str, float]:
        """Measure whole runs, in ms, and how much longer a late step takes than an early one."""
        ratios, times = [], []
        for _ in range(self.loops):
            TALLY.stamps = []
            times.append(await self._many(self.run, 1) * 1e3)
            steps = [after - before for before, after in zip(TALLY.stamps, TALLY.stamps[1:], strict=False)]
            early, late = steps[5:25], steps[LOOP_STEPS - 21 :]
            ratios.append(statistics.median(late) / statistics.median(early))
        TALLY.stamps = None
        return {"value": min(times), "ratio": statistics.median(ratios)}

    async def memory(self, case: Case, waiting: int) -> dict[str, Any]:
        """Return the KiB that one of *waiting* runs holds while all wait in the model, by the resident set size."""
        if reason := self.contestant.refuses(case):
            return {"refused": reason}
        await self._prove(case)
        gate = asyncio.Event()
        run = self.contestant.build(case, gate=gate)
        gate.set()
        for _ in range(20):
            await run()
        gate.clear()
        gc.collect()
        TALLY.reset()
        before = _resident_bytes()
        tasks = [asyncio.ensure_future(run()) for _ in range(waiting)]
        while TALLY.model_calls < waiting and not any([task.done() for task in tasks]):  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(0.01)
        gc.collect()
        held = _resident_bytes() - before
        gate.set()
        texts = await asyncio.gather(*tasks)
        if texts != [expected_text(case)] * waiting:
            raise AssertionError(f"{case.key}: a run did not answer what it should")
        return {"value": held / waiting / 1024}


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _answer(worker: Worker, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        match asked["do"]:
            case "prepare":
                return await worker.prepare(Case(**asked["case"]), asked["seconds"])
            case "round":
                return await worker.round()
            case _:
                return await worker.memory(Case(**asked["case"]), asked.get("waiting", WAITING))
    except Exception:
        return {"failed": traceback.format_exc()}


def main() -> None:
    """Answer each line of standard input with one on standard output; whatever a contestant prints goes to stderr."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with asyncio.Runner() as runner:
        worker = Worker(sys.argv[1])
        for line in sys.stdin:
            print(json.dumps(runner.run(_answer(worker, json.loads(line)))), file=out, flush=True)


if __name__ == "__main__":
    main()
