"""An id of a run or thread, or a reason to pause, that no store could keep is refused where it is given."""

from typing import Any

import pytest
from tests.interrupts.play import agent, play

from interpose import ConfigurationError, Middleware, Pause
from interpose.stores import MemoryStore
from interpose.testing import text

ODD = ["", 5, b"r1", "\ud800"]


@pytest.mark.parametrize("name", ["run_id", "thread_id"])
@pytest.mark.parametrize("odd", ODD, ids=ascii)
async def test_an_odd_id_is_refused_before_the_model_is_called(how: str, name: str, odd: Any) -> None:
    played = await play(how, agent(text("never"), store=MemoryStore()), **{name: odd})
    assert isinstance(played.error, ConfigurationError)
    assert str(played.error).startswith(f"{name}= must be a text")
    assert played.requests == []


@pytest.mark.parametrize("reason", [*ODD, None], ids=ascii)
async def test_an_odd_reason_to_pause_fails_the_run_and_is_not_kept(how: str, reason: Any) -> None:
    class Asks(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return Pause(reason)

    played = await play(how, agent(text("never"), middleware=[Asks()], store=MemoryStore()))
    assert isinstance(played.error, TypeError)
    assert str(played.error).startswith("Pause takes a reason")
    assert await played.agent.pending() == []
