"""Ask the contestants for one round at a time, in turn, so that all meet the same moods of the machine."""

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from bench.cases import Case
from bench.environments import ROOT, Contestant

FIGURES = dict[str, float]
SLOW_ROUNDS = 3
SLOW_MEMORY_S = 20


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds a case, seconds a round, runs that wait at once."""

    rounds: int = 7
    round_s: float = 0.2
    memory_rounds: int = 3
    waiting: int = 10_000


QUICK = Effort(rounds=3, round_s=0.05, memory_rounds=1, waiting=2_000)


class Worker:
    """The process of one contestant."""

    def __init__(self, contestant: Contestant) -> None:
        path = os.pathsep.join([str(ROOT), *([str(ROOT / "src")] if not contestant.requirement else [])])
        self.process = subprocess.Popen(
            [contestant.python, "-m", "bench.worker", contestant.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return its answer; one that failed is told on stderr and has the key `failed`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "the process ended"}
        if "failed" in answer:
            print(answer["failed"], file=sys.stderr, flush=True)
        return answer

    def close(self) -> None:
        """End the process and wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Bench:
    """Measures cases with all contestants side by side."""

    def __init__(self, contestants: list[Contestant], effort: Effort) -> None:
        self.contestants = contestants
        self.effort = effort
        self.workers = {contestant.name: Worker(contestant) for contestant in contestants}

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()

    def measure(self, case: Case) -> dict[str, FIGURES]:
        """Return the figures of *case* by contestant; those that refuse it or fail are left out."""
        if case.workload == "W7":
            return self._memory(case)
        slow: dict[str, bool] = {}
        for name, worker in self.workers.items():
            answer = worker.ask(do="prepare", case=asdict(case), seconds=self.effort.round_s)
            if "loops" in answer:
                slow[name] = answer["slow"]
        rounds: dict[str, list[FIGURES]] = {name: [] for name in slow}
        for index in range(self.effort.rounds):
            for name in slow:
                if slow[name] and index >= SLOW_ROUNDS:
                    continue
                answer = self.workers[name].ask(do="round")
                if "value" in answer:
                    rounds[name].append(answer)
        return {name: _summary(case, taken) for name, taken in rounds.items() if taken}

    def _memory(self, case: Case) -> dict[str, FIGURES]:
        held: dict[str, list[float]] = {}
        slow: set[str] = set()
        for _ in range(self.effort.memory_rounds):
            for contestant in [one for one in self.contestants if one.name not in slow]:
                started = time.monotonic()
                worker = Worker(contestant)
                answer = worker.ask(do="memory", case=asdict(case), waiting=self.effort.waiting)
                worker.close()
                if "value" in answer:
                    held.setdefault(contestant.name, []).append(answer["value"])
                if time.monotonic() - started > SLOW_MEMORY_S:
                    slow.add(contestant.name)
        return {name: {"value": statistics.median(values)} for name, values in held.items()}


def _summary(case: Case, rounds: list[FIGURES]) -> FIGURES:
    """Return the best of *rounds*, the median beside it."""
    values = [figures["value"] for figures in rounds]
    best, median = min(values), statistics.median(values)
    if case.prior:
        base = [figures["base"] for figures in rounds]
        best = max(0.0, best - min(base)) / case.prior
        median = max(0.0, median - statistics.median(base)) / case.prior
    summary = {"value": best, "median": median}
    if "ratio" in rounds[0]:
        summary["ratio"] = statistics.median([figures["ratio"] for figures in rounds])
    return summary
