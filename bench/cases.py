"""What is measured: the workloads, their script of model answers, and what proves that the work was done."""

import itertools
import json
import time
from dataclasses import dataclass, replace

ANSWER = "The stock is counted and everything is in its place."
PIECE = "word "
CHUNKS = 10_000
WAITING = 10_000
LOOP_STEPS = 200
TOOL = "add_stock"
PROMPT = "Count the stock."

_ids = itertools.count()


@dataclass(frozen=True)
class Case:
    """One line of the result: a workload with *n* middlewares.

    *hooks* is "seam" (they override the seam that is measured) or "all" (they override every hook there is). *form* is
    how the hooks of W4 are written, "def" or "async". *prior* counts the messages that were there before the run.
    """

    workload: str
    n: int
    hooks: str = "seam"
    form: str = ""
    prior: int = 0

    @property
    def key(self) -> str:
        """A name to file the case under."""
        return "-".join([part for part in (self.workload, str(self.n), self.hooks, self.form, str(self.prior)) if part])

    def without_prior(self) -> "Case":
        """Return the same case with no messages before it: what a run costs apart from them."""
        return replace(self, prior=0)


@dataclass(frozen=True)
class Turn:
    """What the model answers to one call: *text*, or calls of the tool with these arguments, as JSON text."""

    text: str = ""
    calls: tuple[str, ...] = ()


def turns(case: Case) -> tuple[Turn, ...]:
    """Return the model's answers in one run."""
    last = Turn(ANSWER)
    match case.workload:
        case "W2":
            return (*[_calling(1)] * 9, last)
        case "W3":
            return (_calling(5), last)
        case "W5-loop":
            return (*[_calling(1)] * (LOOP_STEPS - 1), last)
        case "W4":
            return (Turn(PIECE * CHUNKS),)
        case _:
            return (last,)


def _calling(count: int) -> Turn:
    return Turn(calls=tuple([json.dumps({"item": f"box {index}", "count": index}) for index in range(count)]))


class Tally:
    """What happened in this process since `reset`: the proof that the work was done."""

    __slots__ = ("chunk_hooks", "model_calls", "model_hooks", "results_seen", "stamps", "tool_calls", "tool_hooks")

    def __init__(self) -> None:
        self.stamps: list[float] | None = None
        self.reset()

    def reset(self) -> None:
        """Begin to count anew."""
        self.model_calls = 0
        self.tool_calls = 0
        self.model_hooks = 0
        self.tool_hooks = 0
        self.chunk_hooks = 0
        self.results_seen = 0


TALLY = Tally()


class Script:
    """The answers of a made-up model, in order, and again from the first."""

    def __init__(self, case: Case) -> None:
        self.turns = turns(case)
        self.index = 0

    def next(self) -> Turn:
        """Return the next answer."""
        TALLY.model_calls += 1
        if TALLY.stamps is not None:
            TALLY.stamps.append(time.process_time())
        turn = self.turns[self.index]
        self.index = (self.index + 1) % len(self.turns)
        return turn


def call_id() -> str:
    """Return a fresh id for a tool call."""
    return f"call_{next(_ids)}"


async def add_stock(item: str, count: int) -> str:
    """Add to the stock.

    Args:
        item: What is added.
        count: How many.
    """
    TALLY.tool_calls += 1
    return f"{item}: {count}"


def prior_messages(count: int) -> list[tuple[str, str]]:
    """Return *count* earlier messages as `(role, text)`: question, tool call, result, answer, and so on."""
    kinds = ("user", "call", "result", "assistant")
    return [(kinds[index % 4], f"This is what was said in message {index} of the thread.") for index in range(count)]


def expected_text(case: Case) -> str:
    """Return what a run of *case* must answer."""
    return turns(case)[-1].text


def problems(case: Case, text: str) -> list[str]:
    """Return what one counted run of *case* did not do, judged by its *text* and by the tally."""
    script = turns(case)
    calls = sum([len(turn.calls) for turn in script])
    expected = {"model_calls": len(script), "tool_calls": calls, "results_seen": calls + case.prior // 4}
    if case.workload == "W4":
        expected["chunk_hooks"] = case.n * CHUNKS
    else:
        expected |= {"model_hooks": case.n * len(script), "tool_hooks": case.n * calls if wraps_tools(case) else 0}
    found = [
        f"{name}: {getattr(TALLY, name)} instead of {number}"
        for name, number in expected.items()
        if getattr(TALLY, name) != number
    ]
    return found if text == expected_text(case) else [*found, f"the text is {text[:80]!r}"]


def wraps_tools(case: Case) -> bool:
    """Whether the middlewares of *case* stand around tool calls too."""
    return case.workload in ("W2", "W3", "W5-loop")


def all_cases() -> list[Case]:
    """Return every case that is measured in time or memory, in the order of the tables."""
    cases = [Case(workload, n) for workload in ("W1", "W2", "W3") for n in (0, 1, 10, 50)]
    cases += [Case("W4", 0), *[Case("W4", n, form=form) for form in ("def", "async") for n in (1, 10, 50)]]
    cases += [Case("W5-prior", 10, prior=prior) for prior in (200, 2_000, 20_000)]
    cases += [Case("W5-loop", 10), Case("W7", 10)]
    for n in (1, 10, 50):
        cases += [Case(workload, n, "all") for workload in ("W1", "W2", "W3")]
        cases.append(Case("W4", n, "all", "async"))
    return [*cases, Case("W5-loop", 10, "all"), Case("W7", 10, "all")]
