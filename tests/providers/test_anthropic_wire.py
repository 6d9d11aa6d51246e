"""The wire of the Messages API by itself: requests as bodies, and events as chunks."""

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
from interpose.models.anthropic import Reading, from_wire, to_wire
from interpose.models.anthropic.output import output_format
from interpose.models.anthropic.wire import forced_output
from interpose.models.base import Finish, MessageStart, TextDelta, ToolCallDelta, UsageUpdate, fold
from interpose.models.base import as_stream as stream_of
from interpose.request import ModelRequest, ModelSettings, Usage
from interpose.tools import tool

CACHED = {"cache_control": {"type": "ephemeral"}}


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return len(city)


def request_of(*messages: Any, **fields: Any) -> ModelRequest:
    return ModelRequest(provider="anthropic", model="m", messages=messages or (UserMessage("hi"),), **fields)


def turns(*messages: Any) -> list[dict[str, Any]]:
    return to_wire(request_of(*messages))["messages"]  # type: ignore[no-any-return]  # JSON


def read(*events: dict[str, Any], reading: Reading | None = None) -> list[Any]:
    reading = reading or Reading()
    return [chunk for event in events for chunk in from_wire(event, reading)]


def block(start: dict[str, Any], *deltas: dict[str, Any], index: int = 0) -> list[dict[str, Any]]:
    """The events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


async def message_of(chunks: Iterable[Any]) -> AssistantMessage:
    return (await fold(stream_of([*chunks, Finish()]))).message


# There.


def test_plain_request_has_model_messages_and_limit_alone() -> None:
    body = to_wire(request_of(instructions="Be brief."), max_tokens=9)
    said = [{"role": "user", "content": "hi"}]
    assert body == {"model": "m", "max_tokens": 9, "messages": said, "system": "Be brief."}


def test_settings_go_by_their_names_on_the_wire() -> None:
    options = {"thinking": {"type": "adaptive"}, "betas": ["b-1"], "extra_headers": {"a": "b"}}
    settings = ModelSettings(temperature=0.0, max_tokens=9, top_p=0.9, stop=("x",), seed=1, provider_options=options)
    body = to_wire(request_of(settings=settings))
    del body["messages"], body["model"]
    assert body == {
        "temperature": 0.0, "max_tokens": 9, "top_p": 0.9, "stop_sequences": ["x"], "thinking": {"type": "adaptive"}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("population", None, {"type": "tool", "name": "population"}),
        ("gone", None, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("population", True, {"type": "tool", "name": "population", "disable_parallel_tool_use": False}),
        ("none", False, {"type": "none"}),
    ],
)
def test_tool_choice_on_the_wire(choice: str | None, parallel: bool | None, wire: Any) -> None:
    settings = ModelSettings(tool_choice=choice, parallel_tool_calls=parallel)
    assert to_wire(request_of(tools=(population,), settings=settings)).get("tool_choice") == wire


def test_a_tool_is_sent_with_its_schema() -> None:
    assert to_wire(request_of(tools=(population,)))["tools"] == [
        {
            "name": "population",
            "description": "Return how many people live in a city.",
            "input_schema": population.parameters,
        }
    ]


def test_results_of_a_step_stand_in_one_turn_before_what_is_said_next() -> None:
    calls = (ToolCall("c1", "f", {"a": 1}), ToolCall("c2", "g"))
    wire = turns(
        UserMessage("q"),
        AssistantMessage("so", tool_calls=calls),
        ToolMessage("1", "c1"),
        ToolMessage("no", "c2", is_error=True),
        UserMessage("go on"),
    )
    assert [turn["role"] for turn in wire] == ["user", "assistant", "user"]
    assert wire[1]["content"][1] == {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
    assert wire[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
        {"type": "text", "text": "go on"},
    ]


def test_broken_arguments_are_wrapped_in_an_object() -> None:
    broken = ToolCall("c1", "f", '{"a": tru')  # type: ignore[arg-type]  # as a model sends them
    wire = turns(UserMessage("q"), AssistantMessage(tool_calls=(broken,)), ToolMessage("bad", "c1"))
    assert wire[1]["content"][0]["input"] == {"invalid_arguments": '{"a": tru'}


def test_a_history_that_begins_with_a_call_gets_a_users_turn_in_front() -> None:
    wire = turns(AssistantMessage(tool_calls=(ToolCall("c1", "f"),)), ToolMessage("1", "c1"), UserMessage("q"))
    assert [turn["role"] for turn in wire] == ["user", "assistant", "user"]


def test_system_messages_lead_or_stand_where_they_were_said() -> None:
    body = to_wire(request_of(SystemMessage("S."), UserMessage("a"), AssistantMessage("b"), SystemMessage("T."),
                              UserMessage("c"), instructions="I."))  # fmt: skip
    assert body["system"] == "I.\n\nS."
    said = [block["text"] for block in body["messages"][2]["content"]]
    assert said == ["<system>\nT.\n</system>", "c"]


def test_no_tools_are_sent_where_none_are_offered() -> None:
    history = (UserMessage("q"), AssistantMessage(tool_calls=(ToolCall("c1", "f"),)), ToolMessage("1", "c1"))
    assert {"tools", "tool_choice"}.isdisjoint(to_wire(request_of(*history)))


def test_an_answer_to_go_on_with_ends_without_blanks() -> None:
    assert turns(UserMessage("q"), AssistantMessage("The answer is \n"))[-1]["content"] == "The answer is"


def test_signed_thoughts_and_hidden_ones_go_back_as_they_came() -> None:
    parts = (
        ReasoningPart("hm", "S1"),
        ProviderPart({"type": "redacted_thinking", "data": "xyz"}, "anthropic"),
        ReasoningPart("", "S2"),
        ReasoningPart("unsigned"),
        TextPart("so"),
        ToolCall("c1", "f"),
    )
    wire = turns(UserMessage("q"), AssistantMessage(parts=parts), ToolMessage("1", "c1"))
    assert wire[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "S1"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "thinking", "thinking": "", "signature": "S2"},
        {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
    ]


@pytest.mark.parametrize(
    "thought",
    [
        (ReasoningPart("hm", "S1"), ProviderPart({"thoughtSignature": "S2"}, "google")),
        (ReasoningPart("hm", '{"id":"rs_1","type":"reasoning"}'),),
    ],
    ids=["beside another's part", "of other letters"],
)
def test_signatures_of_another_vendor_stay_behind(thought: tuple[Any, ...]) -> None:
    parts = (*thought, TextPart("so"))
    assert turns(UserMessage("q"), AssistantMessage(parts=parts))[1]["content"] == "so"


PNG = ImagePart(data="QQ==", media_type="image/png")


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (PNG, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}),
        (ImagePart(url="https://x/y.png"), {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}),
        (ImagePart(url="data:image/png;base64,QQ=="),
         {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}),
        (ImagePart(file_id="f1"), {"type": "image", "source": {"type": "file", "file_id": "f1"}}),
        (FilePart(data="QQ==", media_type="application/pdf", name="a.pdf"),
         {"type": "document", "title": "a.pdf",
          "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}}),
        (FilePart(data="aMOk", media_type="text/markdown"),
         {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hä"}}),
        (FilePart(file_id="f1"), {"type": "document", "source": {"type": "file", "file_id": "f1"}}),
        (ProviderPart({"type": "search_result"}, "anthropic"), {"type": "search_result"}),
    ],
)  # fmt: skip
def test_parts_on_the_wire(part: Any, wire: dict[str, Any]) -> None:
    assert turns(UserMessage(parts=(part,)))[0]["content"] == [wire]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (AudioPart(url="https://x/y.mp3"), "takes no AudioPart"),
        (FilePart(data="a", media_type="text/plain"), "not base64"),
        (FilePart(data="!!!", media_type="text/plain"), "not base64"),
    ],
)
def test_a_part_without_a_form_is_refused(part: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        turns(UserMessage(parts=(part,)))


def test_pictures_of_a_result_stand_in_it() -> None:
    seen = ToolMessage("", "c1", parts=(TextPart("a chart"), PNG))
    wire = turns(UserMessage("q"), AssistantMessage(tool_calls=(ToolCall("c1", "f"),)), seen)
    assert [one["type"] for one in wire[2]["content"][0]["content"]] == ["text", "image"]


def test_marks_for_the_cache_go_on_the_block_before_them() -> None:
    mark = ProviderPart(CACHED, "anthropic")
    wire = turns(
        UserMessage(parts=(TextPart("long"), mark, TextPart("short"))),
        AssistantMessage(tool_calls=(ToolCall("c1", "f"),)),
        ToolMessage("", "c1", parts=(TextPart("r"), mark)),
    )
    assert wire[0]["content"] == [{"type": "text", "text": "long", **CACHED}, {"type": "text", "text": "short"}]
    assert wire[2]["content"][0] == {
        "type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "r"}], **CACHED
    }  # fmt: skip


def test_options_mark_instructions_and_tools_for_the_cache() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    options = {"cache_instructions": True, "cache_tools": hour, "cache_control": {"type": "ephemeral"}}
    settings = ModelSettings(provider_options=options)
    body = to_wire(request_of(instructions="I.", tools=(population,), settings=settings))
    assert body["system"] == [{"type": "text", "text": "I.", **CACHED}]
    assert body["tools"][-1]["cache_control"] == hour
    assert body["cache_control"] == {"type": "ephemeral"}
    assert "cache_tools" not in body


def test_tools_of_the_vendor_are_added_to_those_of_the_request() -> None:
    search = {"type": "web_search_20260318", "name": "web_search"}
    settings = ModelSettings(provider_options={"tools": [search]})
    assert to_wire(request_of(tools=(population,), settings=settings))["tools"][1] == search


# Output schemas.

CLOSED = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}


def test_a_schema_is_a_format_of_the_answer_beside_other_options() -> None:
    settings = ModelSettings(provider_options={"output_config": {"effort": "low"}})
    body = to_wire(request_of(output_schema=CLOSED, tools=(population,), settings=settings))
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": '{"minimum":0}'}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}, "effort": "low"}
    assert "tool_choice" not in body


def test_an_older_model_gives_its_answer_as_arguments_of_a_tool() -> None:
    request = request_of(output_schema={**CLOSED, "title": "My Answer"})
    body = to_wire(request, native_output=False)
    assert forced_output(request, native_output=False) == "My_Answer"
    assert body["tool_choice"] == {"type": "tool", "name": "My_Answer", "disable_parallel_tool_use": True}
    assert body["tools"][0]["input_schema"]["properties"] == CLOSED["properties"]


@pytest.mark.parametrize(
    "fields",
    [
        {"output_schema": {"type": "array", "items": {"type": "integer"}}},
        {"output_schema": CLOSED, "tools": (population,)},
        {"output_schema": CLOSED, "settings": ModelSettings(provider_options={"thinking": {"type": "adaptive"}})},
    ],
    ids=["no object", "other tools", "thinking"],
)
def test_where_no_tool_can_be_forced_the_schema_is_told_in_words(fields: dict[str, Any]) -> None:
    request = request_of(**fields)
    assert to_wire(request, native_output=False)["system"].startswith("Answer only with JSON that fits this schema: {")
    assert forced_output(request, native_output=False) is None


TREE = {
    "$ref": "#/$defs/T",
    "$defs": {"T": {"type": "object", "properties": {"t": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}}}},
}


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    ],
    ids=["contains itself", "free keys", "any object", "anything", "list of types"],
)
def test_a_schema_that_no_format_can_say_is_none(schema: dict[str, Any]) -> None:
    assert output_format(schema) is None


def test_one_of_and_references_are_said_in_the_formats_words() -> None:
    leaf = {"type": "string", "pattern": "a+", "format": "uuid", "default": "a"}
    schema = {"type": "object", "properties": {"a": {"oneOf": [{"$ref": "#/$defs/L"}]}}, "$defs": {"L": leaf}}
    fitting = output_format(schema)
    assert fitting is not None
    assert fitting["schema"]["properties"] == {"a": {"anyOf": [{"$ref": "#/$defs/L"}]}}
    assert fitting["schema"]["$defs"]["L"] == {"type": "string", "format": "uuid", "description": '{"pattern":"a+"}'}


# Back.


def test_text_comes_piece_by_piece() -> None:
    deltas = [{"type": "text_delta", "text": text} for text in ("a", "", " ", "b")]
    assert read(*block({"type": "text", "text": ""}, *deltas)) == [TextDelta("a"), TextDelta(" "), TextDelta("b")]


async def test_thoughts_keep_their_own_signatures() -> None:
    events = [
        *block({"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "a"},
               {"type": "thinking_delta", "thinking": "b"}, {"type": "signature_delta", "signature": "S1"}),
        *block({"type": "thinking", "thinking": "", "signature": ""}, {"type": "signature_delta", "signature": "S2"}),
        *block({"type": "redacted_thinking", "data": "xyz"}),
    ]  # fmt: skip
    message = await message_of(read(*events))
    assert message.parts == (
        ReasoningPart("ab", "S1"),
        ReasoningPart("", "S2"),
        ProviderPart({"type": "redacted_thinking", "data": "xyz"}, "anthropic"),
    )


def test_calls_come_in_pieces_under_the_tools_own_names() -> None:
    pieces = [{"type": "input_json_delta", "partial_json": text} for text in ("", '{"a"', ":1}")]
    start = {"type": "tool_use", "id": "t1", "name": "a_b", "input": {}}
    assert read(*block(start, *pieces, index=2), reading=Reading({"a_b": "a.b"})) == [
        ToolCallDelta(2, "t1", "a.b", ""),
        ToolCallDelta(2, args='{"a"'),
        ToolCallDelta(2, args=":1}"),
    ]


async def test_broken_arguments_are_kept_and_can_be_sent_back() -> None:
    pieces = {"type": "input_json_delta", "partial_json": '{"a": tru'}
    message = await message_of(read(*block({"type": "tool_use", "id": "t1", "name": "f", "input": {}}, pieces)))
    call = message.tool_calls[0]
    assert (call.args, call.raw) == ({}, '{"a": tru')
    wire = turns(UserMessage("q"), message, call.refuse("bad").message())
    assert wire[1]["content"][0]["input"] == {"invalid_arguments": '{"a": tru'}


CITATION = {"type": "char_location", "cited_text": "sky", "document_index": 0, "start_char_index": 0}


async def test_citations_go_back_on_the_words_that_they_came_for() -> None:
    events = [
        *block({"type": "text", "text": ""}, {"type": "text_delta", "text": "By the book, "}),
        *block({"type": "text", "text": "", "citations": []}, {"type": "citations_delta", "citation": CITATION},
               {"type": "text_delta", "text": "the sky"}, {"type": "text_delta", "text": " is blue"}),
        *block({"type": "text", "text": ""}, {"type": "text_delta", "text": "."}),
    ]  # fmt: skip
    message = await message_of(read(*events))
    assert message.text == "By the book, the sky is blue."
    assert turns(UserMessage("q"), message)[1]["content"] == [
        {"type": "text", "text": "By the book, "},
        {"type": "text", "text": "the sky is blue", "citations": [CITATION]},
        {"type": "text", "text": "."},
    ]


async def test_words_that_were_changed_have_no_citations() -> None:
    citing: list[dict[str, Any]] = [
        {"type": "text_delta", "text": "the sky"},
        {"type": "citations_delta", "citation": CITATION},
    ]
    message = await message_of(read(*block({"type": "text", "text": ""}, *citing)))
    assert turns(UserMessage("q"), message.replace(text="the sea"))[1]["content"] == "the sea"


async def test_the_vendors_own_tools_go_back_as_they_came() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sky"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]}
    pieces = [{"type": "input_json_delta", "partial_json": text} for text in ('{"query":', ' "sky"}')]
    events = [*block({**use, "input": {}}, *pieces), *block(result, index=1)]
    message = await message_of(read(*events))
    assert turns(UserMessage("q"), message)[1]["content"] == [use, result]
    assert message.tool_calls == ()


def own_tool(call_id: str, kind: str = "server_tool_use") -> ProviderPart:
    return ProviderPart({"type": kind, "id": call_id, "name": "web_search", "input": {}}, "anthropic")


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_what_the_vendors_tools_did_not_end_stays_behind(kind: str) -> None:
    done = ProviderPart({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}, "anthropic")
    cut = AssistantMessage(parts=(TextPart("I look."), own_tool("s1", kind), done, own_tool("s2", kind)))
    blocks = turns(UserMessage("q"), cut, UserMessage("And?"))[1]["content"]
    assert [block.get("id", block["type"]) for block in blocks] == ["text", "s1", "web_search_tool_result"]
    assert turns(UserMessage("q"), cut)[1]["content"][-1]["id"] == "s2"  # the vendor can go on with it


def test_an_answer_of_which_nothing_is_left_keeps_its_turn() -> None:
    cut = AssistantMessage(parts=(own_tool("s1"),))
    assert [turn["role"] for turn in turns(UserMessage("q"), cut, UserMessage("And?"))] == ["user", "assistant", "user"]


def test_what_waits_for_a_call_of_ours_stays() -> None:
    call = ToolCall("c1", "f")
    code = AssistantMessage(parts=(own_tool("s1"), call))
    assert turns(UserMessage("q"), code, call.answer(1).message())[1]["content"][0]["id"] == "s1"


async def test_blocks_that_nobody_knows_are_kept_whole() -> None:
    growing = [{"type": "novel_delta", "text": "a", "items": [1]}, {"type": "novel_delta", "text": "b", "items": [2]}]
    message = await message_of(read(*block({"type": "novel", "text": "", "items": []}, *growing)))
    assert message.parts == (ProviderPart({"type": "novel", "text": "ab", "items": [1, 2]}, "anthropic"),)


@pytest.mark.parametrize("event", [{"type": "ping"}, {"type": "novel", "x": 1}, {"type": "message_stop"}, {}])
def test_events_that_say_nothing_to_us_are_passed_over(event: dict[str, Any]) -> None:
    assert read(event) == []


def test_deltas_that_nobody_knows_are_passed_over() -> None:
    assert read(*block({"type": "text", "text": ""}, {"type": "novel_delta", "x": 1})) == []


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "unknown"),
        ("novel", "unknown"),
    ],
)
def test_words_for_the_finish(word: str, reason: str) -> None:
    assert read({"type": "message_delta", "delta": {"stop_reason": word}})[-1] == Finish(reason)


@pytest.mark.parametrize("way", ["streamed", "whole"])
async def test_why_an_answer_was_refused_is_kept_and_stays_behind(way: str) -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
    end = {"stop_reason": "refusal", "stop_details": why}
    said = block({"type": "text", "text": "I"})
    whole = {"type": "message", "content": [{"type": "text", "text": "I"}], **end}
    chunks = read(whole) if way == "whole" else read(*said, {"type": "message_delta", "delta": end})
    message = await message_of(chunks[:-1])
    assert message.parts[-1] == ProviderPart(end, "anthropic")
    assert turns(UserMessage("q"), message, UserMessage("r"))[1] == {"role": "assistant", "content": "I"}


async def test_a_turn_that_the_vendor_pauses_says_so_and_can_be_gone_on_with() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sky"}}
    chunks = read(*block(use), {"type": "message_delta", "delta": {"stop_reason": "pause_turn", "stop_details": None}})
    assert chunks[1:] == [ProviderPart({"stop_reason": "pause_turn"}, "anthropic"), Finish("unknown")]
    assert turns(UserMessage("q"), await message_of(chunks[:-1]))[-1] == {"role": "assistant", "content": [use]}


@pytest.mark.parametrize("word", ["end_turn", "stop_sequence", "tool_use", "max_tokens"])
def test_a_plain_end_leaves_nothing_beside_the_answer(word: str) -> None:
    assert len(read({"type": "message_delta", "delta": {"stop_reason": word, "stop_details": None}})) == 1


def test_usage_is_of_all_input_and_running_totals() -> None:
    start = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    last = {"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 10}, "cache_read_input_tokens": None}
    chunks = read(
        {"type": "message_start", "message": {"id": "msg_1", "usage": start}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
    )
    assert chunks[0] == MessageStart("msg_1")
    assert chunks[2] == UsageUpdate(
        Usage(
            input_tokens=125,
            output_tokens=30,
            total_tokens=155,
            cache_read_tokens=100,
            cache_write_tokens=20,
            reasoning_tokens=10,
        )
    )
    assert chunks[3] == Finish("stop")


def test_a_forced_tool_gives_text() -> None:
    pieces = [{"type": "input_json_delta", "partial_json": text} for text in ("", '{"n"', ":1}")]
    events = [
        *block({"type": "tool_use", "id": "t1", "name": "output", "input": {}}, *pieces),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]
    assert read(*events, reading=Reading(output_tool="output")) == [TextDelta('{"n"'), TextDelta(":1}"), Finish("stop")]


@pytest.mark.parametrize(("given", "text"), [({"n": 1}, '{"n":1}'), ({}, "{}")])
def test_a_forced_tool_in_a_whole_message_gives_text(given: Any, text: str) -> None:
    message = {
        "type": "message",
        "content": [{"type": "tool_use", "id": "t1", "name": "output", "input": given}],
        "stop_reason": "tool_use",
    }
    assert read(message, reading=Reading(output_tool="output")) == [TextDelta(text), Finish("stop")]


async def test_marks_of_a_call_go_back_with_it() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    start = {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": caller}
    message = await message_of(read(*block(start)))
    wire = turns(UserMessage("q"), message, message.tool_calls[0].answer(1).message())
    assert wire[1]["content"] == [{"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": caller}]


def test_a_plain_call_has_no_marks() -> None:
    start = {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": {"type": "direct"}}
    assert read(*block(start)) == [ToolCallDelta(0, "t1", "f", "")]
