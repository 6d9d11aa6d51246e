"""The benchmark of context management does the work that it measures."""

from typing import Any

import pytest
from bench.context import CHUNKS, Line, contexts, guards, history, measure

from interpose import ModelRequest
from interpose._engine.legality import problem
from interpose.events import TextMessageContentEvent
from interpose.outcomes import DROP
from interpose.testing import make_context

CUTS = {"ContextWindow, half of it cut", "Summarization, a summary stands in", "Summarization, making the summary"}


def test_history_is_one_that_providers_take() -> None:
    messages = history(200)
    assert (len(messages), problem(tuple(messages))) == (200, None)


@pytest.mark.parametrize(
    ("what", "make"), [(what, make) for what, make, _, _ in contexts(200)], ids=lambda x: str(x)[:40]
)
async def test_what_is_to_be_cut_is_cut_and_nothing_else(what: str, make: Any) -> None:
    request = ModelRequest(messages=tuple(history(200)))
    sent: Any = make().before_model_call(make_context(), request)
    if hasattr(sent, "__await__"):
        sent = await sent
    assert (sent is not None and len(sent.messages) < 110) == (what in CUTS)


@pytest.mark.parametrize(("what", "guard", "pieces"), [case[:3] for case in guards()], ids=lambda x: str(x)[:40])
async def test_guard_edits_where_there_is_a_match(what: str, guard: Any, pieces: list[str]) -> None:
    ctx, said = make_context(), ""
    for piece in pieces[:200]:
        event = guard.on_chunk(ctx, TextMessageContentEvent(message_id="m", delta=piece))
        event = await event if hasattr(event, "__await__") else event
        said += "" if event is DROP else (event.delta if event is not None else piece)
    assert ("(address)" in said, "@" in said) == ("match" in what, False)


async def test_table_has_every_line() -> None:
    lines = await measure(sizes=(8,), rounds=1)
    assert [line.what for line in lines] == [case[0] for case in (*contexts(8), *guards())]
    assert all(line.us > 0 for line in lines)
    assert lines[-1].size == CHUNKS


@pytest.mark.parametrize(("us", "target", "verdict"), [(0.2, 0.3, "yes"), (0.3, 0.3, "NO"), (9.0, None, "")])
def test_line_says_whether_its_target_is_met(us: float, target: float | None, verdict: str) -> None:
    assert str(Line("what", 200, "µs/message", us, target)).rstrip().endswith(verdict or "µs/message")
