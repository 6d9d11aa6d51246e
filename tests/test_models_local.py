"""The model in this process: how requests are planned, and the embedded model itself, by structure and not by text."""

import asyncio
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interpose.errors import ConfigurationError, ContextTooLong, ProviderError
from interpose.messages import AssistantMessage, ImagePart, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from interpose.models.base import Finish, TextDelta, ToolCallDelta, UsageUpdate
from interpose.models.guard import refuse_real_calls
from interpose.models.local import LocalModel
from interpose.models.local.files import INSTALL_ENGINE, INSTALL_MODEL, embedded_file, template_of
from interpose.models.local.schema import call_schema, output_schema
from interpose.models.local.wire import CallText, Plan, ToolPolicy, chat, from_wire, to_error, to_wire
from interpose.request import ModelRequest, ModelSettings, Usage
from interpose.tools import tool


def missing() -> str:
    """The command that installs what the embedded model lacks; empty where it is there."""
    if importlib.util.find_spec("xllamacpp") is None:
        return INSTALL_ENGINE
    try:
        embedded_file()
    except ConfigurationError:
        return INSTALL_MODEL
    return ""


@pytest.fixture(scope="session")
def embedded() -> LocalModel:
    if missing():
        pytest.skip(f"the embedded model is not installed: {missing()}")
    return LocalModel()


@tool
def population(city: str) -> int:
    """Return how many people live in a city."""
    return len(city)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


QUESTION = UserMessage("How many people live in Lyon?")
CALL = ToolCall("c1", "population", {"city": "Lyon"})
ANSWERED = (QUESTION, AssistantMessage(tool_calls=(CALL,)), ToolMessage("522000", "c1"))


def request_of(*messages: Message, choice: str | None = None, max_tokens: int | None = 48, **more: Any) -> ModelRequest:
    settings = ModelSettings(tool_choice=choice, max_tokens=max_tokens)
    return ModelRequest(provider="local", model="m", messages=messages or (QUESTION,), settings=settings, **more)


def plan_of(request: ModelRequest, policy: ToolPolicy = "first") -> Plan:
    return to_wire(request, policy, 512)


# Plans


@pytest.mark.parametrize(
    ("choice", "messages", "is_call"),
    [
        (None, (QUESTION,), True),
        ("auto", ANSWERED, False),
        ("auto", (*ANSWERED, AssistantMessage("so many"), UserMessage("and Nice?")), True),
        ("none", (QUESTION,), False),
        ("required", ANSWERED, True),
        ("population", ANSWERED, True),
        ("gone", (QUESTION,), False),
    ],
)
def test_when_the_first_policy_calls(choice: str | None, messages: tuple[Message, ...], is_call: bool) -> None:
    assert plan_of(request_of(*messages, choice=choice, tools=(population,))).is_call is is_call


def test_the_final_step_answers_in_words() -> None:
    assert not plan_of(request_of(tools=(population,), is_final_step=True)).is_call


def test_a_named_choice_offers_that_tool_alone() -> None:
    body = plan_of(request_of(choice="add", tools=(population, add))).body
    assert body["response_format"]["json_schema"]["schema"]["properties"]["name"] == {"const": "add"}


def test_the_model_policy_leaves_the_choice_to_the_model() -> None:
    plan = plan_of(request_of(*ANSWERED, tools=(population, add)), "model")
    assert not plan.is_call
    assert [offered["function"]["name"] for offered in plan.body["tools"]] == ["population", "add"]
    assert [turn["role"] for turn in plan.body["messages"]] == ["user", "assistant", "tool"]


def test_the_model_policy_forces_a_required_call_too() -> None:
    assert plan_of(request_of(choice="required", tools=(population,)), "model").is_call


def test_an_output_schema_waits_until_no_call_is_due() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    first, second = (
        plan_of(request_of(*messages, tools=(population,), output_schema=schema))
        for messages in ((QUESTION,), ANSWERED)
    )
    assert (first.is_call, second.is_call) == (True, False)
    assert second.body["response_format"]["json_schema"]["name"] == "output"


def test_settings_and_options_reach_the_engine() -> None:
    settings = ModelSettings(max_tokens=9999, stop=("x",), seed=1, top_p=0.5, provider_options={"top_k": 3})
    body = plan_of(request_of().replace(settings=settings)).body
    assert {
        "max_tokens": 512,
        "stop": ["x"],
        "seed": 1,
        "top_p": 0.5,
        "top_k": 3,
        "temperature": 0,
    }.items() <= body.items()


def test_results_stand_under_the_question_as_data() -> None:
    wire = chat(request_of(SystemMessage("S."), *ANSWERED, instructions="I."), "H.")
    assert wire == [
        {"role": "system", "content": "I.\n\nS.\n\nH."},
        {"role": "user", "content": "How many people live in Lyon?\nData from population: 522000"},
    ]


def test_what_a_text_model_cannot_see_is_named() -> None:
    wire = chat(request_of(UserMessage(parts=(ImagePart(url="https://x/y.png"),))), "")
    assert wire == [{"role": "user", "content": "(a picture)"}]


# Schemas


def test_call_schema_bounds_and_closes_arguments() -> None:
    schema = call_schema([population])
    assert schema["properties"]["arguments"] == {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 200}},
        "required": ["city"],
        "additionalProperties": False,
    }


def test_definitions_of_several_tools_stay_apart() -> None:
    parameters = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/P"}},
        "$defs": {"P": {"type": "integer", "title": "P"}},
    }
    tools = [tool(lambda at: at, name=name, description="D.", parameters=parameters) for name in ("f", "g")]
    schema = call_schema(tools)
    assert schema["$defs"] == {"t0_P": {"type": "integer"}, "t1_P": {"type": "integer"}}
    assert schema["oneOf"][1]["properties"]["arguments"]["properties"] == {"at": {"$ref": "#/$defs/t1_P"}}


@pytest.mark.parametrize(
    ("schema", "bounded"),
    [
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "email", "pattern": "(?=x)"}, {"type": "string", "maxLength": 200}),
        ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 3}),
        ({"enum": ["a", "b"], "type": "string"}, {"enum": ["a", "b"]}),
        ({"type": "array", "items": True, "uniqueItems": True}, {"type": "array", "items": {}, "maxItems": 8}),
        ({"type": "array", "items": {}, "minItems": 9}, {"type": "array", "items": {}, "maxItems": 9, "minItems": 9}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
         {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ({"type": "object", "additionalProperties": {"type": "integer", "title": "N"}},
         {"type": "object", "additionalProperties": {"type": "integer"}}),
        ({"$ref": "#"}, {}),
    ],
)  # fmt: skip
def test_schemas_for_the_grammar(schema: dict[str, Any], bounded: dict[str, Any]) -> None:
    assert output_schema(schema) == bounded


# Chunks


@pytest.mark.parametrize("size", [1, 3, 200])
@pytest.mark.parametrize("args", ['{"city": "Lyon"}', "{}", '{"a": {"b": "}"}, "c": [{}]}'])
def test_the_text_of_a_call_becomes_its_pieces(args: str, size: int) -> None:
    text, call = f'{{\n "name": "f", "arguments": {args}\n }}\n', CallText()
    deltas = [delta for start in range(0, len(text), size) for delta in call.read(text[start : start + size])]
    assert [delta.name for delta in deltas if delta.name] == ["f"]
    assert "".join(delta.args for delta in deltas).strip() == args


def test_chunks_of_the_engine() -> None:
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "total_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    calls = [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{"}}]
    choice = {"delta": {"content": "a", "tool_calls": calls}, "finish_reason": "length"}
    told = Usage(input_tokens=3, output_tokens=1, total_tokens=4, cache_read_tokens=2)
    assert list(from_wire({"choices": [choice], "usage": usage})) == [
        TextDelta("a"),
        ToolCallDelta(0, None, "f", "{"),
        Finish("length"),
        UsageUpdate(told),
    ]


def test_an_error_of_the_engine_keeps_its_text() -> None:
    error = to_error({"message": "out of memory", "type": "server_error"}, "m")
    assert (type(error), error.code, str(error)) == (
        ProviderError,
        "server_error",
        "local:m: the engine failed: out of memory",
    )


# What is missing


def test_a_missing_file_is_named(embedded: LocalModel) -> None:
    with pytest.raises(ConfigurationError, match=r"no model file '.*none\.gguf'"):
        LocalModel("none.gguf")


async def test_a_file_that_is_no_model_is_named(embedded: LocalModel, tmp_path: Path) -> None:
    (tmp_path / "junk.gguf").write_text("junk")
    with pytest.raises(ConfigurationError, match=r"cannot load '.*junk\.gguf'"):
        await LocalModel(tmp_path / "junk.gguf").generate(request_of())


def test_an_unknown_policy_is_refused(embedded: LocalModel) -> None:
    with pytest.raises(ConfigurationError, match="'first' or 'model'"):
        LocalModel(tool_policy="never")  # type: ignore[arg-type]  # the mistake in question


# The embedded model


def test_profile_of_the_embedded_model(embedded: LocalModel) -> None:
    profile = embedded.profile
    assert profile is not None
    assert (embedded.provider, embedded.name, profile.max_input_tokens) == ("local", "smollm2-135m", 4096)
    assert (profile.supports_structured_output, profile.weak_tool_schema) == (True, True)


def test_the_template_is_read_from_the_file(embedded: LocalModel) -> None:
    assert "<|im_start|>" in template_of(embedded_file())


async def collected(model: LocalModel, request: ModelRequest) -> Sequence[Any]:
    return [chunk async for chunk in model.stream(request)]


@pytest.mark.local_model
async def test_answer_streams_with_usage_and_finish(embedded: LocalModel) -> None:
    chunks = await collected(embedded, request_of(max_tokens=8))
    assert sum(isinstance(chunk, TextDelta) for chunk in chunks) > 1
    assert isinstance(chunks[-2], UsageUpdate)
    assert (chunks[-1], chunks[-2].usage.output_tokens) == (Finish("length"), 8)


@pytest.mark.local_model
async def test_a_call_is_made_and_its_result_is_put_into_words(embedded: LocalModel) -> None:
    request = request_of(tools=(population, add))
    first = await embedded.generate(request)
    call = first.tool_calls[0]
    assert (first.finish_reason, first.text, len(first.tool_calls)) == ("tool_calls", "", 1)
    assert call.name in ("population", "add")
    assert set(call.args) == ({"city"} if call.name == "population" else {"a", "b"})
    second = await embedded.generate(request.with_messages([QUESTION, first.message, call.answer(522000).message()]))
    assert (bool(second.text), second.tool_calls) == (True, ())


@pytest.mark.local_model
async def test_a_named_choice_calls_that_tool(embedded: LocalModel) -> None:
    response = await embedded.generate(request_of(choice="add", tools=(population, add)))
    assert [(call.name, set(call.args)) for call in response.tool_calls] == [("add", {"a", "b"})]


@pytest.mark.local_model
async def test_output_fits_its_schema(embedded: LocalModel) -> None:
    properties = {"city": {"type": "string", "maxLength": 20}, "size": {"enum": ["small", "large"]}}
    schema = {"type": "object", "properties": properties, "required": ["city", "size"]}
    response = await embedded.generate(request_of(output_schema=schema))
    told = msgspec.json.decode(response.text)
    assert (set(told), told["size"] in ("small", "large")) == ({"city", "size"}, True)


@pytest.mark.local_model
async def test_a_request_that_is_too_long_says_both_numbers(embedded: LocalModel) -> None:
    with pytest.raises(ContextTooLong, match=r"has \d{4} tokens, the context holds 4096"):
        await embedded.generate(request_of(UserMessage("word " * 5000)))


@pytest.mark.local_model
async def test_an_engine_error_keeps_its_text(embedded: LocalModel) -> None:
    odd = {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "odd"}}}}
    request = request_of().with_provider_options(odd)
    with pytest.raises(ProviderError, match="unrecognized type odd"):
        await embedded.generate(request)


@pytest.mark.local_model
@pytest.mark.parametrize("prompt", ["Tell a long story.", "word " * 1500], ids=["generating", "reading"])
async def test_cancelling_stops_the_engine(embedded: LocalModel, prompt: str) -> None:
    task = asyncio.create_task(embedded.generate(request_of(UserMessage(prompt), max_tokens=None)))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    started = time.monotonic()
    await embedded.generate(request_of(UserMessage("hi"), max_tokens=1))
    assert time.monotonic() - started < 4  # the rest of the work is longer than that


@pytest.mark.local_model
async def test_the_loop_stays_free_while_the_model_works(embedded: LocalModel) -> None:
    task = asyncio.create_task(embedded.generate(request_of(max_tokens=24)))
    ticks = 0
    while not task.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 10


@pytest.mark.local_model
async def test_calls_at_once_take_their_turn(embedded: LocalModel) -> None:
    both = await asyncio.gather(*[LocalModel().generate(request_of(max_tokens=4)) for _ in range(2)])
    assert [response.finish_reason for response in both] == ["length", "length"]


async def test_real_calls_can_be_forbidden(embedded: LocalModel) -> None:
    with refuse_real_calls(), pytest.raises(ConfigurationError, match="local:m"):
        await embedded.generate(request_of())
