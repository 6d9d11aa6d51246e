"""Text on both sides of a vendor's own part stays in its place, streamed or not."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from interpose import Agent
from interpose.messages import ProviderPart, ReasoningPart, TextPart
from interpose.models import Finish, ModelProfile, ReasoningDelta, TextDelta
from interpose.testing import collect, text_of


class Mixed:
    """Says a piece, sends something of its own, and says another."""

    provider, name = "mixed", "mixed"
    profile: ModelProfile | None = None

    def __init__(self, delta: Any) -> None:
        self.delta = delta

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        yield self.delta("one ")
        yield ProviderPart({"cites": 1}, "mixed")
        yield self.delta("two")
        yield TextDelta("!")
        yield Finish("stop")


@pytest.mark.parametrize(("delta", "part"), [(TextDelta, TextPart), (ReasoningDelta, ReasoningPart)])
@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
async def test_what_follows_a_part_of_the_vendor_stays_behind_it(delta: Any, part: Any, streamed: bool) -> None:
    model: Any = Mixed(delta)  # without a `generate` of its own
    agent = Agent(model, post_model_hooks=())
    if streamed:
        async with agent.stream("go") as run:
            events = await collect(run)
            result = await run.result()
        assert text_of(events) == result.text
    else:
        result = await agent.run("go")
    kinds = [(type(one).__name__, getattr(one, "text", "")) for one in result.messages[-1].content()]  # type: ignore[union-attr]  # is an answer
    middle = [("TextPart", "two!")] if part is TextPart else [(part.__name__, "two"), ("TextPart", "!")]
    assert kinds == [(part.__name__, "one "), ("ProviderPart", ""), *middle]
