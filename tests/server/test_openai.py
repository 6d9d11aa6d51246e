"""The OpenAI-compatible API, used with OpenAI's own Python SDK."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from tests.server.serving import served
from tests.server.test_reconnect import Gate, waiting

from interpose import Agent, ContextTooLong, ProviderDown, RateLimited, Usage, tool
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, fail, text

HI: list[Any] = [{"role": "user", "content": "Hi"}]
CLIENTS_TOOL: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "locate",
            "description": "Say where the user is.",
            "parameters": {"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]},
        },
    }
]


@tool
def look(where: str) -> str:
    """Look somewhere."""
    return "a door"


@asynccontextmanager
async def client_of(agent: Agent[Any], **options: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        served(agent, **options) as site,
        openai.AsyncOpenAI(base_url=f"{site.base_url}/v1", api_key="tok", max_retries=0) as client,
    ):
        yield client


async def test_models_are_the_agents() -> None:
    async with client_of(Agent(ScriptedModel("Hi."))) as client:
        assert [one.id async for one in client.models.list()] == ["a"]
        assert (await client.models.retrieve("a")).id == "a"


async def test_answer_and_usage() -> None:
    agent = Agent(ScriptedModel(text("Hello.", usage=Usage(7, 2))))
    async with client_of(agent) as client:
        answer = await client.chat.completions.create(model="a", messages=HI)
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason, answer.model) == ("Hello.", "stop", "a")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (7, 2, 9)


async def test_stream_comes_in_pieces_with_usage_last() -> None:
    agent = Agent(ScriptedModel(text(chunks=["He", "l", "lo."], usage=Usage(7, 2))))
    async with client_of(agent) as client:
        stream = await client.chat.completions.create(
            model="a", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        found = [chunk async for chunk in stream]
    said = [one.choices[0].delta.content for one in found if one.choices]
    assert said == ["", "He", "l", "lo.", None]
    assert found[-1].usage is not None
    assert found[-1].usage.total_tokens == 9
    assert found[-2].choices[0].finish_reason == "stop"
    assert len({one.id for one in found}) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_agents_own_tools_run_on_the_server(stream: bool) -> None:
    model = ScriptedModel(calls(("look", {"where": "x"}), ("look", {"where": "y"}), text="Let me see."), "A door.")
    async with client_of(Agent(model, tools=[look])) as client:
        assert await said(client, stream) == "Let me see.\n\nA door."


async def said(client: openai.AsyncOpenAI, stream: bool, **options: Any) -> str:
    given: dict[str, Any] = {"model": "a", "messages": HI, **options}
    if not stream:
        return (await client.chat.completions.create(**given)).choices[0].message.content or ""
    chunks = await client.chat.completions.create(**given, stream=True)
    return "".join([one.choices[0].delta.content or "" async for one in chunks])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_call_that_needs_approval_is_withdrawn(stream: bool) -> None:
    ran: list[int] = []

    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        ran.append(1)
        return "paid"

    model = ScriptedModel(calls(("pay", {})), "I may not.")
    async with client_of(Agent(model, tools=[pay], store=MemoryStore())) as client:
        assert await said(client, stream) == "I may not."
    assert ran == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (RateLimited("key sk-1"), openai.RateLimitError, 429),
        (ContextTooLong("key sk-1"), openai.BadRequestError, 400),
        (ProviderDown("key sk-1"), openai.InternalServerError, 503),
        (RuntimeError("key sk-1"), openai.InternalServerError, 500),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_failures_are_those_of_the_sdk(stream: bool, error: Exception, kind: Any, status: int) -> None:
    async with client_of(Agent(ScriptedModel(fail(error)))) as client:
        with pytest.raises(kind) as raised:
            await said(client, stream)
    assert raised.value.status_code == status
    assert "sk-1" not in str(raised.value)


async def test_failure_amid_a_stream_raises_in_the_sdk() -> None:
    async with client_of(Agent(ScriptedModel(fail(RuntimeError("key sk-1"), after=["Half"])))) as client:
        with pytest.raises(openai.APIError) as raised:
            await said(client, stream=True)
    assert "error id" in str(raised.value)
    assert "sk-1" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages"),
        ({"messages": [{"role": "tool", "tool_call_id": "c1", "content": "x"}]}, "'c1'"),
        ({"n": 2}, "`n`"),
        ({"logprobs": True}, "logprobs"),
        ({"functions": [{"name": "f", "parameters": {}}]}, "functions"),
        ({"logit_bias": {"50256": -100}}, "logit_bias"),
        ({"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
        ({"messages": [{"role": "system", "content": "Obey."}]}, "system messages"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": CLIENTS_TOOL}, "client_tools=True"),
        ({"stream": "yes"}, "stream"),
    ],
    ids=str,
)
async def test_what_cannot_be_given_is_refused(changes: dict[str, Any], named: str) -> None:
    async with client_of(Agent(ScriptedModel("Hi."))) as client:
        with pytest.raises(openai.APIStatusError) as raised:
            await client.chat.completions.create(**{"model": "a", "messages": HI, **changes})
        assert named in str(raised.value)
        assert raised.value.status_code in (400, 422)
        assert await said(client, False) == "Hi."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_sdk_does_not_try_again_what_has_called_tools(stream: bool) -> None:
    ran: list[int] = []

    @tool
    def pay() -> str:
        """Pay."""
        ran.append(1)
        return "paid"

    turns = [calls(("pay", {})), fail(ProviderDown("away"))] * 3
    async with client_of(Agent(ScriptedModel(*turns), tools=[pay])) as client:
        with pytest.raises(openai.InternalServerError):
            await said(client.with_options(max_retries=2), stream)
    assert ran == [1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_sdk_tries_again_what_has_done_nothing(stream: bool) -> None:
    async with client_of(Agent(ScriptedModel(fail(ProviderDown("away")), "Hi."))) as client:
        assert await said(client.with_options(max_retries=1), stream) == "Hi."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_system_messages_that_are_left_out_are_named(stream: bool) -> None:
    async with client_of(Agent(ScriptedModel("Hi."))) as client:
        messages: list[Any] = [{"role": "developer", "content": "Obey."}, *HI]
        raw = await client.chat.completions.with_raw_response.create(model="a", messages=messages, stream=stream)
        await raw.http_response.aread()
    assert raw.headers["interpose-left-out"] == "system messages"


async def test_unknown_model_and_wrong_key() -> None:
    async with client_of(Agent(ScriptedModel("Hi.")), auth="other") as client:
        with pytest.raises(openai.AuthenticationError):
            await said(client, False)
        with pytest.raises(openai.NotFoundError, match="GET /v1/models"):
            await client.with_options(api_key="other").chat.completions.create(model="gpt", messages=HI)


async def test_settings_of_the_client_reach_the_model_below_the_agents_own() -> None:
    from interpose import ModelSettings

    model = ScriptedModel("Hi.", "Hi.")
    async with client_of(Agent(model, settings=ModelSettings(max_tokens=50, temperature=0.1))) as client:
        await said(client, False, temperature=0.7, max_tokens=900, stop=["END"], seed=3)
        await said(client, False)
    first, second = [one.settings for one in model.requests]
    assert (first.temperature, first.max_tokens, first.stop, first.seed) == (0.7, 50, ("END",), 3)
    assert (second.temperature, second.max_tokens, second.stop) == (0.1, 50, None)


@pytest.mark.parametrize("allowed", [False, True])
async def test_system_messages_reach_the_model_only_where_allowed(allowed: bool) -> None:
    model = ScriptedModel("Hi.")
    async with client_of(Agent(model), client_system_messages=allowed) as client:
        await said(client, False, messages=[{"role": "system", "content": "Obey."}, *HI])
    assert [one.text for one in model.requests[0].messages] == (["Obey.", "Hi"] if allowed else ["Hi"])


async def test_nothing_is_left_in_the_store() -> None:
    store = MemoryStore()
    async with client_of(Agent(ScriptedModel("Hi."), store=store)) as client:
        await said(client, False)
    assert (store._threads, store._runs) == ({}, {})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_clients_tools_are_run_by_the_client(stream: bool) -> None:
    model = ScriptedModel(calls(("locate", {"how": "gps"}), ("look", {"where": "x"}), text="Where?"), "In Lyon.")
    async with client_of(Agent(model, tools=[look]), client_tools=True) as client:
        given: dict[str, Any] = {"model": "a", "messages": HI, "tools": CLIENTS_TOOL}
        if stream:
            async with client.chat.completions.stream(**given) as chunks:
                answer: Any = await chunks.get_final_completion()
        else:
            answer = await client.chat.completions.create(**given)
        (choice,) = answer.choices
        (call,) = choice.message.tool_calls
        assert (choice.finish_reason, call.function.name, call.function.arguments) == (
            "tool_calls",
            "locate",
            '{"how":"gps"}',
        )
        given["messages"] = [
            *HI,
            choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
            {"role": "tool", "tool_call_id": call.id, "content": "Lyon"},
        ]
        last = await client.chat.completions.create(**given)
    assert last.choices[0].message.content == "In Lyon."
    assert model.requests[1].messages[-1].text == "Lyon"


async def test_clients_tool_without_a_name_is_refused() -> None:
    nameless: list[Any] = [{"type": "function", "function": {"name": ""}}]
    async with client_of(Agent(ScriptedModel("Hi.")), client_tools=True) as client:
        with pytest.raises(openai.UnprocessableEntityError, match="name"):
            await client.chat.completions.create(model="a", messages=HI, tools=nameless)


async def test_clients_tool_may_not_take_the_name_of_the_agents() -> None:
    mine: Any = [{"type": "function", "function": {"name": "look"}}]
    async with client_of(Agent(ScriptedModel("Hi."), tools=[look]), client_tools=True) as client:
        with pytest.raises(openai.UnprocessableEntityError, match="look"):
            await said(client, False, tools=mine)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_run_is_cancelled_when_its_client_goes(stream: bool) -> None:
    gate = Gate()
    ended = asyncio.Event()
    from interpose import on_abort

    @on_abort
    def note(ctx: Any, info: Any) -> None:
        ended.set()

    agent = waiting(gate).copy(middleware=[note])
    async with client_of(agent) as client:
        asking = asyncio.ensure_future(said(client, stream))
        await gate.entered.wait()
        asking.cancel()
        async with asyncio.timeout(5):
            await ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_sync_sdk_works_too() -> None:
    async with served(Agent(ScriptedModel("Hi."))) as site:
        with openai.OpenAI(base_url=f"{site.base_url}/v1", api_key="x") as client:
            answer = await asyncio.to_thread(client.chat.completions.create, model="a", messages=HI)
    assert answer.choices[0].message.content == "Hi."
