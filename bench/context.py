"""What keeping a conversation within bounds costs: `python -m bench.context`.

Each figure is the best of several rounds of one step, in CPU time, a message of the history or a chunk of the answer.
Between two steps an exchange is added, as in a run, so that what was counted before may be remembered.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from interpose import AssistantMessage, Message, ModelRequest, ToolCall, ToolMessage, UserMessage
from interpose.builtin import ContentGuard, ContextWindow, Summarization
from interpose.events import TextMessageContentEvent, TextMessageEndEvent
from interpose.testing import make_context

SIZES = (200, 2_000, 20_000)
CHUNKS = 10_000
PIECE = "The stock is counted. "
RULES = [(r"\b\d{3}-\d{2}-\d{4}\b", "(number)"), (r"[\w.+-]+@[\w-]+\.\w+", "(address)"), (r"\bsecret\b", "(word)")]
FEW = 2  # exchanges added between two steps
PER_MESSAGE_US, PER_CHUNK_US = 0.3, 3.0


@dataclass(frozen=True)
class Line:
    """One line of the table; *target* is None where none was set."""

    what: str
    size: int
    unit: str
    us: float
    target: float | None

    def __str__(self) -> str:
        target = "" if self.target is None else f"under {self.target}"
        verdict = "" if self.target is None else "yes" if self.us < self.target else "NO"
        return f"{self.what:<52} {self.size:>7,} {self.us:>9.3f} {self.unit:<10} {target:<10} {verdict}"


def history(count: int) -> list[Message]:
    """Return *count* messages: questions, calls, results and answers in turn."""
    return [message for number in range(count // 4) for message in exchange(number)]


def exchange(number: int) -> list[Message]:
    """Return a question, a call, its result and an answer."""
    call = ToolCall(f"call_{number}", "search", {"query": f"box {number}", "limit": 5})
    return [
        UserMessage(f"How many are there in box {number}? " * 4),
        AssistantMessage("I shall look.", tool_calls=(call,)),
        ToolMessage(PIECE * 12, call.id),
        AssistantMessage(f"There are {number}. " + PIECE * 3),
    ]


async def steps_of(
    make: Callable[[], Any], messages: Sequence[Message], rounds: int, *, warm: bool = True
) -> list[float]:
    """Return the seconds that each of *rounds* steps took; with *warm* all in one run, after a first one."""
    middleware, ctx = make(), make_context()
    growing = list(messages)
    taken: list[float] = []
    if warm:
        await ask(middleware, ctx, ModelRequest(messages=tuple(growing)))
    for number in range(rounds):
        if warm:
            growing += [one for extra in range(FEW) for one in exchange(1_000_000 + number * FEW + extra)]
        else:
            middleware, ctx = make(), make_context()
        request = ModelRequest(messages=tuple(growing))
        started = time.process_time()
        await ask(middleware, ctx, request)
        taken.append(time.process_time() - started)
    return taken


async def ask(middleware: Any, ctx: Any, request: ModelRequest) -> None:
    """Call the hook as a run does."""
    said = middleware.before_model_call(ctx, request)
    if isawaitable(said):
        await said


async def chunks_of(guard: ContentGuard, pieces: Sequence[str]) -> float:
    """Return the seconds that *guard* took for an answer in *pieces*."""
    ctx = make_context()
    events: list[Any] = [TextMessageContentEvent(message_id="m", delta=piece) for piece in pieces]
    events.append(TextMessageEndEvent(message_id="m"))
    started = time.process_time()
    for event in events:
        said = guard.on_chunk(ctx, event)
        if isawaitable(said):
            await said
    return time.process_time() - started


def contexts(size: int) -> Iterator[tuple[str, Callable[[], Any], bool, float | None]]:
    """Yield what is measured on a history of *size* messages: a name, the middleware, whether warm, and the target."""
    yield "ContextWindow, nothing to cut", lambda: ContextWindow(10**6, 10**9, 10**5), True, PER_MESSAGE_US
    yield "ContextWindow, half of it cut", lambda: ContextWindow(max_messages=size // 2), True, None
    yield "Summarization, nothing to cut", lambda: Summarization(10**9), True, PER_MESSAGE_US
    yield "Summarization, first step of a run", lambda: Summarization(10**9), False, None
    yield "Summarization, a summary stands in", lambda: Summarization(size * 30), True, None
    yield "Summarization, making the summary", lambda: Summarization(size * 30), False, None


def guards() -> Iterator[tuple[str, ContentGuard, list[str], float | None]]:
    """Yield what is measured on an answer: a name, the guard, the pieces, and the target."""
    plain = ["word "] * CHUNKS
    busy = ["ask me@home.example " if number % 50 == 0 else "word " for number in range(CHUNKS)]
    yield "ContentGuard, buffered, three rules, nothing found", ContentGuard(RULES), plain, PER_CHUNK_US
    yield "ContentGuard, buffered, a match in 50 chunks", ContentGuard(RULES), busy, None
    yield "ContentGuard, delta, three rules, nothing found", ContentGuard(RULES, strategy="delta"), plain, PER_CHUNK_US
    yield "ContentGuard, delta, a match in 50 chunks", ContentGuard(RULES, strategy="delta"), busy, None


async def measure(sizes: Sequence[int] = SIZES, rounds: int = 15) -> list[Line]:
    """Return every line of the table."""
    lines: list[Line] = []
    for size in sizes:
        messages = history(size)
        for what, make, warm, target in contexts(size):
            best = min(await steps_of(make, messages, rounds, warm=warm))
            lines.append(Line(what, size, "µs/message", best / size * 1e6, target))
    for what, guard, pieces, target in guards():
        best = min([await chunks_of(guard, pieces) for _ in range(rounds)])
        lines.append(Line(what, len(pieces), "µs/chunk", best / len(pieces) * 1e6, target))
    return lines


def main() -> None:
    """Measure and print; the exit code is 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="bench.context", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of which the best counts")
    options = parser.parse_args()
    lines = asyncio.run(measure(rounds=options.rounds))
    print(f"{'':<52} {'size':>7} {'best':>9} {'':<10} {'target':<10} met")
    for line in lines:
        print(line)
    sys.exit(any(line.target is not None and line.us >= line.target for line in lines))


if __name__ == "__main__":
    main()
