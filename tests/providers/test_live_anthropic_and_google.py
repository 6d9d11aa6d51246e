"""Anthropic and Google themselves: each runs where its key is set, and costs a few cents.

INTERPOSE_LIVE_ANTHROPIC and INTERPOSE_LIVE_GOOGLE name other models.
"""

import os
from typing import Any

import pytest

from interpose.agent import Agent
from interpose.errors import AuthFailed, BadRequest
from interpose.messages import UserMessage
from interpose.models import AnthropicMessages, GoogleGemini
from interpose.models.base import fold
from interpose.request import ModelRequest, ModelSettings
from interpose.tools import tool

# Keys are read here, since tests see an environment without them.
ANTHROPIC_KEY = os.environ.get("ANTHROPIC_API_KEY")
GOOGLE_KEY = os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY")
ANTHROPIC = os.environ.get("INTERPOSE_LIVE_ANTHROPIC", "claude-haiku-4-5")
GOOGLE = os.environ.get("INTERPOSE_LIVE_GOOGLE", "gemini-3.5-flash")

THINKING: dict[str, dict[str, Any]] = {
    ANTHROPIC: {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    GOOGLE: {"thinkingConfig": {"includeThoughts": True}},
}
pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.parametrize(
        ("kind", "name", "key"),
        [
            pytest.param(
                AnthropicMessages,
                ANTHROPIC,
                ANTHROPIC_KEY,
                id="anthropic",
                marks=pytest.mark.skipif(not ANTHROPIC_KEY, reason="needs ANTHROPIC_API_KEY"),
            ),
            pytest.param(
                GoogleGemini,
                GOOGLE,
                GOOGLE_KEY,
                id="google",
                marks=pytest.mark.skipif(not GOOGLE_KEY, reason="needs GEMINI_API_KEY"),
            ),
        ],
    ),
]
SETTINGS = ModelSettings(max_tokens=4000)


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return {"Lyon": 522_250, "Nice": 348_085}[city]


def request_of(text: str) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(text),), settings=SETTINGS)


async def test_text_streamed_and_whole(kind: Any, name: str, key: str) -> None:
    model = kind(name, api_key=key)
    streamed: Any = await fold(model.stream(request_of("Say the word 'yes'.")))
    whole: Any = await model.generate(request_of("Say the word 'yes'."))
    for response in (streamed, whole):
        assert "yes" in response.text.lower()
        assert (response.finish_reason, response.usage.output_tokens > 0) == ("stop", True)


@pytest.mark.parametrize("thinks", [False, True])
async def test_parallel_tools_and_a_second_turn(kind: Any, name: str, key: str, thinks: bool) -> None:
    settings = SETTINGS.replace(provider_options=THINKING[name] if thinks else {})
    agent = Agent(kind(name, api_key=key), tools=[population], settings=settings)
    async with agent.stream("How many people live in Lyon and in Nice? Look both up, name both numbers.") as run:
        result = await run.result()
    assert {call.args["city"] for step in result.steps for call in step.response.tool_calls} == {"Lyon", "Nice"}
    again = await agent.run([*result.messages, UserMessage("Which of the two is larger? Name it alone.")])
    assert "Lyon" in again.text


async def test_structured_output(kind: Any, name: str, key: str) -> None:
    schema = {
        "type": "object",
        "properties": {"country": {"type": "string"}},
        "required": ["country"],
        "additionalProperties": False,
    }
    result = await Agent(kind(name, api_key=key), output=schema, settings=SETTINGS).run("Where is Lyon?")
    assert result.output["country"] == "France"


async def test_length_is_told(kind: Any, name: str, key: str) -> None:
    request = request_of("Count to a thousand in words.").with_max_tokens(64)
    assert (await kind(name, api_key=key).generate(request)).finish_reason == "length"


async def test_wrong_keys_and_models_are_told_apart(kind: Any, name: str, key: str) -> None:
    with pytest.raises(AuthFailed):
        await kind(name, api_key="wrong").generate(request_of("hi"))
    with pytest.raises(BadRequest):
        await kind("no-such-model", api_key=key).generate(request_of("hi"))
