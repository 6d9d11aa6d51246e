"""What the server adds to streaming in the process, and how it stands many readers: `python -m bench.server`.

The server is a process of its own, its client a bare socket in this one. What a chunk costs is the processor time of
the server's process, kernel included, less that of the same run streamed in a process without a server; wall time of
both processes on one machine would measure the client too. The first byte is timed by the machine's clock, which both
share: from the model's handing over its first chunk to the client's having read it.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bench.line import Line
from interpose import Agent
from interpose.models.base import Finish, Model, ModelChunk, ModelProfile, TextDelta
from interpose.request import ModelRequest

CHUNKS = 20_000
STREAMS, CHUNKS_EACH, ROUNDS = 500, 100, 6
RUNS = 300
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Counting(Model):
    """A model that says `mark:0 mark:1 …`, as the prompt asks: `{"mark", "chunks", "pause_s"}`."""

    provider = "bench"
    name = "counting"
    profile: ModelProfile | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Yield the chunks, each after a pause, as those of a provider come from a socket."""
        asked = json.loads(request.messages[-1].text)
        for number in range(asked["chunks"]):
            await asyncio.sleep(asked["pause_s"])
            at = time.monotonic_ns() if number == 0 else number
            yield TextDelta(f"{asked['mark']}:{at} ")
        yield Finish("stop")


def prompt(mark: str, chunks: int, pause_s: float) -> str:
    """Return what makes the model say so much."""
    return json.dumps({"mark": mark, "chunks": chunks, "pause_s": pause_s})


def agent(store: str | None = None) -> Agent[Any]:
    """Return the agent that is measured."""
    from interpose.stores import SQLStore

    return Agent(Counting(), store=SQLStore(store) if store else None)


# The server's side.


def serve(port: int, store: str | None) -> None:
    """Serve until the process is ended."""
    from interpose.server import create_app
    from interpose.server.serving import bind
    from interpose.server.serving import serve as serve_app

    serve_app(
        create_app({"a": agent(store)}, max_runs=10_000, shutdown_s=0), bind("127.0.0.1", port), log_level="error"
    )


@asynccontextmanager
async def serving(store: str | None = None) -> AsyncIterator[tuple[int, int]]:
    """Start a server and give its port and process id."""
    from interpose.server.serving import bind

    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    sock.close()
    command = [sys.executable, "-m", "bench.server", "--serve", str(port), *(["--store", store] if store else [])]
    process = subprocess.Popen(command)  # noqa: ASYNC220  # before anything is measured
    try:
        for _ in range(200):
            await asyncio.sleep(0.05)
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            await closed(writer)
            break
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(20)


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has taken, its own and the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    """Return how much memory a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


# The client's side.


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait until it is: what is left open when the loop ends is complained about."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def said(port: int, mark: str, chunks: int, pause_s: float) -> tuple[list[str], float]:
    """Run the agent, and return what it said in pieces, and the milliseconds from its first chunk to here."""
    message = {"role": "user", "content": prompt(mark, chunks, pause_s)}
    body = json.dumps({"threadId": mark, "runId": mark, "messages": [message]}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /ag-ui/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
    writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    pieces: list[str] = []
    first_ms = 0.0
    while line := await reader.readline():
        if line.startswith(b'data: {"type":"TEXT_MESSAGE_CONTENT"'):
            at = time.monotonic_ns() if not pieces else 0
            pieces.append(json.loads(line[6:])["delta"])
            if at:
                first_ms = (at - int(pieces[0].partition(":")[2])) / 1e6
    await closed(writer)
    return pieces, first_ms


def is_whole(pieces: list[str], mark: str, chunks: int) -> bool:
    """Say whether nothing was lost, doubled, or somebody else's."""
    return pieces[1:] == [f"{mark}:{number} " for number in range(1, chunks)] and pieces[0].startswith(f"{mark}:")


async def in_process_us(chunks: int) -> float:
    """Return what a chunk costs without a server, in microseconds of processor time."""
    bare = agent()
    started = time.process_time()
    async with bare.stream(prompt("m", chunks, 0)) as run:
        async for _ in run:
            pass
    return (time.process_time() - started) / chunks * 1e6


async def served_us(chunks: int, store: str | None = None) -> float:
    """Return what a chunk costs the server's process, in microseconds of processor time."""
    async with serving(store) as (port, pid):
        await said(port, "warm", 1000, 0)
        before = cpu_s(pid)
        pieces, _ = await said(port, "m", chunks, 0)
        took = cpu_s(pid) - before
        assert is_whole(pieces, "m", chunks), "events are missing or in disorder"
    return took / chunks * 1e6


async def first_bytes_ms(runs: int) -> list[float]:
    """Return the milliseconds from the model's first chunk to the client, sorted."""
    async with serving() as (port, _):
        await said(port, "warm", 3, 0)
        return sorted([(await said(port, f"m{n}", 3, 0.002))[1] for n in range(runs)])


async def load(streams: int, chunks: int, rounds: int, store: str | None = None) -> list[tuple[float, float]]:
    """Return, after each round of so many streams at once, its seconds and the megabytes that the server holds."""
    found = []
    async with serving(store) as (port, pid):
        for turn in range(rounds):
            marks = [f"r{turn}s{n}" for n in range(streams)]
            started = time.monotonic()
            answers = await asyncio.gather(*[said(port, mark, chunks, 0.01) for mark in marks])
            broken = [
                mark for mark, (pieces, _) in zip(marks, answers, strict=True) if not is_whole(pieces, mark, chunks)
            ]
            assert not broken, f"{len(broken)} of {streams} streams are broken: {broken[:5]}"
            found.append((time.monotonic() - started, memory_mb(pid)))
    return found


async def measure(quick: bool) -> list[Line]:
    """Measure all, and return the table."""
    part = 10 if quick else 1
    bare = min([await in_process_us(CHUNKS // part) for _ in range(3)])
    through = min([await served_us(CHUNKS // part) for _ in range(3)])
    with tempfile.TemporaryDirectory() as folder:
        kept = min([await served_us(CHUNKS // part, f"sqlite:///{folder}/{n}.db") for n in range(3)])
        loaded = await load(STREAMS // part, CHUNKS_EACH, ROUNDS)
        stored = await load(STREAMS // part, CHUNKS_EACH, 2, f"sqlite:///{folder}/load.db")
    first = await first_bytes_ms(RUNS // part)
    grown = loaded[-1][1] - loaded[len(loaded) // 2 - 1][1]
    return [
        Line("a chunk in the process", bare, "us"),
        Line("a chunk through the server", through, "us"),
        Line("  added by the server", through - bare, "us", 60),
        Line("a chunk through the server, events kept in SQLite", kept, "us"),
        Line("  added by the server and the store", kept - bare, "us"),
        Line("first byte after the model's first chunk, median", first[len(first) // 2], "ms", 5),
        Line("first byte after the model's first chunk, 99 of 100", first[len(first) * 99 // 100], "ms"),
        Line(f"{STREAMS // part} streams at once, {CHUNKS_EACH} chunks each: seconds", loaded[-1][0], "s"),
        Line("  the same, events kept in SQLite", stored[-1][0], "s"),
        Line("  memory after the first round", loaded[0][1], "MB"),
        Line(f"  growth over the last {ROUNDS - ROUNDS // 2} rounds", grown, "MB", 25),
    ]


def main() -> None:
    """Serve, or measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve, given.store)
        return
    for line in asyncio.run(measure(given.quick)):
        print(line)


if __name__ == "__main__":
    main()
