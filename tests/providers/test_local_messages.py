"""The Messages API against a real inference server with the embedded model: structure, and not text."""

import json
import time
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs pip install 'interpose[anthropic]'")

from tests.providers.test_local_server import Prefilled, population, request_of
from tests.providers.test_local_server import origin as origin  # the server, as a fixture

from interpose.agent import Agent
from interpose.errors import ContextTooLong
from interpose.messages import UserMessage
from interpose.models import AnthropicMessages
from interpose.models.base import Finish, TextDelta, fold
from interpose.request import ModelSettings

pytestmark = pytest.mark.local_model


@pytest.fixture
def model(origin: str) -> AnthropicMessages:
    return AnthropicMessages("smollm2", base_url=origin)


async def test_answer_streams_with_usage_and_finish(model: AnthropicMessages) -> None:
    chunks = [chunk async for chunk in model.stream(request_of(instructions="Be brief."))]
    assert sum(isinstance(chunk, TextDelta) for chunk in chunks) > 1
    assert isinstance(chunks[-1], Finish)
    response = await fold(model.stream(request_of()))
    assert response.usage is not None
    assert response.usage.input_tokens
    assert response.usage.output_tokens
    assert response.finish_reason in ("stop", "length")


async def test_input_is_counted_whole_also_where_it_came_from_the_cache(model: AnthropicMessages) -> None:
    first, second = [(await model.generate(request_of())).usage for _ in range(2)]
    assert first is not None
    assert second is not None
    assert first.input_tokens == second.input_tokens
    assert (second.cache_read_tokens or 0) <= (second.input_tokens or 0)


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_agent_calls_a_tool_and_answers(model: AnthropicMessages, streamed: bool) -> None:
    settings = ModelSettings(max_tokens=48, temperature=0)
    agent = Agent(model, tools=[population], middleware=[Prefilled()], settings=settings, post_model_hooks=())
    if streamed:
        async with agent.stream("How many people live in Lyon?") as run:
            result = await run.result()
    else:
        result = await agent.run("How many people live in Lyon?")
    first, second = result.steps
    (call,) = first.response.tool_calls
    assert (call.name, isinstance(call.args["city"], str)) == ("population", True)
    assert first.response.finish_reason == "tool_calls"
    assert first.tool_results[0].data == 522_000
    assert second.response.finish_reason in ("stop", "length")


async def test_a_request_that_is_too_long_is_told_as_such(model: AnthropicMessages) -> None:
    request = request_of(UserMessage("word " * 3000))
    for ask in (model.generate, lambda request: fold(model.stream(request))):
        with pytest.raises(ContextTooLong) as caught:
            await ask(request)
        assert caught.value.status_code == 400


async def test_leaving_early_stops_the_engine(model: AnthropicMessages) -> None:
    stream: Any = model.stream(request_of(UserMessage("Tell a long story."), max_tokens=1500))
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            break
    await stream.aclose()
    started = time.monotonic()
    await model.generate(request_of(max_tokens=1))
    assert time.monotonic() - started < 10  # the story takes far longer


async def test_bytes_in_the_history_are_sent_as_they_are(model: AnthropicMessages) -> None:
    odd = 'Zürich 👍 \u2028 "quoted" \\n'
    response = await model.generate(request_of(UserMessage(odd), instructions=odd, max_tokens=3))
    assert json.dumps(response.text)
