"""The strict servers themselves: what they refuse, and that bytes leave as they are told to."""

import asyncio
import json
import time
from typing import Any

import pytest
from msgspec import structs
from pydantic import TypeAdapter
from tests.providers.wire_server import Asked, Reply, WireServer, json_reply

openai = pytest.importorskip("openai", reason="needs pip install 'interpose[openai]'")

from tests.providers.chat_vendor import ChatVendor  # noqa: E402  # they need the SDK
from tests.providers.responses_vendor import ResponsesVendor  # noqa: E402
from tests.providers.stage import Vendor, WireStage  # noqa: E402

from interpose.errors import BadRequest, ModelTimeout, ProviderDown, ProviderError  # noqa: E402
from interpose.messages import UserMessage  # noqa: E402
from interpose.models import OpenAIChat, OpenAIResponses  # noqa: E402
from interpose.models.base import Finish, fold  # noqa: E402
from interpose.request import ModelRequest, Usage  # noqa: E402
from interpose.testing.model_contract import Answer, Call, Heard, Said, Thought  # noqa: E402

HEAD = {"authorization": "Bearer k", "content-type": "application/json"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def chat_problems(*messages: Any, **fields: Any) -> list[str]:
    body = {"model": "m", "messages": list(messages) or [USER], **fields}
    return ChatVendor().problems(Asked(method="POST", path="/v1/chat/completions", headers=HEAD, body=body))


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([{**USER, "x": 1}], "unknown field 'x'"),
        ([{"role": "user"}], "lacks 'content'"),
        ([{"role": "bard", "content": ""}], "'bard'"),
        ([USER, ASKS], "no answer to"),
        ([USER, ASKS, USER], "before the answers to"),
        ([USER, {"role": "tool", "tool_call_id": "c1", "content": "1"}], "nobody asked"),
        ([USER, {"role": "assistant", "content": None}], "says nothing"),
        ([USER, {**ASKS, "tool_calls": [{**CALL, "id": "x" * 41}]}], "longer than 40"),
        ([USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "[]"}}]}], "no object"),
        ([USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]}], "is no str"),
        ([USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "a.b", "arguments": "{}"}}]}], "'a.b'"),
    ],
)
def test_illegal_messages_are_refused(messages: list[Any], told: str) -> None:
    assert told in " ".join(chat_problems(*messages))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"top_k": 3}, "unknown field 'top_k'"),
        ({"temperature": "hot"}, "'hot'"),
        ({"tool_choice": "auto"}, "tool_choice without tools"),
        ({"tools": []}, "tools is empty"),
        ({"tools": [TOOL, TOOL]}, "occur twice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "not among the tools"),
        ({"max_tokens": 3}, "max_completion_tokens"),
        ({"stream_options": {"include_usage": True}}, "without stream"),
        ({"stop": list("abcde")}, "more than four"),
    ],
)
def test_illegal_fields_are_refused(fields: dict[str, Any], told: str) -> None:
    assert told in " ".join(chat_problems(**fields))


def test_a_legal_request_passes() -> None:
    answer = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    assert chat_problems(USER, ASKS, answer, tools=[TOOL], tool_choice="auto", stop=["x"]) == []


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
ASKED = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "1"}


def items_problems(*items: Any) -> list[str]:
    body = {"model": "m", "input": list(items), "store": False, "include": ["reasoning.encrypted_content"]}
    return ResponsesVendor().problems(Asked(method="POST", path="/v1/responses", headers=HEAD, body=body))


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([USER, ASKED], "no tool output found"),
        ([USER, RESULT], "no tool call found"),
        ([USER, ASKED, RESULT, RESULT], "no tool call found"),
        ([USER, THOUGHT, USER], "without its required following item"),
        ([USER, THOUGHT], "without its required following item"),
        ([USER, THOUGHT, ASKED, RESULT], "without its required following item"),
        ([USER, {**ASKED, "id": "fc_2"}, RESULT], "without its required reasoning item"),
        ([USER, {**THOUGHT, "encrypted_content": None}, ASKED, RESULT], "not persisted"),
        ([{**USER, "content": [{"type": "text", "text": "hi"}]}], "'text'"),
    ],
)
def test_illegal_items_are_refused(items: list[Any], told: str) -> None:
    assert told in " ".join(items_problems(*items))


def test_legal_items_pass() -> None:
    assert items_problems(USER, THOUGHT, {**ASKED, "id": "fc_2"}, RESULT, {"role": "assistant", "content": "so"}) == []


async def test_a_stage_fails_where_a_request_was_illegal() -> None:
    stage = await WireStage(ChatVendor()).__aenter__()
    with pytest.raises(ProviderError):
        await stage.model.generate(ModelRequest(messages=(UserMessage("hi"),)))
    with pytest.raises(AssertionError, match="no play is left"):
        await stage.__aexit__(None, None, None)


# Bytes


ANSWER = Answer(parts=(Said("Zü✓👍"), Call("call_1", "f", '{"a":"é"}')), reason="tool_calls")
APART = 61  # bytes between two cuts of one stream; over all of them every byte has its cut
THOUGHTFUL = Answer(parts=(Thought("ü", "c2ln"), *ANSWER.parts), reason="tool_calls")


@pytest.mark.parametrize(
    ("vendor", "answer"), [(ChatVendor(), ANSWER), (ResponsesVendor(), THOUGHTFUL)], ids=["chat", "responses"]
)
async def test_a_stream_reads_the_same_cut_at_every_byte(vendor: Vendor, answer: Answer) -> None:
    whole = vendor.answer(answer, Heard(model="m", is_stream=True))
    cuts = [(), *[tuple(range(first, len(whole.payload), APART)) for first in range(1, APART + 1)]]
    waiting = iter(cuts)
    reply = structs.replace(whole, piece_bytes=None)
    async with WireServer(lambda asked: structs.replace(reply, cuts=next(waiting))) as server:
        model = vendor.model(server.origin)
        request = ModelRequest(messages=(UserMessage("hi"),))
        found = [[chunk async for chunk in model.stream(request)] for _ in cuts]
    assert [number for number, chunks in enumerate(found) if chunks != found[0]] == []
    assert found[0][-1] == Finish("tool_calls")


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
async def test_slow_bytes_are_waited_for_and_silence_is_not(kind: Any) -> None:
    vendor: Vendor = ChatVendor() if kind is OpenAIChat else ResponsesVendor()
    whole = vendor.answer(Answer(parts=(Said("hi"),)), Heard(model="m", is_stream=True))
    piece_bytes = len(whole.payload) // 8
    replies = [
        Reply(content_type=whole.content_type, payload=whole.payload, piece_bytes=piece_bytes, delay_s=delay_s)
        for delay_s in (0.1, 0.6)
    ]
    async with WireServer(lambda asked: replies.pop(0)) as server:
        model = kind("m", base_url=f"{server.origin}/v1", timeout_s=0.4)
        request = ModelRequest(messages=(UserMessage("hi"),))
        assert (await fold(model.stream(request))).text == "hi"
        with pytest.raises(ModelTimeout, match="timeout_s"):
            await fold(model.stream(request))


@pytest.mark.parametrize("end", ["cut", "reset"])
async def test_a_connection_that_breaks_before_the_first_byte_is_an_outage(end: Any) -> None:
    async with WireServer(lambda asked: Reply(content_type="text/event-stream", end=end)) as server:
        with pytest.raises(ProviderDown):
            await fold(OpenAIChat("m", base_url=server.origin).stream(ModelRequest(messages=(UserMessage("hi"),))))


async def test_pieces_leave_one_by_one() -> None:
    reply = Reply(payload=b"abcdef", piece_bytes=2, delay_s=0.05)
    assert reply.pieces() == [b"ab", b"cd", b"ef"]
    async with WireServer(lambda asked: reply) as server:
        host, port = server.origin.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        started = time.monotonic()
        await reader.readuntil(b"2\r\nab\r\n")
        assert time.monotonic() - started < 0.05
        await reader.readuntil(b"ef\r\n")
        assert time.monotonic() - started > 0.09
        writer.close()


# Answers that are none


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
@pytest.mark.parametrize("body", ["text", [], {}, {"choices": [3], "output": [3]}])
async def test_nonsense_is_told_as_such(kind: Any, body: Any) -> None:
    async with WireServer(lambda asked: json_reply(body)) as server:
        with pytest.raises(ProviderError) as caught:
            await kind("m", base_url=server.origin).generate(ModelRequest(messages=(UserMessage("hi"),)))
    assert type(caught.value) is ProviderError


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
async def test_half_characters_in_a_request_are_replaced(kind: Any) -> None:
    vendor: Vendor = ChatVendor() if kind is OpenAIChat else ResponsesVendor()
    whole = vendor.answer(Answer(parts=(Said("ok"),)), Heard(model="m"))
    async with WireServer(lambda asked: whole) as server:
        request = ModelRequest(messages=(UserMessage("a\ud800"),))
        assert (await kind("m", base_url=f"{server.origin}/v1").generate(request)).text == "ok"
    assert "a\ufffd" in str(server.asked[0].body)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_number_that_json_has_not_is_a_bad_request(stream: bool) -> None:
    request = ModelRequest(messages=(UserMessage("hi"),)).with_temperature(float("nan"))
    async with WireServer(lambda asked: json_reply({})) as server:
        model = OpenAIChat("m", base_url=server.origin)
        with pytest.raises(ProviderError):
            await (fold(model.stream(request)) if stream else model.generate(request))


ERRORS: dict[str, tuple[Any, str]] = {
    "official": ({"error": {"message": "no luck", "type": "x", "param": None, "code": None}}, "no luck"),
    "list": ([{"error": {"code": 400, "message": "no luck", "status": "INVALID_ARGUMENT"}}], "no luck"),
    "text": ({"error": "no luck"}, "no luck"),
    "bare": ({"message": "no luck", "request_id": "x"}, "no luck"),
    "detail": ({"detail": "no luck"}, "no luck"),
    "none": ({"error": {"message": None}}, "message"),
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("shape", ERRORS)
async def test_messages_of_errors_are_found(shape: str, stream: bool) -> None:
    body, told = ERRORS[shape]
    request = ModelRequest(messages=(UserMessage("hi"),))
    async with WireServer(lambda asked: json_reply(body, 400)) as server:
        model = OpenAIChat("m", base_url=server.origin)
        with pytest.raises(BadRequest, match=f"openai:m failed with status 400: .*{told}"):
            await (fold(model.stream(request)) if stream else model.generate(request))


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
async def test_a_server_that_does_not_stream_is_read_all_the_same(kind: Any) -> None:
    vendor: Vendor = ChatVendor() if kind is OpenAIChat else ResponsesVendor()
    whole = vendor.answer(Answer(parts=(Said("hi"), Call("c1", "f"))), Heard(model="m"))
    async with WireServer(lambda asked: whole) as server:
        response = await fold(kind("m", base_url=server.origin).stream(ModelRequest(messages=(UserMessage("hi"),))))
    assert (response.text, [call.id for call in response.tool_calls]) == ("hi", ["c1"])


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(content_type="text/html", payload=b"<h1>Login</h1>"), "<h1>Login</h1>.*base_url right"),
        (json_reply({"error": "overloaded"}), "failed: overloaded"),
        (json_reply({"error": {"message": "overloaded", "code": 503}}), "failed: overloaded"),
    ],
    ids=["page", "text", "error"],
)
async def test_what_comes_in_place_of_a_stream_is_told(kind: Any, reply: Reply, told: str) -> None:
    async with WireServer(lambda asked: reply) as server:
        with pytest.raises(ProviderError, match=told):
            await fold(kind("m", base_url=server.origin).stream(ModelRequest(messages=(UserMessage("hi"),))))


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
async def test_cancelling_a_call_for_a_whole_answer_closes_the_connection(kind: Any) -> None:
    asked_for = asyncio.Event()

    def respond(asked: Asked) -> Reply:
        asked_for.set()
        return Reply(payload=b'{"id": ', end="hang")

    async with WireServer(respond) as server:
        model = kind("m", base_url=server.origin)
        task = asyncio.create_task(model.generate(ModelRequest(messages=(UserMessage("hi"),))))
        await asked_for.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.left.wait(), 5)


# What is played is what the vendor says: it fits the SDK's own types, field by field


def events_of(reply: Reply) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in reply.payload.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


FULL = Answer(
    parts=(Said("hi"), Call("call_1", "f", '{"a":1}')),
    reason="tool_calls",
    usage=Usage(9, 8, cache_read_tokens=1, reasoning_tokens=2),
)


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "tool_calls"])
def test_chat_answers_have_the_sdks_types(reason: str) -> None:
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    answer = structs.replace(FULL, reason=reason)
    for event in events_of(ChatVendor().answer(answer, Heard(model="m", is_stream=True))):
        ChatCompletionChunk.model_validate(event)
    ChatCompletion.model_validate_json(ChatVendor().answer(answer, Heard(model="m")).payload)


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
@pytest.mark.parametrize("mixed", [False, True])
def test_responses_have_the_sdks_types(reason: str, mixed: bool) -> None:
    from openai.types.responses import Response, ResponseStreamEvent

    answer = structs.replace(FULL, parts=(Thought("a\n\nb", "c2ln"), *FULL.parts), reason=reason, mixed=mixed)
    kinds: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in events_of(ResponsesVendor().answer(answer, Heard(model="m", is_stream=True))):
        assert type(kinds.validate_python(event)).model_fields["type"].annotation is not str, event
    Response.model_validate_json(ResponsesVendor().answer(answer, Heard(model="m")).payload)
