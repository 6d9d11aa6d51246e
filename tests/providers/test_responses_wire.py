"""Responses on the wire: requests as their JSON, and recorded shapes of answers as our chunks."""

import json
from typing import Any

import pytest

from interpose.errors import BadRequest
from interpose.messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from interpose.models.base import (
    Finish,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
    as_stream,
    fold,
)
from interpose.models.openai.reading import Nonsense
from interpose.models.openai.responses import from_wire, to_wire
from interpose.models.openai.responses.reading import Failed, ResponsesReader
from interpose.models.openai.responses.reasoning import item_of
from interpose.request import ModelRequest, ModelSettings, Usage
from interpose.tools import tool

PROVIDER = "openai-responses"
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAAABo+/==",
    "status": None,
}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "Lyon", "sources": [{"type": "url", "url": "https://x.org"}]},
}
CITATION = {"type": "url_citation", "start_index": 0, "end_index": 4, "url": "https://x.org", "title": "X"}
TEXT = {"type": "output_text", "text": "Lyon.", "annotations": [CITATION], "logprobs": []}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "phase": "final_answer",
    "content": [TEXT],
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "population",
    "arguments": '{"city":"Lyon"}',
}


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return len(city)


def request_of(*messages: Any, **fields: Any) -> ModelRequest:
    return ModelRequest(provider=PROVIDER, model="gpt-5.5", messages=messages or (UserMessage("hi"),), **fields)


def response_of(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "status": "completed", "error": None, "output": list(output), "usage": None, **fields}


async def answered(*output: dict[str, Any]) -> AssistantMessage:
    """Return the message that a response makes in a run."""
    return (await fold(as_stream(from_wire(response_of(*output), provider=PROVIDER)))).message


def read(*output: dict[str, Any], **fields: Any) -> list[ModelChunk]:
    return from_wire(response_of(*output, **fields))


def sent(*messages: Any, **fields: Any) -> list[dict[str, Any]]:
    return to_wire(request_of(*messages, **fields))["input"]  # type: ignore[no-any-return]  # JSON


# There


def test_plain_request() -> None:
    assert to_wire(request_of(instructions="Be brief.")) == {
        "model": "gpt-5.5",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "ft:gpt-4o:org", "gpt-5-chat-latest", "chatgpt-4o-latest"])
def test_models_that_do_not_reason_are_not_asked_for_reasoning(model: str) -> None:
    assert "include" not in to_wire(request_of().replace(model=model))


def test_tools_of_the_vendor_stand_beside_those_of_the_agent() -> None:
    options = {"tools": [{"type": "web_search"}], "include": ["web_search_call.action.sources"]}
    body = to_wire(request_of(tools=(population,)).with_provider_options(options))
    assert [one["type"] for one in body["tools"]] == ["function", "web_search"]
    assert body["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]


def test_tools_of_the_vendor_can_be_forced_alone() -> None:
    request = request_of(settings=ModelSettings(tool_choice="required"))
    body = to_wire(request.with_provider_options({"tools": [{"type": "web_search"}]}))
    assert body["tool_choice"] == "required"


def test_options_that_are_objects_are_merged() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body = to_wire(request_of(output_schema=schema).with_provider_options({"text": {"verbosity": "low"}}))
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"] == {"type": "json_schema", "name": "output", "schema": schema, "strict": True}


def test_other_options_go_over_what_is_there() -> None:
    body = to_wire(request_of().with_provider_options({"store": True, "reasoning": {"effort": "low"}}))
    assert (body["store"], body["reasoning"], "include" in body) == (True, {"effort": "low"}, False)


def test_functions_are_not_strict() -> None:
    (wire,) = to_wire(request_of(tools=(population,)))["tools"]
    assert (wire["type"], wire["name"], wire["strict"]) == ("function", "population", False)


def test_stop_sequences_are_refused_with_a_way_out() -> None:
    with pytest.raises(BadRequest, match="no stop sequences.*'openai:...'"):
        to_wire(request_of(settings=ModelSettings(stop=("x",))))


def test_output_that_is_no_object_is_told_in_words() -> None:
    body = to_wire(request_of(output_schema={"type": "array"}))
    assert "text" not in body
    assert body["instructions"] == 'Answer only with JSON that fits this schema: {"type":"array"}'


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (TextPart("t"), {"type": "input_text", "text": "t"}),
        (ImagePart(file_id="f1"), {"type": "input_image", "detail": "auto", "file_id": "f1"}),
        (FilePart(url="https://x/y.pdf"), {"type": "input_file", "file_url": "https://x/y.pdf"}),
        (FilePart(file_id="f1"), {"type": "input_file", "file_id": "f1"}),
        (FilePart(data="QQ==", media_type="application/pdf"),
         {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,QQ=="}),
        (ProviderPart({"type": "input_odd"}), {"type": "input_odd"}),
    ],
)  # fmt: skip
def test_parts_on_the_wire(part: Any, wire: dict[str, Any]) -> None:
    assert sent(UserMessage(parts=(part,))) == [{"role": "user", "content": [wire]}]


def test_a_part_without_a_form_is_refused() -> None:
    with pytest.raises(BadRequest, match="takes no AudioPart"):
        sent(UserMessage(parts=(AudioPart(data="QQ==", media_type="audio/mpeg"),)))


def test_an_item_of_the_vendors_own_stands_by_itself() -> None:
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert sent(UserMessage(parts=(ProviderPart(approval, PROVIDER),))) == [approval]


def test_pictures_of_results_stand_in_the_result() -> None:
    asked = AssistantMessage(tool_calls=(ToolCall("c1", "f"),))
    result = ToolMessage("", "c1", parts=(TextPart("a chart"), ImagePart(url="https://x/y.png")))
    assert [part["type"] for part in sent(asked, result)[1]["output"]] == ["input_text", "input_image"]


# Back, and there again


async def test_items_go_back_in_order_and_as_they_were() -> None:
    message = await answered(REASONING, SEARCH, MESSAGE, {**REASONING, "id": "rs_2"}, CALL)
    again = {key: value for key, value in REASONING.items() if value is not None}
    assert sent(message) == [
        again,
        SEARCH,
        {"type": "message", "role": "assistant", "content": "Lyon.", "phase": "final_answer"},
        {**again, "id": "rs_2"},
        {key: value for key, value in CALL.items() if key != "status"},
    ]


async def test_an_answer_behind_reasoning_goes_back_under_its_id() -> None:
    (_, said) = sent(await answered(REASONING, MESSAGE))
    text = {"type": "output_text", "text": "Lyon.", "annotations": []}
    assert said == {**MESSAGE, "content": [text]}


async def test_ids_stay_behind_where_the_reasoning_is_gone() -> None:
    message = await answered(REASONING, MESSAGE, {**REASONING, "id": "rs_2"}, CALL)
    parts = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
    said, call = sent(AssistantMessage(parts=parts))
    assert (said["content"], "id" in said, "id" in call) == ("Lyon.", False, False)


async def test_of_parallel_calls_the_first_belongs_to_the_reasoning() -> None:
    others = [{**CALL, "id": f"fc_{n}", "call_id": f"call_{n}"} for n in (2, 3)]
    assert [item.get("id") for item in sent(await answered(REASONING, CALL, *others))] == ["rs_1", "fc_1", None, None]


def test_notes_that_come_late_find_their_calls() -> None:
    calls = [{**CALL, "id": f"fc_{n}", "call_id": f"call_{n}", "namespace": f"n{n}"} for n in (1, 2)]
    added = [{"type": "response.output_item.added", "output_index": n, "item": call} for n, call in enumerate(calls)]
    done = [{**event, "type": "response.output_item.done"} for event in added]
    chunks = streamed(*added, *done, COMPLETED)
    parts = tuple(ToolCall(one.id or "", "f") for one in chunks if isinstance(one, ToolCallDelta))
    notes = tuple(one for one in chunks if isinstance(one, ProviderPart))
    assert [item["namespace"] for item in sent(AssistantMessage(parts=(*parts, *notes)))] == ["n1", "n2"]


async def test_reasoning_reads_as_one_text() -> None:
    assert (await answered(REASONING, MESSAGE)).reasoning == "First.\n\nThen."


async def test_citations_are_kept_for_the_reader() -> None:
    message = await answered(MESSAGE)
    assert message.parts[1] == ProviderPart(
        {"type": "message", "phase": "final_answer", "annotations": [CITATION]}, PROVIDER
    )


async def test_reasoning_whose_call_is_gone_stays_behind() -> None:
    message = await answered(REASONING, CALL)
    assert sent(message.replace(tool_calls=())) == [{"type": "message", "role": "assistant", "content": ""}]


async def test_changed_reasoning_goes_back_changed() -> None:
    message = await answered(REASONING, MESSAGE)
    parts = (message.parts[0].replace(text="[gone]"), *message.parts[1:])
    (first, _) = sent(AssistantMessage(parts=parts))
    assert first["summary"] == [{"type": "summary_text", "text": "[gone]"}]
    assert first["encrypted_content"] == REASONING["encrypted_content"]


async def test_open_reasoning_goes_back_whole() -> None:
    texts = [{"type": "reasoning_text", "text": "a"}, {"type": "reasoning_text", "text": "b"}]
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "content": texts}
    message = await answered(item, MESSAGE)
    assert message.reasoning == "a\n\nb"
    assert sent(message)[0] == item


async def test_reasoning_that_only_the_vendor_keeps_goes_back_where_it_keeps_answers() -> None:
    bare = {"id": "rs_1", "type": "reasoning", "summary": []}
    message = await answered(bare, CALL)
    assert [item["type"] for item in sent(message)] == ["function_call"]
    stored = to_wire(request_of(message), store=True)["input"]
    assert stored[0] == bare


@pytest.mark.parametrize("signature", [None, "", "c2lnbmF0dXJl", "123", "{}", '{"type":"reasoning"}', '["reasoning"]'])
def test_signatures_of_others_make_no_item(signature: str | None) -> None:
    assert item_of("hm", signature) is None
    assert sent(AssistantMessage(parts=(ReasoningPart("hm", signature), TextPart("Yes.")))) == [
        {"type": "message", "role": "assistant", "content": "Yes."}
    ]


async def test_encrypted_reasoning_goes_to_who_encrypted_it_alone() -> None:
    message = await answered(REASONING, CALL)
    assert [item["type"] for item in sent(message)] == ["reasoning", "function_call"]
    other = ModelRequest(provider="another", model="m", messages=(message,))
    assert [item["type"] for item in to_wire(other)["input"]] == ["function_call"]


async def test_what_a_call_says_beside_its_arguments_goes_back() -> None:
    message = await answered({**CALL, "namespace": "maps", "caller": {"type": "direct"}})
    (call,) = sent(message)
    assert (call["namespace"], call["caller"]) == ("maps", {"type": "direct"})


# Ends


USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 15,
}


def test_usage_from_the_wire() -> None:
    expected = Usage(10, 5, 15, cache_read_tokens=8, cache_write_tokens=1, reasoning_tokens=4)
    assert UsageUpdate(expected) in read(MESSAGE, usage=USAGE)


@pytest.mark.parametrize(
    ("output", "fields", "reason"),
    [
        ([MESSAGE], {}, "stop"),
        ([MESSAGE, CALL], {}, "tool_calls"),
        ([MESSAGE], {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ([CALL], {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ([], {"status": "incomplete", "incomplete_details": None}, "unknown"),
        ([{**MESSAGE, "content": [{"type": "refusal", "refusal": "No."}]}], {}, "content_filter"),
    ],
)
def test_reasons_to_finish(output: list[dict[str, Any]], fields: dict[str, Any], reason: str) -> None:
    assert read(*output, **fields)[-1] == Finish(reason)


def test_a_refusal_is_read_as_text() -> None:
    refusal = {**MESSAGE, "phase": None, "content": [{"type": "refusal", "refusal": "No."}]}
    assert TextDelta("No.") in read(refusal)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "no luck"}}, "no luck"),
        ({"status": "failed"}, "the response is failed"),
        ({"status": "queued"}, "the response is queued"),
        ({"status": "cancelled"}, "the response is cancelled"),
        ({"error": "odd"}, "odd"),
    ],
)
def test_responses_that_failed(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Failed, match=message):
        read(**fields)


@pytest.mark.parametrize("odd", ["text", 3, None, {}, {"output": [3]}, {"output": [{}]}, {"choices": []}])
def test_nonsense_is_no_response(odd: Any) -> None:
    with pytest.raises(Nonsense):
        from_wire(odd)


# Streams that leave something out


def streamed(*events: dict[str, Any]) -> list[ModelChunk]:
    reader = ResponsesReader({})
    return [*[chunk for event in events for chunk in reader.read(event)], *reader.end()]


COMPLETED = {"type": "response.completed", "response": response_of()}


def test_events_without_places_are_told_apart_by_ids() -> None:
    calls = [{**CALL, "id": f"fc_{n}", "call_id": f"call_{n}", "arguments": ""} for n in (1, 2)]
    added = [{"type": "response.output_item.added", "item": call} for call in calls]
    deltas = [
        {"type": "response.function_call_arguments.delta", "item_id": f"fc_{n}", "delta": f'{{"n":{n}}}'}
        for n in (2, 1)
    ]
    assert streamed(*added, *deltas, COMPLETED) == [
        ToolCallDelta(0, "call_1", "population"),
        ToolCallDelta(1, "call_2", "population"),
        ToolCallDelta(1, args='{"n":2}'),
        ToolCallDelta(0, args='{"n":1}'),
        Finish("tool_calls"),
    ]


def test_items_that_come_whole_are_told_whole() -> None:
    done = [
        {"type": "response.output_item.done", "output_index": n, "item": item}
        for n, item in enumerate(
            [REASONING, {**MESSAGE, "phase": None, "content": [{**TEXT, "annotations": []}]}, CALL]
        )
    ]
    thought, *rest = streamed(*done, COMPLETED)
    assert isinstance(thought, ReasoningDelta)
    assert thought.text == "First.\n\nThen."
    assert rest == [
        TextDelta("Lyon."),
        ProviderPart({"type": "message", "id": "msg_1"}),
        ToolCallDelta(0, "call_1", "population", '{"city":"Lyon"}'),
        Finish("tool_calls"),
    ]


def test_items_that_are_told_at_the_end_alone_are_read() -> None:
    ended = {"type": "response.completed", "response": response_of({**MESSAGE, "phase": None}, CALL)}
    assert [chunk for chunk in streamed(ended) if isinstance(chunk, TextDelta)] == [TextDelta("Lyon.")]
    assert streamed(ended)[-1] == Finish("tool_calls")


def test_an_item_is_told_once() -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
    assert len(streamed(done, done, COMPLETED)) == 2


def test_of_two_texts_of_one_thought_the_first_is_told_and_both_go_back() -> None:
    item = {**REASONING, "content": [{"type": "reasoning_text", "text": "raw"}]}
    deltas = [
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": n, "delta": text}
        for n, text in enumerate(["First.", "Then."])
    ]
    raw = {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "raw"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    said = [chunk for chunk in streamed(*deltas, raw, done, COMPLETED) if isinstance(chunk, ReasoningDelta)]
    assert "".join(chunk.text for chunk in said) == "First.\n\nThen."
    assert item_of("First.\n\nThen.", said[-1].signature) == {k: v for k, v in item.items() if v is not None}


BROKEN = {"code": "server_error", "message": "slow down"}


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, "rate_limit_exceeded"),
        ({"type": "response.failed", "response": response_of(status="failed", error=BROKEN)}, "server_error"),
    ],
)
def test_errors_inside_the_stream(event: dict[str, Any], code: str) -> None:
    with pytest.raises(Failed, match="slow down") as caught:
        streamed(event)
    assert caught.value.error["code"] == code


@pytest.mark.parametrize("odd", ["text", 3, None, {}, {"type": "response.output_item.added", "item": 3}])
def test_nonsense_is_no_event(odd: Any) -> None:
    with pytest.raises(Nonsense):
        streamed(odd)


def test_events_of_unknown_kinds_are_passed_over() -> None:
    assert streamed({"type": "response.web_search_call.searching"}, {"type": "keepalive"}, COMPLETED) == [
        Finish("stop")
    ]


def test_bodies_are_json() -> None:
    body = json.dumps(to_wire(request_of(UserMessage("a\ud800"), tools=(population,))), ensure_ascii=False)
    assert "a\ufffd" in body
    assert json.loads(body.encode())["tools"][0]["name"] == "population"
