"""A request whose key, message or reason no store could keep is refused where it is made."""

from typing import Any

import pytest
from tests.interrupts.play import Review, agent, answers_to, by_id, paused, play

from interpose import Middleware, Resolved
from interpose.stores import MemoryStore
from interpose.testing import text

ODD = [5, b"k", "\ud800"]
CASES = [(name, odd) for name in ("key", "message", "reason") for odd in ODD] + [("key", None), ("message", None)]


class Requests(Middleware):
    """Asks before the model is called, with *texts* for what a request says."""

    interrupts = (Review,)

    def __init__(self, texts: dict[str, Any]) -> None:
        self.texts = texts

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        return [Review.request(**self.texts)] if ctx.phase == "before_model" else None


@pytest.mark.parametrize(("name", "odd"), CASES, ids=ascii)
async def test_it_fails_the_run_by_its_name_and_is_not_kept(how: str, name: str, odd: Any) -> None:
    requests = Requests({"key": "k", name: odd})
    played = await play(how, agent(text("never"), middleware=[requests], store=MemoryStore()))
    assert isinstance(played.error, TypeError)
    assert str(played.error).startswith(f"{name} of interrupt 'review' must be a text")
    assert await played.agent.pending() == []
    assert played.requests == []


@pytest.mark.parametrize("name", ["key", "message", "reason"])
@pytest.mark.parametrize("odd", ["", "a/b:c", "\u00e9\n"], ids=ascii)
async def test_any_other_text_is_kept_and_can_be_answered(how: str, name: str, odd: str) -> None:
    requests = Requests({"key": "k", name: odd})
    first = await paused(how, agent(text("end"), middleware=[requests], store=MemoryStore()))
    assert len(await first.agent.pending()) == 1
    assert (await by_id(first, answers_to(first, Resolved(True)))).result.text == "end"
