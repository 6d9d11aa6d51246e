"""The OpenAI adapter: its wire format by itself, and the whole of it against a server on the loopback interface."""

import asyncio
import importlib.util
import socket
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
from tests.chat_server import ChatServer, answer, events

from interpose.errors import (
    AuthFailed,
    BadRequest,
    ConfigurationError,
    ContextTooLong,
    ModelTimeout,
    ProviderDown,
    ProviderError,
    RateLimited,
)
from interpose.messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from interpose.models.base import Finish, MessageStart, ReasoningDelta, TextDelta, ToolCallDelta, UsageUpdate, fold
from interpose.models.guard import refuse_real_calls
from interpose.models.openai import Dialect, OpenAIChat, from_wire, to_wire
from interpose.models.provider_errors import error_of, retry_after_s
from interpose.models.wire_names import wire_names
from interpose.request import ModelRequest, ModelSettings, Usage
from interpose.tools import Tool, tool

live = pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="needs pip install 'interpose[openai]'")


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return len(city)


def named(name: str) -> Tool:
    return tool(lambda x: x, name=name, description="D.", parameters={"type": "object", "properties": {"x": {}}})


def request_of(*messages: Any, **fields: Any) -> ModelRequest:
    return ModelRequest(provider="openai", model="m", messages=messages or (UserMessage("hi"),), **fields)


def wired(*messages: Any, dialect: Dialect | None = None) -> list[dict[str, Any]]:
    body = to_wire(request_of(*messages), dialect or Dialect())
    return body["messages"]  # type: ignore[no-any-return]  # JSON


# The wire, there


def test_plain_request_is_model_and_messages_alone() -> None:
    body = to_wire(request_of(UserMessage("hi"), instructions="Be brief."))
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert body == {"model": "m", "messages": said}


def test_settings_go_by_their_names_on_the_wire() -> None:
    settings = ModelSettings(
        temperature=0.5,
        max_tokens=9,
        top_p=0.9,
        stop=("x",),
        seed=0,
        provider_options={"top_k": 3, "extra_query": {"a": 1}},
    )
    body = to_wire(request_of(settings=settings))
    del body["messages"], body["model"]
    assert body == {
        "temperature": 0.5, "max_completion_tokens": 9, "top_p": 0.9, "stop": ["x"], "seed": 0, "top_k": 3
    }  # fmt: skip


def test_compatible_servers_get_the_older_token_limit() -> None:
    body = to_wire(request_of(settings=ModelSettings(max_tokens=9)), Dialect(max_tokens_field="max_tokens"))
    assert body["max_tokens"] == 9


def test_tools_are_sent_with_their_schemas() -> None:
    body = to_wire(request_of(tools=(population,), settings=ModelSettings(parallel_tool_calls=False)))
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "population",
                "description": "Return how many people live in a city.",
                "parameters": population.parameters,
            },
        }
    ]
    assert body["parallel_tool_calls"] is False


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("population", {"type": "function", "function": {"name": "population"}}),
        ("gone", None),
    ],
)
def test_tool_choice_on_the_wire(choice: str, wire: Any) -> None:
    settings = ModelSettings(tool_choice=choice)
    assert to_wire(request_of(tools=(population,), settings=settings)).get("tool_choice") == wire


def test_without_tools_no_tool_field_is_sent() -> None:
    body = to_wire(request_of(settings=ModelSettings(tool_choice="required", parallel_tool_calls=True)))
    assert sorted(body) == ["messages", "model"]


def test_names_that_the_api_refuses_are_mended_and_stay_apart() -> None:
    names = wire_names([named("a.b"), named("a_b"), named("c" * 70), named("c" * 71)])
    assert names["a_b"] == "a_b"
    assert len(set(names.values())) == 4
    assert max(map(len, names.values())) == 64


def test_calls_and_results_in_history() -> None:
    call = ToolCall("c1", "population", {"city": "Lyon"})
    wire = wired(UserMessage("q"), AssistantMessage("let me see", tool_calls=(call,)), ToolMessage("5", "c1"))
    function = {"name": "population", "arguments": '{"city":"Lyon"}'}
    assert wire[1:] == [
        {
            "role": "assistant",
            "content": "let me see",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
    ]


def test_broken_arguments_in_history_are_wrapped_in_an_object() -> None:
    wire = wired(AssistantMessage(tool_calls=(ToolCall("c1", "f", '{"a": tru'),)), ToolMessage("bad", "c1"))  # type: ignore[arg-type]  # as a model sends them
    assert wire[0]["content"] is None
    assert wire[0]["tool_calls"][0]["function"]["arguments"] == '{"invalid_arguments":"{\\"a\\": tru"}'


def test_a_call_without_a_name_gets_one() -> None:
    wire = wired(AssistantMessage(tool_calls=(ToolCall("c1", ""),)), ToolMessage("bad", "c1"))
    assert wire[0]["tool_calls"][0]["function"]["name"] == "unnamed"


def test_pictures_of_results_follow_all_results_of_the_step() -> None:
    calls = (ToolCall("c1", "f"), ToolCall("c2", "f"))
    seen = ToolMessage("", "c1", parts=(TextPart("a chart"), ImagePart(url="https://x/y.png")))
    wire = wired(AssistantMessage(tool_calls=calls), seen, ToolMessage("2", "c2"), UserMessage("go on"))
    assert [message["role"] for message in wire] == ["assistant", "tool", "tool", "user", "user"]
    assert wire[1]["content"] == "a chart"
    assert wire[3]["content"][1] == {"type": "image_url", "image_url": {"url": "https://x/y.png"}}


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (TextPart("t"), {"type": "text", "text": "t"}),
        (ImagePart(data="QQ==", media_type="image/png"),
         {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}),
        (AudioPart(data="QQ==", media_type="audio/mpeg"),
         {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3"}}),
        (AudioPart(data="QQ==", media_type="audio/WAV; rate=16000"),
         {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}}),
        (FilePart(data="QQ==", media_type="text/plain; charset=utf-8"),
         {"type": "file", "file": {"filename": "file.txt", "file_data": "data:text/plain; charset=utf-8;base64,QQ=="}}),
        (FilePart(data="QQ==", media_type="application/pdf"),
         {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,QQ=="}}),
        (FilePart(file_id="f1"), {"type": "file", "file": {"file_id": "f1"}}),
        (ProviderPart({"type": "odd"}, "openai"), {"type": "odd"}),
    ],
)  # fmt: skip
def test_parts_on_the_wire(part: Any, wire: dict[str, Any]) -> None:
    assert wired(UserMessage(parts=(part,)))[0]["content"] == [wire]


def test_a_part_without_a_form_is_refused() -> None:
    with pytest.raises(BadRequest, match="AudioPart with a url"):
        wired(UserMessage(parts=(AudioPart(url="https://x/y.mp3"),)))


def test_parts_of_other_providers_are_left_out() -> None:
    assert wired(UserMessage(parts=(TextPart("t"), ProviderPart({}, "other"))))[0]["content"] == [
        {"type": "text", "text": "t"}
    ]


@pytest.mark.parametrize("send", [False, True])
def test_reasoning_goes_back_only_where_asked_for(send: bool) -> None:
    message = AssistantMessage(parts=(ReasoningPart("hm", "sig"), TextPart("yes")))
    wire = wired(SystemMessage("s"), message, dialect=Dialect(send_reasoning=send))
    assert wire[1] == {"role": "assistant", "content": "yes", **({"reasoning_content": "hm"} if send else {})}


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "title": "My Answer", "properties": {"a": {"type": "string"}}}


def test_closed_output_schema_is_strict() -> None:
    body = to_wire(request_of(output_schema=CLOSED))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": CLOSED, "strict": True},
    }


@pytest.mark.parametrize(
    "schema",
    [OPEN, {**CLOSED, "allOf": [{}]}, {**CLOSED, "properties": {"a": OPEN}}, {**CLOSED, "properties": {"a": {}}}],
)
def test_open_output_schema_is_sent_without_strict(schema: dict[str, Any]) -> None:
    sent = to_wire(request_of(output_schema=schema))["response_format"]["json_schema"]
    assert sent == {"name": "My_Answer" if schema is OPEN else "output", "schema": schema}


def test_output_that_is_no_object_is_told_in_words() -> None:
    body = to_wire(request_of(output_schema={"type": "array"}, instructions="Be brief."))
    assert "response_format" not in body
    told = 'Be brief.\n\nAnswer only with JSON that fits this schema: {"type":"array"}'
    assert body["messages"][0] == {"role": "system", "content": told}


# The wire, back


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}


@pytest.mark.parametrize(
    ("wire", "chunks"),
    [
        (chunk(role="assistant", content=""), []),
        (chunk(content="a"), [TextDelta("a")]),
        (chunk(content=[{"type": "text", "text": "a"}]), [TextDelta("a")]),
        (chunk(refusal="no"), [TextDelta("no")]),
        (chunk(reasoning_content="hm"), [ReasoningDelta("hm")]),
        (chunk(reasoning="hm", content="a"), [ReasoningDelta("hm"), TextDelta("a")]),
        (chunk(tool_calls=[{"index": 1, "id": "c", "function": {"name": "f", "arguments": "{"}}]),
         [ToolCallDelta(1, "c", "f", "{")]),
        (chunk(tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}]),
         [ToolCallDelta(None, None, "f", '{"a":1}')]),
        (chunk(tool_calls=[{"index": 0, "function": {"name": "a_b"}}]), [ToolCallDelta(0, None, "a.b")]),
        (chunk("stop"), [Finish("stop")]),
        (chunk("function_call"), [Finish("tool_calls")]),
        (chunk("weird"), [Finish("unknown")]),
    ],
)  # fmt: skip
def test_chunks_from_the_wire(wire: dict[str, Any], chunks: list[Any]) -> None:
    assert list(from_wire(wire, {"a_b": "a.b"})) == [MessageStart("r1"), *chunks]


def test_usage_from_the_wire() -> None:
    told = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    expected = Usage(input_tokens=10, output_tokens=4, total_tokens=14, cache_read_tokens=8, reasoning_tokens=0)
    assert list(from_wire({"id": "r1", "choices": [], "usage": told})) == [UsageUpdate(expected)]


def test_second_choices_are_not_read() -> None:
    assert list(from_wire({"choices": [{"index": 1, "delta": {"content": "b"}}]})) == []


# Errors


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(5, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_servers_wait_hint(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now_s=1_000_000) == seconds


@pytest.mark.parametrize(
    ("status", "error", "kind", "retryable"),
    [
        (400, {"message": "odd"}, BadRequest, False),
        (400, {"message": "x", "code": "context_length_exceeded"}, ContextTooLong, False),
        (400, {"message": "This model's maximum context length is 9 tokens"}, ContextTooLong, False),
        (400, {"message": "x", "type": "exceed_context_size_error", "code": 400}, ContextTooLong, False),
        (401, {"message": "x"}, AuthFailed, False),
        (403, {"message": "x"}, AuthFailed, False),
        (404, {"message": "x", "code": "model_not_found"}, BadRequest, False),
        (409, {"message": "x"}, BadRequest, True),
        (429, {"message": "Request too large: too many tokens"}, RateLimited, True),
        (429, {"message": "x", "code": "insufficient_quota"}, RateLimited, False),
        (500, {"message": "x"}, ProviderDown, True),
        (501, {"message": "x"}, ProviderDown, False),
        (None, {"message": "x", "code": 429}, RateLimited, True),
        (None, {"message": "x", "code": "overloaded"}, ProviderDown, True),
        (None, {"message": "x", "code": "odd"}, ProviderError, False),
        (None, "plain", ProviderError, False),
    ],
)
def test_what_an_error_means(status: int | None, error: Any, kind: type[ProviderError], retryable: bool) -> None:
    message = error["message"] if isinstance(error, dict) else error
    got = error_of(message, provider="openai", model="m", body={"error": error}, status_code=status)
    assert (type(got), got.retryable, got.status_code) == (kind, retryable, status)


# The whole, against a server


def model_at(server: ChatServer, **options: Any) -> OpenAIChat:
    return OpenAIChat("m", base_url=server.base_url, api_key="k", **options)


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
ANSWER = [chunk(role="assistant", content=""), chunk(content="Zürich "), chunk(content="✓"), chunk("stop")]
TOLD = {"id": "r1", "choices": [], "usage": USAGE}


@live
@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 20])
async def test_stream_whatever_the_pieces(piece_bytes: int) -> None:
    async with ChatServer(events(*ANSWER, TOLD, piece_bytes=piece_bytes)) as server:
        chunks = [item async for item in model_at(server).stream(request_of())]
    usage = UsageUpdate(Usage(input_tokens=3, output_tokens=2, total_tokens=5))
    assert chunks == [MessageStart("r1"), TextDelta("Zürich "), TextDelta("✓"), usage, Finish("stop")]


@live
async def test_stream_asks_for_usage_and_names_the_model() -> None:
    async with ChatServer(events(*ANSWER)) as server:
        model = model_at(server, extra_headers={"x-team": "a"})
        await fold(model.stream(request_of().replace(model="")))
    body, headers = server.bodies[0], server.headers[0]
    assert (body["model"], body["stream"], body["stream_options"]) == ("m", True, {"include_usage": True})
    assert (headers["authorization"], headers["x-team"]) == ("Bearer k", "a")


@live
async def test_parallel_calls_come_whole_under_the_tools_own_names() -> None:
    first = [{"index": 0, "id": "a", "function": {"name": "x_y", "arguments": ""}}]
    second = [{"index": 1, "id": "b", "function": {"name": "x_y", "arguments": '{"x":2}'}}]
    late = [{"index": 0, "function": {"arguments": '{"x":1}'}}]
    deltas = [chunk(tool_calls=calls) for calls in (first, second, late)]
    async with ChatServer(events(*deltas, chunk("tool_calls"))) as server:
        response = await fold(model_at(server).stream(request_of(tools=(named("x.y"),))))
    assert [(call.id, call.name, call.args) for call in response.tool_calls] == [
        ("a", "x.y", {"x": 1}),
        ("b", "x.y", {"x": 2}),
    ]
    assert response.finish_reason == "tool_calls"


@live
async def test_generate_gives_what_stream_gives() -> None:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ("a", "b")]
    message = {"role": "assistant", "content": "Zürich ✓", "reasoning_content": "hm", "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    async with ChatServer(answer({"id": "r1", "choices": [choice], "usage": USAGE})) as server:
        response = await model_at(server).generate(request_of())
    assert "stream" not in server.bodies[0]
    assert (response.text, response.message.reasoning, response.usage) == (
        "Zürich ✓",
        "hm",
        Usage(input_tokens=3, output_tokens=2, total_tokens=5),
    )
    assert [call.id for call in response.tool_calls] == ["a", "b"]


type_of_call = Callable[[OpenAIChat, ModelRequest], Any]
CALLS: dict[str, type_of_call] = {
    "stream": lambda model, request: fold(model.stream(request)),
    "generate": lambda model, request: model.generate(request),
}
both = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@live
@both
async def test_a_refusal_carries_what_the_server_told(call: type_of_call) -> None:
    refusal = answer(
        {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, 429, retry_after="5", x_request_id="q1"
    )
    async with ChatServer(refusal) as server:
        with pytest.raises(RateLimited, match="openai:m failed with status 429: slow down") as caught:
            await call(model_at(server), request_of())
    error = caught.value
    assert (error.status_code, error.retry_after_s, error.request_id, error.code) == (
        429,
        5.0,
        "q1",
        "rate_limit_exceeded",
    )
    assert (error.provider, error.model) == ("openai", "m")


@live
@both
async def test_a_refusal_that_is_no_json_shows_its_text(call: type_of_call) -> None:
    async with ChatServer(answer("<h1>Bad gateway</h1>", 502)) as server:
        with pytest.raises(ProviderDown, match="Bad gateway"):
            await call(model_at(server), request_of())


@live
@both
async def test_the_sdk_does_not_try_again(call: type_of_call) -> None:
    async with ChatServer(answer({"error": {"message": "x"}}, 503)) as server:
        with pytest.raises(ProviderDown):
            await call(model_at(server), request_of())
    assert len(server.bodies) == 1


@live
async def test_an_error_inside_the_stream_comes_after_the_text() -> None:
    error = {"error": {"message": "too busy", "code": "overloaded"}}
    async with ChatServer(events(chunk(content="he"), error, x_request_id="q1")) as server:
        stream = model_at(server).stream(request_of())
        assert [await anext(stream), await anext(stream)] == [MessageStart("r1"), TextDelta("he")]
        with pytest.raises(ProviderError, match="too busy") as caught:
            await anext(stream)
    assert (caught.value.code, caught.value.request_id, caught.value.status_code) == ("overloaded", "q1", None)


@live
async def test_an_error_in_place_of_a_completion() -> None:
    async with ChatServer(answer({"error": {"message": "no luck", "code": 503}})) as server:
        with pytest.raises(ProviderDown, match="no luck"):
            await model_at(server).generate(request_of())


@live
async def test_a_cut_connection_is_an_outage() -> None:
    async with ChatServer(events(chunk(content="he"), end="cut")) as server:
        with pytest.raises(ProviderDown, match="broke while the answer came in") as caught:
            await fold(model_at(server).stream(request_of()))
    assert caught.value.retryable


@live
async def test_an_end_without_a_finish_reason_is_a_cut() -> None:
    async with ChatServer(events(chunk(content="he"))) as server:
        with pytest.raises(ProviderError, match="cut off"):
            await fold(model_at(server).stream(request_of()))


@live
@pytest.mark.parametrize("odd", ["{broken", '"text"', '{"choices": [3]}'])
async def test_nonsense_in_the_stream_is_a_provider_error(odd: str) -> None:
    async with ChatServer(events(odd)) as server:
        with pytest.raises(ProviderError, match="no chat completion"):
            await fold(model_at(server).stream(request_of()))


@live
async def test_silence_is_a_timeout() -> None:
    async with ChatServer(events(chunk(content="he"), end="hang")) as server:
        with pytest.raises(ModelTimeout, match="timeout_s"):
            await fold(model_at(server, timeout_s=0.2).stream(request_of()))


@live
async def test_leaving_early_closes_the_connection() -> None:
    async with ChatServer(events(chunk(content="he"), end="hang")) as server:
        stream = model_at(server).stream(request_of())
        async for item in stream:
            if isinstance(item, TextDelta):
                break
        await stream.aclose()  # type: ignore[attr-defined]  # a generator
        await asyncio.wait_for(server.left.wait(), 5)


@live
async def test_cancelling_closes_the_connection() -> None:
    async with ChatServer(events(chunk(content="he"), end="hang")) as server:
        stream = model_at(server).stream(request_of())
        await anext(stream)
        task = asyncio.create_task(fold(stream))
        await asyncio.sleep(0.05)  # the text is read, and the server is silent
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.left.wait(), 5)


@live
@both
async def test_an_unreachable_server_is_named(call: type_of_call) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ProviderDown, match=rf"cannot reach {url} .*base_url is right"):
        await call(OpenAIChat("m", base_url=url), request_of())


@live
@both
async def test_a_missing_key_is_named_at_the_first_call(call: type_of_call) -> None:
    with pytest.raises(AuthFailed, match="OPENAI_API_KEY"):
        await call(OpenAIChat("gpt-x"), request_of())


@live
@both
@pytest.mark.parametrize("key", ["sk-\u201cabc\u201d", "sk abc", "sk-\x00abc"])
async def test_a_key_that_is_none_is_told_without_showing_it(call: type_of_call, key: str) -> None:
    with pytest.raises(AuthFailed, match="characters that no key has") as caught:
        await call(OpenAIChat("gpt-x", api_key=key), request_of())
    assert "abc" not in str(caught.value)


@live
async def test_blanks_round_a_key_are_no_part_of_it() -> None:
    async with ChatServer(events(*ANSWER)) as server:
        await fold(OpenAIChat("m", base_url=server.base_url, api_key=" k\n").stream(request_of()))
    assert server.headers[0]["authorization"] == "Bearer k"


@live
@both
async def test_real_calls_can_be_forbidden(call: type_of_call) -> None:
    with refuse_real_calls(), pytest.raises(ConfigurationError, match="openai:m"):
        await call(OpenAIChat("m", api_key="k"), request_of())


@live
def test_one_model_serves_one_loop_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OpenAIChat("m", api_key="k")

    async def ask() -> str:
        async with ChatServer(events(*ANSWER)) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            return (await fold(model.stream(request_of()))).text

    assert [asyncio.run(ask()), asyncio.run(ask())] == ["Zürich ✓", "Zürich ✓"]
    assert model._connection._clients._held == {}


@live
async def test_a_clients_own_settings_hold_but_for_retries() -> None:
    openai = pytest.importorskip("openai")
    async with (
        ChatServer(answer({"error": {"message": "x"}}, 500)) as server,
        openai.AsyncOpenAI(api_key="own", base_url=server.base_url, max_retries=5) as client,
    ):
        with pytest.raises(ProviderDown):
            await OpenAIChat("m", client=client).generate(request_of())
    assert [headers["authorization"] for headers in server.headers] == ["Bearer own"]
