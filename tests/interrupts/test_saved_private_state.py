"""Private state of a middleware that is saved comes back as it was, or its type is refused when the agent is built."""

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from tests.interrupts.play import agent, answers_to, by_id, go_on, guarded, paused

from interpose import Approved, ConfigurationError, Middleware
from interpose.stores import MemoryStore
from interpose.testing import calls, text


class Model(BaseModel):
    n: int = 0


@dataclass
class Data:
    n: int = 0


class Struct(msgspec.Struct):
    n: int = 0


class Plain:
    def __init__(self) -> None:
        self.n = 0


def keeping(kind: Any, change: Callable[[Any], None], seen: list[Any]) -> Middleware:
    """Return a middleware whose state is a *kind*, that does *change* to it, once, and notes it in each run."""

    class Keeps(Middleware):
        saved = True
        run_state = kind

        def on_start(self, ctx: Any) -> None:
            if ctx.resumed_from is None:
                change(ctx.private(self))
            seen.append(ctx.private(self))

    return Keeps()


def with_key(state: Any) -> None:
    state["a"] = 1


def with_number(state: Any) -> None:
    state.n = 1


KEPT = {
    "dict": (dict, with_key),
    "Counter": (collections.Counter, with_key),
    "OrderedDict": (collections.OrderedDict, with_key),
    "pydantic": (Model, with_number),
    "dataclass": (Data, with_number),
    "struct": (Struct, with_number),
}


@pytest.mark.parametrize("has_store", [True, False], ids=["store", "checkpoint"])
@pytest.mark.parametrize(("kind", "change"), KEPT.values(), ids=KEPT)
async def test_it_comes_back_as_it_was(how: str, kind: Any, change: Any, has_store: bool) -> None:
    log: list[Any] = []
    seen: list[Any] = []
    options = {"tools": [guarded(log)], "middleware": [keeping(kind, change, seen)]}
    store = MemoryStore() if has_store else None
    first = await paused(how, agent(calls(("mail", {"to": "bob"})), text("end"), store=store, **options))
    await (by_id if has_store else go_on)(first, answers_to(first, Approved()))
    before, after = seen
    assert after is not before
    assert type(after) is kind
    assert after == before != kind()
    assert log == [("mail", "bob", 1)]


@pytest.mark.parametrize("kind", [collections.deque, Plain])
def test_a_type_that_json_does_not_give_back_is_refused_by_its_name(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"Keeps is saved = True, and its run_state {kind.__name__} "):
        agent(text("never"), middleware=[keeping(kind, with_number, [])], store=MemoryStore())
