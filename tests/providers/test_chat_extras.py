"""What servers add to Chat Completions: recorded shapes, read, kept and sent back."""

from typing import Any

import pytest

from interpose.messages import AssistantMessage, ProviderPart, ReasoningPart, ToolCall, UserMessage
from interpose.models.base import Finish, ModelChunk, ReasoningDelta, TextDelta, as_stream, fold
from interpose.models.openai import Dialect, to_wire
from interpose.models.openai.dialect import COMPATIBLE, OFFICIAL
from interpose.models.openai.extras import merge_extras
from interpose.models.openai.reading import ChatReader, usage_of
from interpose.request import ModelRequest, ModelResponse

GEMINI_CALL = {
    "extra_content": {"google": {"thought_signature": "CpcBAdHtim8="}},
    "function": {"arguments": '{"city":"Lyon"}', "name": "population"},
    "id": "function-call-1",
    "type": "function",
}


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


async def read(*chunks: dict[str, Any], keep: bool = True) -> ModelResponse:
    reader = ChatReader({}, keep, "p")
    said: list[ModelChunk] = [one for data in chunks for one in reader.read(data)]
    return await fold(as_stream([*said, *reader.end()]))


def sent(message: AssistantMessage, dialect: Dialect = COMPATIBLE, provider: str = "p") -> dict[str, Any]:
    request = ModelRequest(provider=provider, model="m", messages=(UserMessage("q"), message))
    return to_wire(request, dialect)["messages"][1]  # type: ignore[no-any-return]  # JSON


async def test_signature_of_a_call_goes_back_with_its_call() -> None:
    response = await read(chunk("tool_calls", role="assistant", tool_calls=[GEMINI_CALL]))
    assert sent(response.message)["tool_calls"] == [GEMINI_CALL]


async def test_signatures_of_parallel_calls_do_not_mix() -> None:
    other = {**GEMINI_CALL, "id": "function-call-2", "extra_content": {"google": {"thought_signature": "two"}}}
    plain = {key: value for key, value in GEMINI_CALL.items() if key != "extra_content"} | {"id": "function-call-3"}
    calls = [{**call, "index": 0} for call in (GEMINI_CALL, other, plain)]  # that server counts them all as the first
    response = await read(*[chunk(tool_calls=[call]) for call in calls], chunk("stop"))
    assert sent(response.message)["tool_calls"] == [GEMINI_CALL, other, plain]


async def test_signature_stays_with_a_call_whose_id_was_replaced() -> None:
    response = await read(chunk("tool_calls", tool_calls=[{**GEMINI_CALL, "id": ""}]))
    again = sent(response.message)["tool_calls"][0]
    assert again["id"] == response.tool_calls[0].id != ""
    assert again["extra_content"] == GEMINI_CALL["extra_content"]


async def test_signature_of_a_call_that_was_removed_goes_nowhere() -> None:
    response = await read(chunk("tool_calls", tool_calls=[GEMINI_CALL]))
    other = response.message.replace(tool_calls=())
    assert sent(other) == {"role": "assistant", "content": ""}


async def test_details_of_reasoning_come_in_pieces_and_go_back_joined() -> None:
    def piece(**told: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1", **told}

    response = await read(
        chunk(reasoning="I ", reasoning_details=[piece(text="I ")]),
        chunk(reasoning="think", reasoning_details=[piece(text="think", signature=None)]),
        chunk(reasoning_details=[piece(signature="sig")]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "xyz"}]),
        chunk("stop", content="Yes."),
    )
    assert (response.message.reasoning, response.text) == ("I think", "Yes.")
    assert sent(response.message)["reasoning_details"] == [
        piece(text="I think", signature="sig"),
        {"type": "reasoning.encrypted", "index": 1, "data": "xyz"},
    ]


async def test_blocks_of_thinking_go_back_joined() -> None:
    pieces = [
        {"type": "thinking", "thinking": text, "signature": sign} for text, sign in (("I ", ""), ("think", "sig"))
    ]
    deltas = [chunk(reasoning_content=piece["thinking"], thinking_blocks=[piece]) for piece in pieces]
    response = await read(*deltas, chunk("stop", content="Yes."))
    assert response.message.reasoning == "I think"
    assert sent(response.message)["thinking_blocks"] == [
        {"type": "thinking", "thinking": "I think", "signature": "sig"}
    ]


async def test_what_a_server_adds_to_a_function_goes_back_in_it() -> None:
    function = {"name": "f", "arguments": "{}", "provider_specific_fields": {"thought_signature": "s"}}
    response = await read(chunk("tool_calls", tool_calls=[{"index": 0, "id": "c1", "function": function}]))
    assert sent(response.message)["tool_calls"][0]["function"] == function


async def test_official_server_gets_nothing_that_it_does_not_know() -> None:
    response = await read(chunk("tool_calls", reasoning_details=[{"type": "x"}], tool_calls=[GEMINI_CALL]))
    wire = sent(response.message, OFFICIAL)
    assert wire.keys() == {"role", "content", "tool_calls"}
    assert wire["tool_calls"][0].keys() == {"id", "type", "function"}


async def test_another_provider_gets_nothing_of_it() -> None:
    response = await read(chunk("tool_calls", tool_calls=[GEMINI_CALL]))
    assert "extra_content" not in sent(response.message, provider="other")["tool_calls"][0]


async def test_extras_can_be_left_out() -> None:
    response = await read(chunk("tool_calls", tool_calls=[GEMINI_CALL]), keep=False)
    assert response.message.parts == ()


def test_what_users_put_into_a_message_goes_to_every_server() -> None:
    message = AssistantMessage(parts=(ProviderPart({"prefix": True}, "p"),))
    assert sent(message, OFFICIAL)["prefix"] is True


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_in_the_field_that_the_server_wants(field: str) -> None:
    message = AssistantMessage(parts=(ReasoningPart("hm"), ToolCall("c1", "f")))
    assert sent(message, Dialect(send_reasoning=True, reasoning_field=field))[field] == "hm"


def test_signature_ends_a_piece_of_reasoning() -> None:
    one = {"type": "reasoning.text", "index": 0, "text": "a", "signature": "s"}
    merged = merge_extras([{"reasoning_details": [one]}, {"reasoning_details": [{**one, "text": "b"}]}])
    assert [detail["text"] for detail in merged["reasoning_details"]] == ["a", "b"]


def test_thoughts_in_parts_of_the_content_are_reasoning() -> None:
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Yes."}]
    assert ChatReader({}, True).read(chunk(content=content))[1:] == [ReasoningDelta("hm"), TextDelta("Yes.")]


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_refusal_is_told_by_the_reason(reason: str) -> None:
    reader = ChatReader({}, True)
    said = [*reader.read(chunk(refusal="I can")), *reader.read(chunk(refusal="not.")), *reader.read(chunk(reason))]
    assert [one.text for one in said if isinstance(one, TextDelta)] == ["I can", "not."]
    assert reader.end() == [Finish("content_filter" if reason == "stop" else "length")]


def test_cache_hits_under_another_name_are_read() -> None:
    assert usage_of({"prompt_tokens": 9, "prompt_cache_hit_tokens": 8}).cache_read_tokens == 8


def test_options_under_extra_body_go_into_the_body() -> None:
    request = ModelRequest(model="m", messages=(UserMessage("q"),))
    body = to_wire(request.with_provider_options({"extra_body": {"top_k": 3}, "min_p": 0.1}))
    assert (body["top_k"], body["min_p"], "extra_body" in body) == (3, 0.1, False)


SOURCE = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 4, "url": "https://example.org"}}


@pytest.mark.parametrize("keep", [True, False])
async def test_what_is_for_the_reader_is_kept_and_stays_behind(keep: bool) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    response = await read(
        chunk(content="Here.", annotations=[SOURCE]),
        chunk(annotations=[SOURCE], images=[picture]),
        {**chunk("stop", annotations=[]), "citations": ["https://example.org"]},
        keep=keep,
    )
    note = {"type": "message", "annotations": [SOURCE], "images": [picture], "citations": ["https://example.org"]}
    assert response.message.parts[-1] == ProviderPart(note, "p")
    assert sent(response.message) == {"role": "assistant", "content": "Here."}


async def test_sound_is_kept_whole_and_its_words_are_the_text() -> None:
    pieces = [
        {"id": "a1"},
        {"transcript": "He"},
        {"data": "AQ=="},
        {"transcript": "llo"},
        {"data": "AgM="},
        {"data": "BA=="},
        {"expires_at": 9},
    ]
    response = await read(*[chunk(audio=piece) for piece in pieces], chunk("stop"))
    sound = {"id": "a1", "transcript": "Hello", "data": "AQIDBA==", "expires_at": 9}
    assert response.text == "Hello"
    assert response.message.parts[-1] == ProviderPart({"type": "message", "audio": sound}, "p")
    assert sent(response.message) == {"role": "assistant", "content": "Hello"}


async def test_words_that_are_written_too_are_said_once() -> None:
    response = await read(chunk("stop", content="Hello", audio={"id": "a1", "transcript": "Hello", "data": "AQ=="}))
    assert response.text == "Hello"


async def test_ids_that_change_with_every_chunk_are_one_answer() -> None:
    response = await read({**chunk(content="a"), "id": "r1"}, {**chunk(content="b"), "id": "r2"}, chunk("stop"))
    assert response.text == "ab"


async def test_an_answer_for_which_the_server_had_no_room_is_an_error() -> None:
    assert (await read(chunk("insufficient_system_resource", content="a"))).finish_reason == "error"
