"""Two workers on one Postgres, 200 runs, and one worker killed in the middle: every run ends, no tool is called twice.

`python -m examples.fleet.demo [--runs 200] [--url postgresql://…] [--schema dbos]`; without a URL it starts a Postgres
of its own.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from examples.fleet.postgres import own_postgres

ROOT = Path(__file__).parents[2]


def start_worker(url: str, schema: str) -> tuple[subprocess.Popen[str], str]:
    """Start a worker, and return it with its id in the fleet once it works."""
    command = [sys.executable, "-m", "examples.fleet.worker", url, schema]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def ledger() -> list[list[str]]:
    """Return what all workers have noted so far."""
    file = Path(os.environ["FLEET_LEDGER"])
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def shipped(lines: list[list[str]]) -> int:
    """Return how many items were shipped."""
    return sum(line[0] == "called" and line[2] == "ship" for line in lines)


def running(lines: list[list[str]], pid: str) -> set[str]:
    """Return the calls that a worker has begun and not ended."""
    done = {line[1] for line in lines if line[0] == "done"}
    return {line[1] for line in lines if line[0] == "called" and line[3] == pid} - done


async def play(url: str, schema: str, runs: int, workers: list[subprocess.Popen[str]]) -> bool:
    """Submit the runs, kill the first worker in the middle, wait for all, and say what came of it."""
    from examples.fleet.shop import fleet  # reads where the ledger is

    async with fleet(url, schema=schema, worker=False) as agents:
        started = time.monotonic()
        orders = [agents.submit("shop", f"item {n}", run_id=f"order-{n}") for n in range(runs)]
        handles = await asyncio.gather(*orders)
        print(f"{runs} runs submitted after {time.monotonic() - started:.1f} s")

        victim = str(workers[0].pid)
        while shipped(ledger()) < runs // 3 or len(running(ledger(), victim)) < 3:  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.02)
        workers[0].send_signal(signal.SIGKILL)
        print(f"a worker was killed after {time.monotonic() - started:.1f} s, in the middle of", end=" ")
        print(f"{len(running(ledger(), victim))} tool calls; {shipped(ledger())} items were shipped by then")

        results = await asyncio.gather(*[one.result() for one in handles])
        print(f"all had ended after {time.monotonic() - started:.1f} s")

    finished = [one for one in results if one.status == "finished" and one.text.startswith("Sold item")]
    lines = ledger()
    called = Counter(line[1] for line in lines if line[0] == "called")
    by = Counter(line[3] for line in lines if line[0] == "called")
    cut = Counter(line[2] for line in lines if line[0] == "cut")
    twice = [key for key, times in called.items() if times > 1]
    print(f"runs ended: {len(finished)} of {runs}, each with one result ({len({one.run_id for one in finished})} ids)")
    print(f"tool calls: {sum(called.values())} made by {len(by)} workers ({', '.join(map(str, by.values()))})")
    print(f"tools called twice: {len(twice)}")
    print(f"calls cut in the middle: {cut.total()}, of which {cut['found']} had come to their end, as the ledger says")
    return len(finished) == runs and not twice


def main() -> int:
    """Play it; 0 where all runs ended and no tool was called twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--url", help="a Postgres to use")
    parser.add_argument("--schema", default="dbos", help="a schema of its own")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, nullcontext(given.url) if given.url else own_postgres() as url:
        os.environ["FLEET_LEDGER"] = str(Path(folder) / "ledger.txt")
        workers = []
        try:
            for _ in range(2):
                process, name = start_worker(url, given.schema)
                workers.append(process)
                print(f"worker {name} is up")
            return 0 if asyncio.run(play(url, given.schema, given.runs, workers)) else 1
        finally:
            for process in workers:
                process.terminate()
                process.communicate()


if __name__ == "__main__":
    sys.exit(main())
