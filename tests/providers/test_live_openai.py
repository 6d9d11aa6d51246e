"""OpenAI itself: runs where OPENAI_API_KEY is set, and costs a few cents. INTERPOSE_LIVE_OPENAI names another model."""

import os
from typing import Any

import pytest

from interpose.agent import Agent
from interpose.errors import AuthFailed, BadRequest
from interpose.messages import UserMessage
from interpose.models import OpenAIChat, OpenAIResponses
from interpose.models.base import fold
from interpose.request import ModelRequest, ModelSettings
from interpose.tools import tool

KEY = os.environ.get("OPENAI_API_KEY")  # read here, since tests see an environment without keys
NAME = os.environ.get("INTERPOSE_LIVE_OPENAI", "gpt-5-mini")
KINDS = {"chat": OpenAIChat, "responses": OpenAIResponses}

pytestmark = [
    pytest.mark.skipif(not KEY, reason="needs OPENAI_API_KEY"),
    pytest.mark.timeout(180),
    pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys()),
]
SETTINGS = ModelSettings(max_tokens=2000)


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return {"Lyon": 522_250, "Nice": 348_085}[city]


def request_of(text: str) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(text),), settings=SETTINGS)


async def test_text_streamed_and_whole(kind: Any) -> None:
    model = kind(NAME, api_key=KEY)
    streamed: Any = await fold(model.stream(request_of("Say the word 'yes'.")))
    whole: Any = await model.generate(request_of("Say the word 'yes'."))
    for response in (streamed, whole):
        assert "yes" in response.text.lower()
        assert (response.finish_reason, response.usage.output_tokens > 0) == ("stop", True)


async def test_parallel_tools_and_a_second_turn(kind: Any) -> None:
    agent = Agent(kind(NAME, api_key=KEY), tools=[population], settings=SETTINGS)
    result = await agent.run("How many people live in Lyon and in Nice? Look both up, and name both numbers.")
    assert {call.args["city"] for step in result.steps for call in step.response.tool_calls} == {"Lyon", "Nice"}
    again = await agent.run([*result.messages, UserMessage("Which of the two is larger? Name it alone.")])
    assert "Lyon" in again.text


async def test_structured_output(kind: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"country": {"type": "string"}},
        "required": ["country"],
        "additionalProperties": False,
    }
    result = await Agent(kind(NAME, api_key=KEY), output=schema, settings=SETTINGS).run("Where is Lyon?")
    assert result.output["country"] == "France"


async def test_length_is_told(kind: Any) -> None:
    request = request_of("Count to a thousand in words.").with_max_tokens(64)
    assert (await kind(NAME, api_key=KEY).generate(request)).finish_reason == "length"


async def test_wrong_keys_and_models_are_told_apart(kind: Any) -> None:
    with pytest.raises(AuthFailed):
        await kind(NAME, api_key="sk-wrong").generate(request_of("hi"))
    with pytest.raises(BadRequest):
        await kind("no-such-model", api_key=KEY).generate(request_of("hi"))
