"""State whose keys are no text is saved, or refused by the name of the state."""

from typing import Any

import pytest
from tests.interrupts.play import agent, play

from interpose import Middleware
from interpose.stores import MemoryStore
from interpose.testing import text


@pytest.mark.parametrize("which", ["state", "thread_state"])
async def test_state_with_keys_that_are_no_text_is_saved_or_refused_by_its_name(how: str, which: str) -> None:
    class Keeps(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> None:
            getattr(ctx, which)["by_step"] = {ctx.step: "x"}

    played = await play(how, agent(text("a"), middleware=[Keeps()], store=MemoryStore()), thread_id="t1")
    if played.error is None:
        assert played.result.text == "a"
    else:
        assert which in str(played.error)
