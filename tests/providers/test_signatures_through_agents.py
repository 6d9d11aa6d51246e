"""Signatures on their way through an agent: a step with tools, streamed and not, and the thread that is sent next."""

from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs pip install 'interpose[anthropic]'")
pytest.importorskip("google.genai", reason="needs pip install 'interpose[google]'")

from tests.providers.gemini_vendor import GeminiVendor
from tests.providers.messages_vendor import MessagesVendor
from tests.providers.stage import WireStage

from interpose import Agent, Middleware, UserMessage
from interpose.testing.model_contract import Answer, Call, Said, Thought
from interpose.testing.model_contract.claims import population

ASKS = Answer(
    parts=(
        Thought("I think.", "c2ln"),
        Said("I look."),
        Call("call_1", "population", '{"city": "Lyon"}'),
        Call("call_2", "population", '{"city": "Nice"}'),
    ),
    reason="tool_calls",
)
SAYS = Answer(parts=(Thought("So.", "bGFzdA=="), Said("4 people.")))


class Watching(Middleware):
    """Sees every chunk and changes nothing, so that a stream goes the long way."""

    def on_chunk(self, ctx: Any, event: Any) -> None: ...


@pytest.mark.parametrize("vendor", [MessagesVendor(), GeminiVendor()], ids=["anthropic", "google"])
@pytest.mark.parametrize("way", ["run", "run with chunks", "stream"])
async def test_signed_thoughts_and_calls_go_back_as_they_came(vendor: Any, way: str) -> None:
    async with WireStage(vendor) as stage:
        agent = Agent(stage.model, tools=[population], middleware=[] if way == "run" else [Watching()])
        stage.play(ASKS, SAYS, Answer(parts=(Said("ok"),)))
        if way == "stream":
            async with agent.stream("How many?") as run:
                result = await run.result()
        else:
            result = await agent.run("How many?")
        await agent.run([*result.messages, UserMessage("and?")])
    second, third = stage.heard[1:]
    told = [turn for turn in second.turns if turn[0] != "system"]
    assert [turn[0] for turn in told] == ["user", "thought", "assistant", "call", "call", "result", "result"]
    assert second.of("thought") == [("thought", "I think.", "c2ln")]
    assert third.turns[: len(second.turns)] == second.turns
    assert third.of("thought") == [("thought", "I think.", "c2ln"), ("thought", "So.", "bGFzdA==")]
