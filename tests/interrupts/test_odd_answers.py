"""An answer with a field of a wrong type never makes a checkpoint that cannot be read."""

from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, by_id, guarded, waiting
from tests.interrupts.snapshots import snapshot

from interpose import Approved, Middleware, Rejected, ResumeError
from interpose.stores import MemoryStore
from interpose.testing import text

ODD: list[Any] = [
    Approved(by=5),  # type: ignore[arg-type]  # wrong on purpose, as below
    Approved(by={"name": "ann"}),  # type: ignore[arg-type]
    Rejected(5),  # type: ignore[arg-type]
    Rejected(None),  # type: ignore[arg-type]
    Rejected("no", by=5),  # type: ignore[arg-type]
]


class Dies(Middleware):
    """Keeps the store as a process leaves it that is killed in the model call that follows the answer."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.left: MemoryStore | None = None

    def before_model_call(self, ctx: Any, request: Any) -> None:
        if ctx.resumed_from:
            self.left = snapshot(self.store)


@pytest.mark.parametrize("answer", ODD, ids=repr)
async def test_it_is_refused_or_survives_a_crash(how: str, answer: Any) -> None:
    store = MemoryStore()
    dies = Dies(store)
    first = await waiting(how, store, [], middleware=[dies])
    after = await by_id(first, answers_to(first, answer))
    if isinstance(after.error, ResumeError):
        assert [one.run_id for one in await store.paused()] == [first.result.run_id]
        return
    assert dies.left is not None
    other = agent(text("done"), tools=[guarded([])], store=dies.left)
    (run_id,) = await other.unfinished()
    assert (await other.resume(run_id)).text == "done"
