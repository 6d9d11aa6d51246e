"""What the live page costs the app: `python -m bench.flow`.

Memory is what tracemalloc counts as held for one run of many nodes, twice: with short contents, and with contents as
large as the record hands them over. Time is that of taking both events of a node, on one event loop, with nobody
looking.
"""

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.line import Line
from interpose import Usage
from interpose.flow.history import History
from interpose.info import Node

NODES = 10_000
MAX_MB = 30.0
SHORT, LONG = 200, 20_000
WORDS = "the stock of box {} is counted again and found to be {} pieces; "


def text_of(number: int, chars: int) -> str:
    """Return a text of *chars* characters that no other number has."""
    words = "".join([WORDS.format(number, n * number) for n in range(chars // len(WORDS) + 1)])
    return words[:chars]


def record(nodes: int, chars: int) -> Iterator[Node]:
    """Yield the events of one run as the engine tells them: each step a model call and two tools, history growing."""
    history: list[Mapping[str, Any]] = [{"role": "user", "text": "Count all boxes.", "id": "msg_0"}]
    usage = Usage(900, 40)
    made = 1

    def event(kind: Any, number: int, parent: str | None, phase: Any, **fields: Any) -> Node:
        shared: dict[str, Any] = {
            "run_id": "run_0123456789abcdef01234567",
            "thread_id": "thread_0123456789abcdef",
            "started_at": 1.8e9,
        }
        name = {"model": "gpt-5.5", "tool": "count_box"}.get(kind, f"{kind}-{number}")
        return Node(
            phase=phase, kind=kind, name=name, id=f"{kind}_0123456789{number:x}", parent_id=parent, **shared, **fields
        )

    end: dict[str, Any] = {"status": "ok", "outcome": "finished", "duration_ms": 1.25}
    run = event("run", 0, None, "start", content={"in": {"messages": list(history)}})
    yield run
    while made < nodes:
        first = made
        step = event("step", first, run.id, "start")
        yield step
        request = {"model": "gpt-5.5", "instructions": "Be brief.", "messages": tuple(history[-200:]), "tools": ()}
        yield event("model", made, step.id, "start", content={"in": request})
        said = {"message": {"role": "assistant", "text": text_of(made, chars), "id": f"msg_{made}"}}
        yield event("model", made, step.id, "end", content={"in": request, "out": said}, usage=usage, attempts=1, **end)
        history.append(said["message"])
        made += 2
        for _ in range(min(2, nodes - made)):
            given, out = {"args": {"box": made}}, {"data": text_of(made, chars), "is_error": False}
            yield event("tool", made, step.id, "start", content={"in": given})
            yield event("tool", made, step.id, "end", content={"in": given, "out": out}, **end)
            history.append({"role": "tool", "text": out["data"], "id": f"msg_{made}"})
            made += 1
        yield event("step", first, run.id, "end", usage=usage, **end)
    yield event("run", 0, None, "end", content={"in": {}, "out": {"text": "done"}}, usage=usage, **end)


def held_mb(fill: Callable[[History], None]) -> float:
    """Return how many megabytes a history holds after *fill*."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    history = History(max_runs=20)
    fill(history)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert history.current() is not None
    return held / 1e6


def filled(nodes: int, chars: int, *, to_end: bool = True) -> Callable[[History], None]:
    """Return what tells a history of one run, without its last event where it shall go on."""

    def fill(history: History) -> None:
        waiting = None
        for event in record(nodes, chars):
            if waiting is not None:
                history.add(waiting)
            waiting = event
        if to_end and waiting is not None:
            history.add(waiting)

    return fill


def us_per_node(nodes: int, chars: int, rounds: int) -> float:
    """Return the microseconds that a node takes, both events, in the best of *rounds*."""
    taken = []
    for _ in range(rounds):
        events, history = list(record(nodes, chars)), History(max_runs=20)
        started = time.process_time()
        for event in events:
            history.add(event)
        taken.append(time.process_time() - started)
    return min(taken) / nodes * 1e6


def measure(nodes: int = NODES, rounds: int = 5) -> list[Line]:
    """Return every line of the table."""
    lines = [
        Line(
            f"memory, {nodes:,} nodes of one run, {what}, {chars:,} characters a content",
            held_mb(filled(nodes, chars, to_end=to_end)),
            "MB",
            MAX_MB,
        )
        for what, chars, to_end in (("ended", SHORT, True), ("running", SHORT, False), ("running", LONG, False))
    ]
    lines += [
        Line(f"time, {chars:,} characters a content", us_per_node(min(nodes, 2000), chars, rounds), "µs/node")
        for chars in (SHORT, LONG)
    ]
    return lines


def main() -> None:
    """Measure and print; the exit code is 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="bench.flow", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the best counts")
    options = parser.parse_args()
    lines = measure(options.nodes, options.rounds)
    for line in lines:
        print(line)
    sys.exit(any(line.target is not None and line.value >= line.target for line in lines))


if __name__ == "__main__":
    main()
