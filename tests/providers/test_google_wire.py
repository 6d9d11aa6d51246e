"""The wire of the Gemini API by itself: requests as bodies, and chunks as ours."""

from collections.abc import Iterable
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
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from interpose.models.base import Finish, MessageStart, ReasoningDelta, TextDelta, ToolCallDelta, UsageUpdate, fold
from interpose.models.base import as_stream as stream_of
from interpose.models.google import Reading, from_wire, to_wire
from interpose.models.google.history import UNSIGNED, generation
from interpose.models.google.names import wire_names
from interpose.request import ModelRequest, ModelSettings, Usage
from interpose.tools import Tool, tool


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return len(city)


def named(name: str) -> Tool:
    return tool(lambda x: x, name=name, description="D.", parameters={"type": "object", "properties": {"x": {}}})


def request_of(*messages: Any, model: str = "gemini-2.5-flash", **fields: Any) -> ModelRequest:
    return ModelRequest(provider="google", model=model, messages=messages or (UserMessage("hi"),), **fields)


def contents(*messages: Any, model: str = "gemini-2.5-flash") -> list[dict[str, Any]]:
    return to_wire(request_of(*messages, model=model))["contents"]  # type: ignore[no-any-return]  # JSON


def chunk(*parts: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
    finish = {"finishReason": reason} if reason else {}
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, **finish, **more}]}


def read(*chunks: dict[str, Any], reading: Reading | None = None) -> list[Any]:
    reading = reading or Reading()
    return [ours for one in chunks for ours in from_wire(one, reading)]


async def message_of(chunks: Iterable[Any]) -> AssistantMessage:
    return (await fold(stream_of([*chunks, Finish()]))).message


# There.


def test_plain_request_is_contents_and_instructions_alone() -> None:
    assert to_wire(request_of(instructions="Be brief.")) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
    }


def test_settings_go_by_their_names_on_the_wire() -> None:
    settings = ModelSettings(temperature=0.0, max_tokens=9, top_p=0.9, stop=("x",), seed=0)
    assert to_wire(request_of(settings=settings))["generationConfig"] == {
        "temperature": 0.0, "maxOutputTokens": 9, "topP": 0.9, "stopSequences": ["x"], "seed": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"thinkingConfig": {"includeThoughts": True}, "safetySettings": [{"category": "C"}], "topK": 3},
        {"thinking_config": {"include_thoughts": True}, "safety_settings": [{"category": "C"}], "top_k": 3},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}, "topK": 3},
         "safetySettings": [{"category": "C"}]},
    ],
    ids=["by field", "as in Python", "as in the body"],
)  # fmt: skip
def test_options_find_their_place(options: dict[str, Any]) -> None:
    body = to_wire(request_of(settings=ModelSettings(max_tokens=9, provider_options={**options, "extra_headers": {}})))
    assert body["generationConfig"] == {
        "maxOutputTokens": 9, "thinkingConfig": {"includeThoughts": True}, "topK": 3
    }  # fmt: skip
    assert body["safetySettings"] == [{"category": "C"}]
    assert set(body) == {"contents", "generationConfig", "safetySettings"}


def test_tools_of_the_vendor_are_added_and_their_config_merged() -> None:
    options = {"tools": [{"googleSearch": {}}], "toolConfig": {"retrievalConfig": {"languageCode": "fr"}}}
    settings = ModelSettings(tool_choice="required", provider_options=options)
    body = to_wire(request_of(tools=(population,), settings=settings))
    assert body["tools"][1] == {"googleSearch": {}}
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY"}, "retrievalConfig": {"languageCode": "fr"}
    }  # fmt: skip


def test_a_function_is_sent_with_its_schema() -> None:
    assert to_wire(request_of(tools=(population,)))["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "population",
                    "description": "Return how many people live in a city.",
                    "parametersJsonSchema": population.parameters,
                }
            ]
        }
    ]


def test_a_function_without_parameters_has_no_schema() -> None:
    bare = tool(lambda: 1, name="now", description="D.", parameters={"type": "object", "properties": {}})
    functions = to_wire(request_of(tools=(bare,)))["tools"][0]["functionDeclarations"]
    assert functions == [{"name": "now", "description": "D."}]


def test_what_the_schema_dialect_lacks_is_told_in_words() -> None:
    properties = {
        "kind": {"const": "a"},
        "code": {"type": "string", "pattern": "a+", "format": "uuid", "description": "A code."},
        "when": {"type": "string", "format": "date-time", "default": "now"},
        "size": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
        "one": {"allOf": [{"type": "string"}], "description": "One."},
    }
    odd = tool(lambda **x: x, name="f", description="D.", parameters={"type": "object", "properties": properties})
    schema = to_wire(request_of(tools=(odd,)))["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert schema["properties"] == {
        "kind": {"enum": ["a"]},
        "code": {"type": "string", "description": 'A code.\n\n{"pattern":"a+","format":"uuid"}'},
        "when": {"type": "string", "format": "date-time"},
        "size": {"type": "integer", "maximum": 9, "description": '{"exclusiveMinimum":0}'},
        "one": {"type": "string", "description": "One."},
    }


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("population", {"mode": "ANY", "allowedFunctionNames": ["population"]}),
        ("gone", None),
    ],
)
def test_tool_choice_on_the_wire(choice: str | None, wire: Any) -> None:
    body = to_wire(request_of(tools=(population,), settings=ModelSettings(tool_choice=choice)))
    assert body.get("toolConfig", {}).get("functionCallingConfig") == wire


def test_names_begin_with_a_letter_and_stay_apart() -> None:
    names = wire_names([named("1st"), named("_1st"), named("-a"), named("x" * 64), named("2" * 64)])
    assert names["_1st"] == "_1st"
    assert len(set(names.values())) == 5
    assert all(name[0] == "_" or name[0].isalpha() for name in names.values())
    assert max(map(len, names.values())) == 64


CALLS = (ToolCall("c1", "f", {"a": 1}), ToolCall("c2", "g"))


def test_results_stand_right_after_their_calls_and_in_their_order() -> None:
    wire = contents(
        UserMessage("q"),
        AssistantMessage("so", tool_calls=CALLS),
        ToolMessage("no", "c2", is_error=True),
        ToolMessage("1", "c1"),
        UserMessage("go on"),
    )
    assert [content["role"] for content in wire] == ["user", "model", "user", "user"]
    assert wire[1]["parts"][1] == {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}
    assert wire[2]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "1"}}},
        {"functionResponse": {"id": "c2", "name": "g", "response": {"error": "no"}}},
    ]
    assert wire[3]["parts"] == [{"text": "go on"}]


def test_pictures_of_results_follow_in_a_content_of_their_own() -> None:
    png = ImagePart(data="QQ==", media_type="image/png")
    seen = ToolMessage("", "c1", parts=(TextPart("a chart"), png))
    wire = contents(UserMessage("q"), AssistantMessage(tool_calls=CALLS), seen, ToolMessage("2", "c2"))
    assert wire[2]["parts"][0]["functionResponse"]["response"] == {"output": "a chart"}
    assert wire[3]["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}


def test_broken_arguments_are_wrapped_in_an_object() -> None:
    broken = ToolCall("c1", "f", '{"a": tru')  # type: ignore[arg-type]  # as a model sends them
    wire = contents(UserMessage("q"), AssistantMessage(tool_calls=(broken,)), ToolMessage("bad", "c1"))
    assert wire[1]["parts"][0]["functionCall"]["args"] == {"invalid_arguments": '{"a": tru'}


def test_a_history_that_begins_with_a_call_gets_a_users_content_in_front() -> None:
    wire = contents(AssistantMessage(tool_calls=CALLS[:1]), ToolMessage("1", "c1"), UserMessage("q"))
    assert [content["role"] for content in wire] == ["user", "model", "user", "user"]


def test_calls_never_follow_an_answer_in_a_content_of_their_own() -> None:
    said = (AssistantMessage("so"), AssistantMessage(tool_calls=CALLS[:1]))
    wire = contents(UserMessage("q"), *said, ToolMessage("1", "c1"))
    assert [content["role"] for content in wire] == ["user", "model", "user"]


def test_system_messages_lead_or_stand_where_they_were_said() -> None:
    body = to_wire(request_of(SystemMessage("S."), UserMessage("a"), AssistantMessage("b"), SystemMessage("T."),
                              UserMessage("c"), instructions="I."))  # fmt: skip
    assert body["systemInstruction"] == {"parts": [{"text": "I.\n\nS."}]}
    assert body["contents"][2]["parts"] == [{"text": "<system>\nT.\n</system>"}, {"text": "c"}]


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (ImagePart(url="https://x/y.png?a=1"),
         {"fileData": {"fileUri": "https://x/y.png?a=1", "mimeType": "image/png"}}),
        (ImagePart(url="data:image/png;base64,QQ=="), {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}),
        (AudioPart(data="QQ==", media_type="audio/mp3"), {"inlineData": {"mimeType": "audio/mp3", "data": "QQ=="}}),
        (FilePart(data="QQ==", media_type="application/pdf"),
         {"inlineData": {"mimeType": "application/pdf", "data": "QQ=="}}),
        (FilePart(file_id="https://g/v1beta/files/a", media_type="video/mp4"),
         {"fileData": {"fileUri": "https://g/v1beta/files/a", "mimeType": "video/mp4"}}),
        (FilePart(file_id="files/a"), {"fileData": {"fileUri": "files/a"}}),
        (ProviderPart({"fileData": {"fileUri": "u"}, "videoMetadata": {"fps": 1}}, "google"),
         {"fileData": {"fileUri": "u"}, "videoMetadata": {"fps": 1}}),
    ],
)  # fmt: skip
def test_parts_on_the_wire(part: Any, wire: dict[str, Any]) -> None:
    assert contents(UserMessage(parts=(part,)))[0]["parts"] == [wire]


def test_marks_go_on_the_part_before_them_and_foreign_parts_stay_behind() -> None:
    clip = ProviderPart({"videoMetadata": {"fps": 1}}, "google")
    parts = (FilePart(url="https://x/y.mp4"), clip, ProviderPart({"text": "x"}, "elsewhere"))
    assert contents(UserMessage(parts=parts))[0]["parts"] == [
        {"fileData": {"fileUri": "https://x/y.mp4", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 1}}
    ]


# Output schemas.

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("model", "tools", "is_native"),
    [
        ("gemini-2.5-flash", (), True),
        ("gemini-2.5-flash", (population,), False),
        ("gemini-3.5-flash", (population,), True),
        ("gemini-flash-latest", (population,), True),
        ("gemma-4", (population,), False),
    ],
)
def test_a_schema_goes_beside_functions_where_the_model_takes_both(model: str, tools: Any, is_native: bool) -> None:
    body = to_wire(request_of(model=model, tools=tools, output_schema=SCHEMA))
    if is_native:
        config = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
        assert (body["generationConfig"], "systemInstruction" in body) == (config, False)
    else:
        assert "only JSON that fits this schema: {" in body["systemInstruction"]["parts"][0]["text"]
        assert "generationConfig" not in body


@pytest.mark.parametrize(
    ("name", "number"),
    [("gemini-3.1-pro", 3), ("models/gemini-2.5-pro", 2), ("gemini-pro-latest", 3), ("gemini-4-argon", 4), ("x", 0)],
)
def test_the_generation_of_a_model(name: str, number: int) -> None:
    assert generation(name) == number


# Signatures.


async def sent_back(*chunks: dict[str, Any], model: str = "gemini-3.5-flash") -> list[dict[str, Any]]:
    message = await message_of(read(*chunks))
    results = [call.answer(1).message() for call in message.tool_calls]
    return contents(UserMessage("q"), message, *results, model=model)[1]["parts"]  # type: ignore[no-any-return]  # JSON


def call_part(name: str, call_id: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"a": 1}, "id": call_id}, **more}


@pytest.mark.parametrize(
    "parts",
    [
        [call_part("f", "1", thoughtSignature="Uw=="), call_part("g", "2")],
        [{"text": "so"}, call_part("f", "1", thoughtSignature="Uw=="), call_part("f", "2", thoughtSignature="Ug==")],
        [{"text": "so", "thoughtSignature": "Uw=="}],
        [{"text": "hm", "thought": True, "thoughtSignature": "Uw=="}, {"text": "so"}],
        [{"text": "so"}, {"text": "", "thoughtSignature": "Uw=="}],
        [{"text": "", "thought": True, "thoughtSignature": "Uw=="}, {"text": "so"}],
        [{"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Uw=="},
         {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, {"text": "so"}],
        [{"inlineData": {"mimeType": "image/png", "data": "QQ=="}, "thoughtSignature": "Uw=="}],
    ],
    ids=["first of two", "both calls", "text", "thought", "after the text", "wordless thought", "code", "picture"],
)  # fmt: skip
async def test_signatures_go_back_on_the_parts_that_they_came_on(parts: list[dict[str, Any]]) -> None:
    assert await sent_back(chunk(*parts)) == parts
    assert await sent_back(*[chunk(part) for part in parts]) == parts


async def test_text_that_came_in_pieces_has_the_signature_of_its_last() -> None:
    chunks = [chunk({"text": "so"}), chunk({"text": " it is"}), chunk({"text": ".", "thoughtSignature": "Uw=="})]
    assert await sent_back(*chunks) == [{"text": "so it is.", "thoughtSignature": "Uw=="}]


async def test_thoughts_without_a_signature_stay_behind() -> None:
    message = await message_of(read(chunk({"text": "hm", "thought": True}, {"text": "so"})))
    assert (message.reasoning, message.text) == ("hm", "so")
    assert contents(UserMessage("q"), message)[1]["parts"] == [{"text": "so"}]


async def test_a_signature_stays_with_its_call_when_calls_are_edited() -> None:
    message = await message_of(read(chunk(call_part("f", "1", thoughtSignature="Uw=="), call_part("g", "2"))))
    calls = tuple([call.replace(args={"a": 2}) for call in message.tool_calls])
    edited = message.replace(tool_calls=calls)
    parts = contents(UserMessage("q"), edited, *[call.answer(1).message() for call in calls], model="gemini-3")[1][
        "parts"
    ]
    assert [part.get("thoughtSignature") for part in parts] == ["Uw==", None]


@pytest.mark.parametrize(("model", "signature"), [("gemini-3.5-flash", UNSIGNED), ("gemini-2.5-flash", None)])
def test_calls_of_another_model_are_let_past_the_check_of_signatures(model: str, signature: str | None) -> None:
    results = [call.answer(1).message() for call in CALLS]
    parts = contents(UserMessage("q"), AssistantMessage(tool_calls=CALLS), *results, model=model)[1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [signature, None]


def test_signatures_of_another_vendor_stay_behind() -> None:
    message = AssistantMessage(parts=(ReasoningPart("hm", "S1"), TextPart("so")))
    assert contents(UserMessage("q"), message)[1]["parts"] == [{"text": "so"}]


# Back.


@pytest.mark.parametrize(
    ("part", "chunks"),
    [
        ({"text": "a"}, [TextDelta("a")]),
        ({"text": ""}, []),
        ({"text": "hm", "thought": True}, [ReasoningDelta("hm")]),
        ({"functionCall": {"name": "a_b", "args": {"a": 1}, "id": "c"}}, [ToolCallDelta(0, "c", "a.b", '{"a":1}')]),
        ({"functionCall": {"name": "f"}}, [ToolCallDelta(0, None, "f", "")]),
        ({"functionCall": {"name": "f", "args": None, "id": ""}}, [ToolCallDelta(0, None, "f", "")]),
        ({"novel": 1}, []),
    ],
)
def test_parts_from_the_wire(part: dict[str, Any], chunks: list[Any]) -> None:
    assert read(chunk(part), reading=Reading({"a_b": "a.b"})) == chunks


async def test_calls_without_ids_get_ids_of_their_own() -> None:
    bare = {"functionCall": {"name": "add", "args": {"a": 1}}}
    for chunks in (
        [chunk(bare, bare)],
        [chunk(bare), chunk(bare)],
        [chunk({"functionCall": {}}, {"functionCall": {}})],
    ):
        message = await message_of(read(*chunks))
        assert len({call.id for call in message.tool_calls}) == 2


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("SPII", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("UNEXPECTED_TOOL_CALL", "error"),
        ("OTHER", "unknown"),
        ("NOVEL", "unknown"),
    ],
)
def test_words_for_the_finish(word: str, reason: str) -> None:
    assert read(chunk(reason=word))[-1] == Finish(reason)


@pytest.mark.parametrize("word", ["STOP", "MAX_TOKENS"])
def test_a_plain_end_leaves_nothing_beside_the_answer(word: str) -> None:
    assert len(read(chunk(reason=word, safetyRatings=[{"category": "X", "probability": "LOW"}]))) == 1


async def test_why_an_answer_ended_early_is_kept_and_stays_behind() -> None:
    why = {"finishMessage": "Malformed function call: f(", "safetyRatings": [{"category": "X", "probability": "HIGH"}]}
    message = await message_of(read(chunk({"text": "I"}), chunk(reason="MALFORMED_FUNCTION_CALL", **why)))
    assert message.parts[-1] == ProviderPart({"finishReason": "MALFORMED_FUNCTION_CALL", **why}, "google")
    assert contents(UserMessage("q"), message)[1]["parts"] == [{"text": "I"}]


def test_a_call_makes_stop_a_finish_for_calls() -> None:
    assert read(chunk({"functionCall": {"name": "f"}}), chunk(reason="STOP"))[-1] == Finish("tool_calls")


def test_a_blocked_prompt_is_a_filtered_answer() -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}}
    why = ProviderPart({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "google")
    assert read(blocked) == [why, Finish("content_filter"), UsageUpdate(Usage(input_tokens=4))]


def test_usage_counts_thoughts_as_output_and_tools_as_input() -> None:
    told = {
        "promptTokenCount": 10, "cachedContentTokenCount": 8, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 3,
        "thoughtsTokenCount": 4, "totalTokenCount": 22,
    }  # fmt: skip
    expected = Usage(input_tokens=15, output_tokens=7, total_tokens=22, cache_read_tokens=8, reasoning_tokens=4)
    assert read({"usageMetadata": told}) == [UsageUpdate(expected)]


def test_the_answers_id_is_told_once_and_second_candidates_are_not_read() -> None:
    second = {"candidates": [{"index": 1, "content": {"parts": [{"text": "b"}]}}]}
    chunks = read({**chunk({"text": "a"}), "responseId": "r1"}, {**second, "responseId": "r1"})
    assert chunks == [MessageStart("r1"), TextDelta("a")]


async def test_sources_are_kept_and_not_sent_back() -> None:
    grounding = {"webSearchQueries": ["sky"]}
    chunks = read(chunk({"text": "blue"}), chunk(reason="STOP", groundingMetadata=grounding))
    message = await message_of(chunks)
    assert message.parts[-1] == ProviderPart({"groundingMetadata": grounding}, "google")
    assert contents(UserMessage("q"), message)[1]["parts"] == [{"text": "blue"}]


@pytest.mark.parametrize("option", ["streamFunctionCallArguments", "stream_function_call_arguments"])
def test_arguments_in_pieces_are_refused_before_they_are_paid_for(option: str) -> None:
    asked = request_of().with_provider_options({"toolConfig": {"functionCallingConfig": {option: True}}})
    with pytest.raises(BadRequest, match="streamFunctionCallArguments"):
        to_wire(asked)


def test_arguments_in_pieces_are_refused_and_not_lost() -> None:
    with pytest.raises(ValueError, match="in pieces"):
        read(chunk({"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}}))
