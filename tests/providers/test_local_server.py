"""Chat Completions and Responses against a real inference server with the embedded model: structure, and not text."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from interpose.agent import Agent
from interpose.errors import ContextTooLong, ProviderError
from interpose.messages import AssistantMessage, UserMessage
from interpose.middleware import Middleware
from interpose.models import OpenAIChat, OpenAIResponses
from interpose.models.base import Finish, TextDelta, fold
from interpose.models.local.files import embedded_file
from interpose.models.local.template import BARE_JSON
from interpose.request import ModelRequest, ModelSettings
from interpose.tools import tool

pytest.importorskip("openai", reason="needs pip install 'interpose[openai]'")
pytestmark = pytest.mark.local_model


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The address of llama.cpp's own HTTP server. One thread: more of them wait for each other, spinning."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(embedded_file())
    params.n_ctx, params.n_parallel = 2048, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_batch = params.n_ubatch = 64
    params.cache_ram_mib = 64
    params.verbosity = -1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.chat_template = BARE_JSON  # the model's own knows no tools
    server = xllamacpp.Server(params)
    address = str(server.listening_address)
    until = time.monotonic() + 30
    while not _is_ready(address):
        assert time.monotonic() < until, "the server did not load its model"
        time.sleep(0.05)
    yield address
    del server


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


KINDS = {"chat": OpenAIChat, "responses": OpenAIResponses}


@pytest.fixture(params=[*KINDS.values()], ids=[*KINDS])
def model(request: pytest.FixtureRequest, origin: str) -> Any:
    return request.param("smollm2", base_url=f"{origin}/v1")


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return 522_000


def request_of(*messages: Any, max_tokens: int = 12, **fields: Any) -> ModelRequest:
    settings = ModelSettings(max_tokens=max_tokens, temperature=0, tool_choice=fields.pop("choice", None))
    return ModelRequest(messages=messages or (UserMessage("Say hello."),), settings=settings, **fields)


class Prefilled(Middleware):
    """Begins each call that offers tools with a brace, after which the server's grammar forces a call."""

    def before_model_call(self, ctx: Any, request: ModelRequest) -> ModelRequest:
        if request.steps:
            return request.with_tools(())
        return request.with_tool_choice("required").with_messages([*request.messages, AssistantMessage("{")])


async def test_answer_streams_with_usage_and_finish(model: Any) -> None:
    chunks = [chunk async for chunk in model.stream(request_of(instructions="Be brief."))]
    assert sum(isinstance(chunk, TextDelta) for chunk in chunks) > 1
    assert isinstance(chunks[-1], Finish)
    response = await fold(model.stream(request_of()))
    assert response.usage is not None
    assert response.usage.input_tokens
    assert response.usage.output_tokens
    assert response.finish_reason in ("stop", "length")


async def test_whole_answer_has_text_and_usage(model: Any) -> None:
    response = await model.generate(request_of())
    assert response.text
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_agent_calls_a_tool_and_answers(model: Any, streamed: bool) -> None:
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
    assert first.tool_results[0].data == 522_000
    assert second.response.tool_calls == ()
    assert result.usage.output_tokens


async def test_output_fits_its_schema(origin: str) -> None:
    """The server reads the schema of Chat Completions only."""
    schema = {
        "type": "object",
        "properties": {"size": {"enum": ["small", "large"]}},
        "required": ["size"],
        "additionalProperties": False,
    }
    chat = OpenAIChat("smollm2", base_url=f"{origin}/v1")
    response = await chat.generate(request_of(UserMessage("Is Lyon large?"), output_schema=schema, max_tokens=32))
    assert json.loads(response.text)["size"] in ("small", "large")


async def test_a_request_that_is_too_long_is_told_as_such(model: Any) -> None:
    for ask in (model.generate, lambda request: fold(model.stream(request))):
        with pytest.raises(ContextTooLong, match="exceeds the available context size") as caught:
            await ask(request_of(UserMessage("word " * 3000)))
        assert (caught.value.status_code, caught.value.code) == (400, "exceed_context_size_error")


async def test_leaving_early_stops_the_engine(model: Any) -> None:
    stream = model.stream(request_of(UserMessage("Tell a long story."), max_tokens=1500))
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            break
    await stream.aclose()
    started = time.monotonic()
    await model.generate(request_of(max_tokens=1))
    assert time.monotonic() - started < 10  # the story takes far longer


async def test_calls_at_once_are_all_answered(model: Any) -> None:
    found = await asyncio.gather(*[model.generate(request_of(max_tokens=3)) for _ in range(3)])
    assert all(response.text for response in found)


async def test_an_unknown_place_is_told_with_what_to_do(origin: str) -> None:
    with pytest.raises(ProviderError, match="404"):
        await OpenAIChat("smollm2", base_url=f"{origin}/nowhere").generate(request_of())
