"""Agents on OpenAI's two APIs, through the SDK and a strict server: typed output, tools of the vendor, other models."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("openai", reason="needs pip install 'interpose[openai]'")

from tests.providers.chat_vendor import ChatVendor  # they need the SDK
from tests.providers.responses_vendor import ID, ResponsesVendor
from tests.providers.stage import Vendor, WireStage
from tests.providers.wire_server import Asked, Reply, WireServer, event, json_reply

from interpose.agent import Agent
from interpose.events import ReasoningMessageContentEvent
from interpose.messages import ProviderPart, UserMessage
from interpose.middleware import Middleware
from interpose.models import OpenAIResponses
from interpose.request import ModelRequest
from interpose.testing import assert_events_valid, collect
from interpose.testing.model_contract import Answer, Call, Said, Thought
from interpose.tools import tool

VENDORS: dict[str, Vendor] = {"chat": ChatVendor(), "responses": ResponsesVendor()}
both = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS.keys())


@dataclass
class City:
    name: str
    people: int


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return 522_250


@both
@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "run"])
async def test_output_is_typed(vendor: Vendor, is_stream: bool) -> None:
    async with WireStage(vendor) as stage:
        stage.play(Answer(parts=(Said('{"name": "Lyon", "people": 522250}'),)))
        agent = Agent(stage.model, output=City)
        if is_stream:
            async with agent.stream("Which city?") as run:
                result = await run.result()
        else:
            result = await agent.run("Which city?")
        assert stage.heard[0].output_schema is not None
        assert stage.heard[0].output_schema["required"] == ["name", "people"]
    assert result.output == City("Lyon", 522_250)


@both
async def test_broken_arguments_cost_one_step_and_the_next_request_is_legal(vendor: Vendor) -> None:
    async with WireStage(vendor) as stage:
        asks = [
            Answer(parts=(Call(f"call_{n}", "population", args),), reason="tool_calls")
            for n, args in enumerate(('{"city": "Ly', '{"city": "Lyon"}'))
        ]
        stage.play(*asks, Answer(parts=(Said("522,250."),)))
        result = await Agent(stage.model, tools=[population], post_model_hooks=()).run("How many?")
    assert result.text == "522,250."
    assert [step.tool_results[0].is_error for step in result.steps[:2]] == [True, False]


class Censor(Middleware):
    """Hides what the model thinks."""

    def on_chunk(self, ctx: Any, event: Any) -> Any:
        return event.replace(delta="[gone]") if isinstance(event, ReasoningMessageContentEvent) else None


async def test_what_a_hook_made_of_reasoning_is_what_goes_back() -> None:
    async with WireStage(ResponsesVendor()) as stage:
        thought = Thought("My secret plan.", "c2ln")
        asks = Answer(parts=(thought, Call("call_1", "population", '{"city": "Lyon"}')), reason="tool_calls")
        stage.play(asks, Answer(parts=(Said("So many."),)))
        result = await Agent(stage.model, tools=[population], middleware=[Censor()]).run("How many?")
        (told,) = stage.heard[1].of("thought")
    assert told == ("thought", "[gone][gone]", "c2ln")
    assert "secret" not in json.dumps([message.to_dict() for message in result.messages])


class Switch(Middleware):
    """Asks another model from the second step on."""

    def __init__(self, other: Any) -> None:
        self.other = other

    def before_model_call(self, ctx: Any, request: ModelRequest) -> ModelRequest | None:
        return None if request.is_first_step else request.with_model(self.other)


@pytest.mark.parametrize(("first", "second"), [("responses", "chat"), ("chat", "responses")])
async def test_a_run_may_go_on_with_the_other_api(first: str, second: str) -> None:
    async with WireStage(VENDORS[first]) as stage, WireStage(VENDORS[second]) as other:
        thoughts = (Thought("Hm.", "c2ln"),) if first == "responses" else ()
        asks = Answer(parts=(*thoughts, Call("call_1", "population", '{"city": "Lyon"}')), reason="tool_calls")
        stage.play(asks)
        other.play(Answer(parts=(Said("So many."),)))
        result = await Agent(stage.model, tools=[population], middleware=[Switch(other.model)]).run("How many?")
        assert [turn[0] for turn in other.heard[0].turns] == ["user", "call", "result"]
    assert result.text == "So many."


SEARCH: dict[str, Any] = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "Lyon"},
}
CITED = {"type": "url_citation", "start_index": 0, "end_index": 8, "url": "https://example.org", "title": "Lyon"}
TEXT = {"type": "output_text", "text": "522,250.", "annotations": [CITED], "logprobs": []}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [TEXT],
}


def searched(asked: Asked) -> Reply:
    """Answer as the API does once it has searched the web."""
    response = {"id": ID, "object": "response", "status": "completed", "error": None, "output": [SEARCH, MESSAGE]}
    if not asked.body.get("stream"):
        return json_reply(response)
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": ID, "status": "in_progress"}}]
    for number, item in enumerate([SEARCH, MESSAGE]):
        begun = {**item, "status": "in_progress", **({"content": []} if item is MESSAGE else {})}
        events.append({"type": "response.output_item.added", "output_index": number, "item": begun})
        if item is SEARCH:
            events.append({"type": "response.web_search_call.searching", "output_index": number, "item_id": "ws_1"})
        else:
            at = {"output_index": number, "content_index": 0, "item_id": "msg_1"}
            events.append({"type": "response.output_text.delta", **at, "delta": "522,250."})
            events.append({"type": "response.output_text.annotation.added", **at, "annotation": CITED})
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    events.append({"type": "response.completed", "response": response})
    return Reply(content_type="text/event-stream", payload=b"".join(event(one, one["type"]) for one in events))


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "run"])
async def test_tools_of_the_vendor_pass_through(is_stream: bool) -> None:
    async with WireServer(searched) as server:
        model = OpenAIResponses("gpt-5.5", base_url=f"{server.origin}/v1")
        agent = Agent(model)
        if is_stream:
            run = agent.stream("How many people live in Lyon?")
            assert_events_valid(await collect(run))
            result = await run.result()
        else:
            result = await agent.run("How many people live in Lyon?")
        await agent.run([*result.messages, UserMessage("And in Nice?")])
    parts: Any = result.steps[0].response.message.parts
    assert parts[0] == ProviderPart(SEARCH, "openai-responses")
    assert (result.text, parts[2].data["annotations"]) == ("522,250.", [CITED])
    assert server.asked[1].body["input"][1:3] == [
        SEARCH,
        {"type": "message", "role": "assistant", "content": "522,250."},
    ]
