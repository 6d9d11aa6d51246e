"""Messages, requests, usage and the folding of chunks."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.errors import ProviderError
from interpose.inputs import as_messages
from interpose.messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from interpose.models.base import (
    Finish,
    MessageStart,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
    as_stream,
    fold,
    unfold,
)
from interpose.request import ModelRequest, ModelResponse, ModelSettings, Usage
from interpose.text import clean, to_json, to_jsonable

HALF = "\ud83d"
PICTURE = ImagePart(data="aGk=", media_type="image/png")

BROKEN: Any = '{"a": tru'  # arguments may be given as JSON text

MESSAGES: list[Message] = [
    SystemMessage("s"),
    UserMessage("u", name="Ann", metadata={"k": [1]}),
    UserMessage(parts=(TextPart("look: "), PICTURE, TextPart("there"))),
    UserMessage(parts=(ImagePart(url="https://x/y.png"),)),
    UserMessage(parts=(AudioPart(data="aGk=", media_type="audio/wav"), FilePart(file_id="f1", name="a.pdf"))),
    AssistantMessage("a"),
    AssistantMessage("", reasoning="r", tool_calls=(ToolCall("c1", "f", {"a": {"b": [1, None]}}),)),
    AssistantMessage(tool_calls=(ToolCall("c1", "f", BROKEN, idempotency_key="k", edited_by="Ann"),)),
    AssistantMessage(parts=(ReasoningPart("r", "sig"), TextPart("a"), ToolCall("c1", "f"), TextPart("b"))),
    AssistantMessage(parts=(ProviderPart({"x": 1}, "anthropic"), ReasoningPart("", "sig"))),
    ToolMessage("r", "c1", is_error=True, name="f"),
    ToolMessage(tool_call_id="c1", parts=(TextPart("see"), PICTURE)),
    ToolMessage(tool_call_id="c1", parts=(PICTURE,)),
]
KINDS = [f"{index}-{type(message).__name__}" for index, message in enumerate(MESSAGES)]


# Messages.


@pytest.mark.parametrize("message", MESSAGES, ids=KINDS)
def test_a_message_survives_its_own_json(message: Message) -> None:
    assert msgspec.json.decode(message.to_json(), type=Message) == message
    assert as_messages([json.loads(message.to_json())]) == (message,)
    assert as_messages([message.to_dict()]) == (message,)


@pytest.mark.parametrize("message", MESSAGES, ids=KINDS)
def test_replacing_nothing_changes_nothing(message: Message) -> None:
    assert message.replace() == message
    assert message.replace(id="other").replace(id=message.id) == message


def test_messages_get_ids_of_their_own() -> None:
    assert UserMessage("a").id != UserMessage("a").id


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        UserMessage("a").replace(txt="b")


def test_a_tool_message_needs_the_id_of_its_call() -> None:
    with pytest.raises(ValueError, match="tool_call_id"):
        ToolMessage("x")


def test_text_is_that_of_the_text_parts() -> None:
    assert UserMessage(parts=(TextPart("a"), PICTURE, TextPart("b"))).text == "ab"


def test_new_text_takes_the_place_of_the_first_text_part() -> None:
    message = UserMessage(parts=(PICTURE, TextPart("a"), PICTURE, TextPart("b"))).replace(text="c")
    assert message.parts == (PICTURE, TextPart("c"), PICTURE)
    assert message.text == "c"


def test_new_text_of_an_answer_keeps_signatures_and_opaque_parts() -> None:
    signed, opaque, call = ReasoningPart("r", "sig"), ProviderPart(1, "p"), ToolCall("c1", "f")
    message = AssistantMessage(parts=(signed, TextPart("a"), opaque, call, TextPart("b")))
    assert message.replace(text="c").parts == (signed, TextPart("c"), opaque, call)
    assert message.replace(text="").parts == (signed, opaque, call)


def test_new_calls_and_reasoning_take_the_places_of_the_old() -> None:
    old, new = ToolCall("c1", "f"), ToolCall("c2", "g")
    message = AssistantMessage(parts=(ReasoningPart("r", "sig"), old, TextPart("a")))
    changed = message.replace(tool_calls=(new,), reasoning="s")
    assert changed.parts == (ReasoningPart("s"), new, TextPart("a"))
    assert (changed.tool_calls, changed.reasoning, changed.text) == ((new,), "s", "a")
    assert message.replace(tool_calls=()).parts == (ReasoningPart("r", "sig"), TextPart("a"))


def test_content_is_everything_in_order() -> None:
    call = ToolCall("c1", "f")
    message = AssistantMessage("a", reasoning="r", tool_calls=(call,))
    assert message.content() == (ReasoningPart("r"), TextPart("a"), call)


@pytest.mark.parametrize(
    "given_fields",
    [{}, {"url": "u", "data": "d", "media_type": "image/png"}, {"data": "d"}],
    ids=["nothing", "two sources", "data without its type"],
)
def test_media_has_exactly_one_source(given_fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="ImagePart"):
        ImagePart(**given_fields)


# Messages from outside.


def test_a_string_is_one_user_message() -> None:
    (message,) = as_messages("hi")
    assert message == UserMessage("hi", id=message.id)
    assert as_messages(None) == ()


OPENAI: list[tuple[dict[str, Any], Message]] = [
    ({"role": "system", "content": "s"}, SystemMessage("s", id="m")),
    ({"role": "developer", "content": "s"}, SystemMessage("s", id="m")),
    ({"role": "user", "content": "u", "name": "Ann"}, UserMessage("u", name="Ann", id="m")),
    (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f1"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}},
            ],
        },
        UserMessage(
            parts=(
                TextPart("a"),
                ImagePart(url="https://x/y.png"),
                PICTURE,
                AudioPart(data="aGk=", media_type="audio/wav"),
                FilePart(file_id="f1"),
                FilePart(data="aGk=", media_type="application/pdf", name="a.pdf"),
            ),
            id="m",
        ),
    ),
    ({"role": "assistant", "content": None}, AssistantMessage(id="m")),
    ({"role": "assistant", "content": [{"type": "text", "text": "a"}]}, AssistantMessage("a", id="m")),
    (
        {
            "role": "assistant",
            "content": "a",
            "reasoning_content": "r",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
        },
        AssistantMessage("a", "r", (ToolCall("c1", "f", {"a": 1}),), id="m"),
    ),
    ({"role": "tool", "content": "1", "tool_call_id": "c1"}, ToolMessage("1", "c1", id="m")),
]


@pytest.mark.parametrize(("outside", "message"), OPENAI, ids=[f"{i}-{d['role']}" for i, (d, _) in enumerate(OPENAI)])
def test_openai_messages_are_understood(outside: dict[str, Any], message: Message) -> None:
    assert as_messages([{**outside, "id": "m"}]) == (message,)


@pytest.mark.parametrize(
    "outside",
    [
        {"content": "no role"},
        {"role": "robot", "content": "x"},
        {"role": "user", "content": 3},
        {"role": "user", "content": [3]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "hologram"}]},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "user", "content": [{"type": "image"}]},
        {"role": "user", "content": "x", "id": 3},
        {"role": "assistant", "content": [None]},
        {"role": "assistant", "tool_calls": 3},
        {"role": "assistant", "tool_calls": [3]},
        {"role": "assistant", "tool_calls": [{"id": "x"}]},
        {"role": "assistant", "tool_calls": [{"id": 3, "function": {"name": "f"}}]},
        {"role": "tool", "content": "x"},
        {"role": "user", "text": 3},
    ],
    ids=str,
)
def test_a_dict_that_is_no_message_raises_value_error(outside: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        as_messages([outside])


@pytest.mark.parametrize("given_value", [3, {"role": "user", "content": "x"}, [3], ["x"]], ids=str)
def test_what_is_no_list_of_messages_raises_type_error(given_value: Any) -> None:
    with pytest.raises(TypeError):
        as_messages(given_value)


def test_half_characters_are_replaced_wherever_they_come_in() -> None:
    args: dict[str, Any] = {"k": [HALF]}
    messages = as_messages(
        [
            UserMessage(f"a{HALF}", id="1"),
            UserMessage(parts=(TextPart(f"a{HALF}"), PICTURE, TextPart("b")), id="2"),
            AssistantMessage(f"a{HALF}", HALF, (ToolCall("c1", "f", args),), id="3"),
            {"role": "user", "content": HALF, "id": "4"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": args}}],
                "id": "5",
            },
        ]
    )
    call = ToolCall("c1", "f", {"k": ["\ufffd"]})
    assert messages == (
        UserMessage("a\ufffd", id="1"),
        UserMessage(parts=(TextPart("a\ufffd"), PICTURE, TextPart("b")), id="2"),
        AssistantMessage("a\ufffd", "\ufffd", (call,), id="3"),
        UserMessage("\ufffd", id="4"),
        AssistantMessage(tool_calls=(call,), id="5"),
    )


def test_a_clean_message_is_handed_on_as_it_is() -> None:
    message = UserMessage("grüße 👍")
    assert as_messages([message])[0] is message


@given(st.text(st.characters()))
def test_clean_text_can_always_be_encoded(text: str) -> None:
    clean(text).encode()


@given(st.text())
def test_whole_characters_are_left_alone(text: str) -> None:
    assert clean(text) is text


def test_a_pair_of_halves_is_joined() -> None:
    assert clean("\ud83d\udc4d \ud83d") == "👍 \ufffd"


def test_jsonable_is_what_reading_the_json_gives() -> None:
    value = {1: (TextPart("t"), {"n": float("nan")}), "half": HALF}
    assert to_jsonable(value) == json.loads(to_json(value))
    assert to_jsonable(value) == {"1": [{"type": "text", "text": "t"}, {"n": None}], "half": "\ufffd"}


# Tool calls and results.


@pytest.mark.parametrize("nothing", [None, "", "  ", "null", "{}", {}], ids=repr)
def test_no_arguments_are_an_empty_object(nothing: Any) -> None:
    call = ToolCall("c1", "f", nothing)
    assert (call.args, call.raw, call.error) == ({}, None, None)


@pytest.mark.parametrize("raw", ["[1]", "3", '"x"', '{"a": tru', "{", '{"a":1}}', "no"], ids=str)
def test_broken_arguments_are_kept_raw_with_the_reason(raw: str) -> None:
    call = ToolCall("c1", "f", raw)  # type: ignore[arg-type]  # JSON text is taken too
    assert (call.args, call.raw, call.args_json) == ({}, raw, raw)
    assert call.error is not None
    assert "arguments" in call.error


def test_zero_and_false_are_arguments_like_others() -> None:
    assert ToolCall("c1", "f", '{"n": 0, "b": false}').args == {"n": 0, "b": False}  # type: ignore[arg-type]  # as above


def test_half_characters_in_arguments_do_not_break_them() -> None:
    call = ToolCall("c1", "f", '{"a": "\\ud83d", "b": "\\ud83d\\udc4d"}')  # type: ignore[arg-type]  # as above
    assert call.args == {"a": "\ufffd", "b": "👍"}
    assert call.error is None


def test_new_arguments_clear_what_was_broken() -> None:
    call = ToolCall("c1", "f", "{").replace(args={"a": 1})  # type: ignore[arg-type]  # as above
    assert (call.args, call.raw, call.error) == ({"a": 1}, None, None)
    assert ToolCall("c1", "f", "{").replace(id="c2").raw == "{"  # type: ignore[arg-type]  # as above


numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
json_objects = st.dictionaries(
    st.text(),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(json_objects)
@settings(max_examples=30)
def test_arguments_survive_their_json(args: dict[str, Any]) -> None:
    assert ToolCall("c1", "f", ToolCall("c1", "f", args).args_json).args == args  # type: ignore[arg-type]  # as above


def test_answer_and_refuse_make_results_of_the_call() -> None:
    call = ToolCall("c1", "f")
    assert call.answer([1]) == ToolResult(tool_call_id="c1", data=[1])
    assert call.refuse("no") == ToolResult(tool_call_id="c1", data="no", is_error=True)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("plain", "plain"),
        (f"a{HALF}", "a\ufffd"),
        ({"a": "é", "n": None}, '{"a":"é","n":null}'),
        ([1, 2], "[1,2]"),
        (None, "null"),
        (0, "0"),
        (True, "true"),
        ({"a": HALF}, '{"a":"\ufffd"}'),
        (TextPart("t"), "t"),
        ([TextPart("t"), PICTURE], "t"),
    ],
    ids=repr,
)
def test_a_result_reads_as_text_or_compact_json(data: Any, text: str) -> None:
    result = ToolResult(tool_call_id="c1", data=data)
    assert result.text == text
    assert result.message().text == text


def test_a_result_of_parts_becomes_a_message_of_parts() -> None:
    message = ToolResult(tool_call_id="c1", data=[TextPart("t"), PICTURE], is_error=True).message("f")
    assert message == ToolMessage("t", "c1", True, "f", (TextPart("t"), PICTURE), id=message.id)


def test_a_result_that_contains_itself_is_still_readable() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert ToolResult(tool_call_id="c1", data=loop).text == "[[...]]"


# Usage and settings.


def test_adding_usage_keeps_none_apart_from_zero() -> None:
    both = Usage(1, 2, cache_read_tokens=0) + Usage(3, None, cost_usd=0.5)
    assert both == Usage(4, 2, 6, cache_read_tokens=0, cost_usd=0.5)
    assert both.reasoning_tokens is None


@pytest.mark.parametrize(
    ("usage", "total"),
    [(Usage(), None), (Usage(1), 1), (Usage(None, 2), 2), (Usage(1, 2), 3), (Usage(1, 2, 9), 9), (Usage(0, 0), 0)],
    ids=repr,
)
def test_the_total_is_derived_unless_told(usage: Usage, total: int | None) -> None:
    assert usage.total_tokens == total


tokens = st.none() | st.integers(0, 1000)
usages = st.builds(Usage, tokens, tokens, cache_read_tokens=tokens, cache_write_tokens=tokens, reasoning_tokens=tokens)


@given(usages, usages, usages)
@settings(max_examples=40)
def test_adding_usage_has_a_zero_and_no_order(a: Usage, b: Usage, c: Usage) -> None:
    assert a + Usage() == a == Usage() + a
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)


def test_running_totals_replace_each_other() -> None:
    assert Usage(10, 1).merge(Usage(output_tokens=5)) == Usage(10, 5, 15)
    assert Usage(10, 1).merge(Usage(12, 5, 20)) == Usage(12, 5, 20)


def test_stop_becomes_a_tuple() -> None:
    assert ModelSettings(stop="END").stop == ("END",)  # type: ignore[arg-type]  # a single text is taken too
    assert ModelSettings(stop=["a", "b"]).stop == ("a", "b")  # type: ignore[arg-type]  # a list too


def test_usage_and_settings_survive_json() -> None:
    usage, chosen = Usage(1, 2, cost_usd=0.1), ModelSettings(temperature=0.0, stop=("x",), provider_options={"a": 1})
    assert msgspec.json.decode(usage.to_json(), type=Usage) == usage
    assert msgspec.json.decode(chosen.to_json(), type=ModelSettings) == chosen


# Requests and responses.


class NamedTool:
    def __init__(self, name: str) -> None:
        self.name = name

    def to_dict(self) -> dict[str, str]:
        return {"name": self.name}


F, G = NamedTool("f"), NamedTool("g")
REQUEST = ModelRequest(
    provider="p",
    model="m",
    instructions="Be brief.",
    messages=(UserMessage("hi"),),
    tools=(F, G),  # type: ignore[arg-type]  # a name is all that is needed here
)


def names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def test_copies_change_one_thing_and_leave_the_original() -> None:
    before = msgspec.structs.asdict(REQUEST)
    assert REQUEST.with_instructions("x").instructions == "x"
    assert REQUEST.append_instructions("x").instructions == "Be brief.\n\nx"
    assert REQUEST.with_instructions("").append_instructions("x").instructions == "x"
    assert REQUEST.with_messages([]).messages == ()
    assert REQUEST.with_max_tokens(5).settings == ModelSettings(max_tokens=5)
    assert REQUEST.with_temperature(0).settings == ModelSettings(temperature=0)
    assert REQUEST.with_model("n").model == "n"
    assert REQUEST.with_model("n").provider == "p"
    assert msgspec.structs.asdict(REQUEST) == before


def test_tools_can_be_left_out_by_name() -> None:
    assert names(REQUEST.only_tools("g", "nope")) == ["g"]
    assert names(REQUEST.only_tools("nope")) == []
    assert names(REQUEST.without_tools("f")) == ["g"]
    assert names(REQUEST.without_tools("nope")) == ["f", "g"]
    assert names(REQUEST.without_tools()) == names(REQUEST)


@pytest.mark.parametrize("choice", ["auto", "none", "required", "f"])
def test_a_tool_choice_is_a_mode_or_a_tool_on_offer(choice: str) -> None:
    assert REQUEST.with_tool_choice(choice).settings.tool_choice == choice


def test_a_tool_choice_that_is_not_on_offer_is_refused() -> None:
    with pytest.raises(ValueError, match="'h' is neither"):
        REQUEST.with_tool_choice("h")


def test_provider_options_are_merged() -> None:
    request = REQUEST.with_provider_options({"a": 1, "b": 1}).with_provider_options({"b": 2})
    assert request.settings.provider_options == {"a": 1, "b": 2}


class OtherModel:
    provider, name, profile = "q", "n", None


def test_another_provider_gets_no_foreign_signatures_and_options() -> None:
    foreign = AssistantMessage(parts=(ReasoningPart("r", "sig"), ProviderPart(1, "p"), ProviderPart(2), TextPart("a")))
    request = REQUEST.with_messages([foreign]).with_provider_options({"a": 1}).with_temperature(0.5)
    changed = request.with_model(OtherModel())  # type: ignore[arg-type]  # its name is all that is needed here
    assert (changed.provider, changed.model) == ("q", "n")
    assert changed.messages[0].parts == (ReasoningPart("r"), ProviderPart(2), TextPart("a"))  # type: ignore[union-attr]  # an answer
    assert changed.settings == ModelSettings(temperature=0.5)


def test_map_text_reaches_every_text_and_nothing_else() -> None:
    call = ToolCall("c1", "f", {"a": "b"})
    request = ModelRequest(
        messages=(
            UserMessage("a", id="1"),
            UserMessage(parts=(TextPart("b"), PICTURE, TextPart("c")), id="2"),
            AssistantMessage("d", tool_calls=(call,), id="3"),
            ToolMessage("e", "c1", id="4"),
        )
    )
    assert request.map_text(str.upper).messages == (
        UserMessage("A", id="1"),
        UserMessage(parts=(TextPart("B"), PICTURE, TextPart("C")), id="2"),
        AssistantMessage("D", tool_calls=(call,), id="3"),
        ToolMessage("E", "c1", id="4"),
    )


def test_a_made_up_answer_carries_the_models_name() -> None:
    response = REQUEST.answer("yes")
    assert (response.text, response.model, response.provider, response.finish_reason) == ("yes", "m", "p", "stop")


def thread(prefix: str) -> tuple[Message, ...]:
    return (
        UserMessage("hi", id=f"{prefix}1", metadata={"from": prefix}),
        AssistantMessage(tool_calls=(ToolCall(f"{prefix}c", "f", {"b": 1, "a": 2}),), id=f"{prefix}2"),
        ToolMessage("1", f"{prefix}c", id=f"{prefix}3"),
        AssistantMessage(parts=(TextPart("x"), ToolCall(f"{prefix}d", "f"), TextPart("y")), id=f"{prefix}4"),
        ToolMessage("2", f"{prefix}d", id=f"{prefix}5"),
    )


def test_a_fingerprint_does_not_know_ids_and_counters() -> None:
    first = REQUEST.with_messages(thread("a")).fingerprint()
    assert REQUEST.with_messages(thread("b")).replace(number=3, attempt=1, usage=Usage(1)).fingerprint() == first


@pytest.mark.parametrize(
    "changed",
    [
        REQUEST.with_model("n"),
        REQUEST.with_instructions("x"),
        REQUEST.with_messages([UserMessage("ho")]),
        REQUEST.with_messages([SystemMessage("hi")]),
        REQUEST.without_tools("f"),
        REQUEST.with_temperature(0),
        REQUEST.replace(output_schema={"type": "object"}),
    ],
    ids=["model", "instructions", "text", "role", "tools", "settings", "schema"],
)
def test_a_fingerprint_knows_all_that_the_model_sees(changed: ModelRequest) -> None:
    assert changed.fingerprint() != REQUEST.fingerprint()


def test_a_fingerprint_knows_which_result_answers_which_call() -> None:
    calls = AssistantMessage(tool_calls=(ToolCall("c1", "f", {"n": 1}), ToolCall("c2", "f", {"n": 2})))
    straight = (calls, ToolMessage("one", "c1"), ToolMessage("two", "c2"))
    crossed = (calls, ToolMessage("one", "c2"), ToolMessage("two", "c1"))
    assert REQUEST.with_messages(straight).fingerprint() != REQUEST.with_messages(crossed).fingerprint()


def test_a_request_can_be_written_as_json() -> None:
    data = json.loads(REQUEST.to_json())
    assert (data["model"], data["tools"], data["steps"]) == ("m", [{"name": "f"}, {"name": "g"}], 0)


def test_a_response_finishes_for_its_calls_or_stops() -> None:
    assert ModelResponse(AssistantMessage("x")).finish_reason == "stop"
    assert ModelResponse(AssistantMessage(tool_calls=(ToolCall("c", "f"),))).finish_reason == "tool_calls"


def test_with_text_changes_the_words_only() -> None:
    response = ModelResponse(AssistantMessage("x", "r"), usage=Usage(1))
    assert response.with_text("y") == response.replace(message=response.message.replace(text="y"))
    assert (response.with_text("y").text, response.with_text("y").usage) == ("y", Usage(1))


# Chunks.


async def folded(*chunks: ModelChunk) -> ModelResponse:
    return await fold(as_stream(chunks))


async def calls_of(*chunks: ModelChunk) -> list[tuple[str, str, Any]]:
    response = await folded(*chunks, Finish("tool_calls"))
    return [(call.id, call.name, call.args) for call in response.tool_calls]


texts = st.text(min_size=1)
some_calls = st.lists(st.tuples(st.sampled_from("fgh"), json_objects), max_size=3)
parts_before_calls = st.lists(
    st.builds(TextPart, texts)
    | st.builds(ReasoningPart, texts, st.none() | texts)
    | st.builds(ProviderPart, json_objects, st.sampled_from(["", "p"])),
    max_size=4,
)


@given(parts_before_calls, some_calls, parts_before_calls, st.sampled_from(["stop", "length", "tool_calls"]))
@settings(max_examples=40)
async def test_folding_what_was_unfolded_gives_the_same(
    head: list[Part], asked: list[tuple[str, Any]], tail: list[Part], reason: str
) -> None:
    calls: list[Part] = [ToolCall(f"c{i}", name, args) for i, (name, args) in enumerate(asked)]
    response = ModelResponse(AssistantMessage(parts=(*head, *calls, *tail)), reason, Usage(1, 2), "m", "p")
    back = await fold(as_stream(unfold(response)), ModelRequest(model="m", provider="p"))
    assert _joined(back.message.content()) == _joined(response.message.content())
    assert (back.finish_reason, back.usage, back.model) == (reason, Usage(1, 2), "m")
    assert back.message.text == response.message.text


def _joined(parts: tuple[Part, ...]) -> list[Part]:
    """Join neighbours of one kind, as a stream cannot tell them apart."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(last.text + part.text)
        elif isinstance(part, ReasoningPart) and isinstance(last, ReasoningPart) and last.signature is None:
            joined[-1] = ReasoningPart(last.text + part.text, part.signature)
        else:
            joined.append(part)
    return joined


async def test_broken_arguments_survive_unfolding() -> None:
    response = ModelResponse(AssistantMessage(tool_calls=(ToolCall("c1", "f", "{"),)))  # type: ignore[arg-type]  # as above
    assert (await fold(as_stream(unfold(response)))).tool_calls == response.tool_calls


async def test_indexes_may_be_odd_and_missing() -> None:
    assert await calls_of(
        ToolCallDelta(3, "a", "f", '{"x":'),
        ToolCallDelta(3, args="1}"),
        ToolCallDelta(None, "b", "g", "{}"),
        ToolCallDelta(0, "c", "f", ""),
        ToolCallDelta(0, args='{"x":2}'),
    ) == [("a", "f", {"x": 1}), ("b", "g", {}), ("c", "f", {"x": 2})]


async def test_calls_may_be_interleaved() -> None:
    assert await calls_of(
        ToolCallDelta(0, "a", "f", '{"x":'),
        ToolCallDelta(1, "b", "g", '{"y":'),
        ToolCallDelta(0, args="1}"),
        ToolCallDelta(1, args="2}"),
    ) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


async def test_one_index_with_another_name_or_id_is_another_call() -> None:
    first, second, third = await calls_of(
        ToolCallDelta(0, "a", "f", "{}"), ToolCallDelta(0, "b", "f", "{}"), ToolCallDelta(0, None, "g", "{}")
    )
    assert (first[0], second[0], third[1]) == ("a", "b", "g")


async def test_arguments_are_complete_only_at_the_end() -> None:
    assert await calls_of(ToolCallDelta(0, "a", "f", "{}"), ToolCallDelta(0, args=" ")) == [("a", "f", {})]
    assert await calls_of(ToolCallDelta(0, "a", "f", '{"n":12'), ToolCallDelta(0, args="3}")) == [
        ("a", "f", {"n": 123})
    ]


async def test_a_name_may_come_late() -> None:
    asked = await calls_of(ToolCallDelta(None, "a", None, '{"q"'), ToolCallDelta(None, "a", "find", ':"x"}'))
    assert asked == [("a", "find", {"q": "x"})]


async def test_calls_without_ids_get_their_own() -> None:
    first, second = await calls_of(ToolCallDelta(None, None, "add", "[]"), ToolCallDelta(None, None, "add", "{}"))
    assert first[0]
    assert second[0]
    assert first[0] != second[0]


async def test_a_doubled_id_is_keyed_anew_and_never_merged() -> None:
    f, g, h, h2 = await calls_of(
        ToolCallDelta(0, "", "f", "{}"),
        ToolCallDelta(1, None, "g", "{}"),
        ToolCallDelta(2, "k", "h", '{"a":1}'),
        ToolCallDelta(3, "k", "h2", '{"b":2}'),
    )
    assert [call[1:] for call in (f, g, h, h2)] == [("f", {}), ("g", {}), ("h", {"a": 1}), ("h2", {"b": 2})]
    assert h[0] == "k"
    assert len({f[0], g[0], h[0], h2[0], ""}) == 5


async def test_a_doubled_id_without_index_and_with_one_name_is_keyed_anew() -> None:
    first, second = await calls_of(ToolCallDelta(0, "k", "h", '{"a":1}'), ToolCallDelta(1, "k", "h", '{"a":2}'))
    assert (first[2], second[2]) == ({"a": 1}, {"a": 2})
    assert first[0] != second[0]


async def test_two_answers_in_one_stream_are_refused() -> None:
    with pytest.raises(ProviderError, match=r"spliced.*'m1'.*'m2'"):
        await folded(MessageStart("m1"), TextDelta("a"), MessageStart("m2"), TextDelta("b"), Finish())
    assert (await folded(MessageStart("m1"), TextDelta("a"), MessageStart("m1"), TextDelta("b"), Finish())).text == "ab"


async def test_a_stream_is_closed_where_a_chunk_of_it_is_refused() -> None:
    left: list[str] = []

    async def two_answers() -> AsyncIterator[ModelChunk]:
        try:
            yield MessageStart("m1")
            yield MessageStart("m2")
            yield Finish()
        finally:
            left.append("closed")

    stream = two_answers()
    with pytest.raises(ProviderError, match="spliced"):
        await fold(stream)
    assert left == ["closed"]


async def test_a_stream_without_finish_was_cut_off() -> None:
    with pytest.raises(ProviderError, match="cut off") as caught:
        await folded(TextDelta("a"))
    assert caught.value.retryable


async def test_an_unknown_finish_word_becomes_unknown() -> None:
    assert (await folded(Finish("vibes"))).finish_reason == "unknown"


async def test_the_last_totals_count() -> None:
    response = await folded(UsageUpdate(Usage(10, 1)), UsageUpdate(Usage(output_tokens=7)), Finish())
    assert response.usage == Usage(10, 7, 17)


async def test_a_character_split_over_chunks_is_joined() -> None:
    assert (await folded(TextDelta("\ud83d"), TextDelta("\udc4d"), Finish())).text == "👍"


async def test_empty_pieces_leave_no_part() -> None:
    response = await folded(TextDelta(""), ReasoningDelta("r"), TextDelta(""), TextDelta("a"), Finish())
    assert response.message == AssistantMessage("a", "r", id=response.message.id)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"data": b"QQ", "media_type": "image/png"}, r"takes data as text, got bytes; .*b64encode"),
        ({"url": 3}, "url as"),
    ],
)
def test_a_picture_is_given_as_text(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ImagePart(**given)
