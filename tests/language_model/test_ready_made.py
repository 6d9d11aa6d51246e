"""The layers that come with the library: default settings, reasoning in tags, streams of models without, the log."""

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose import (
    Agent,
    Finish,
    MessageStart,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    UserMessage,
)
from interpose.models import LanguageModelMiddleware, Model, fold, wrap_model
from interpose.models.middleware import DefaultSettings, ExtractReasoning, LogModelCalls, SimulateStreaming
from interpose.testing import ScriptedModel, calls, chunks, collect, event_types, fail, make_request, text

ASK = make_request(UserMessage("go"), provider="scripted", model="scripted")


async def whole(model: Model, request: ModelRequest = ASK) -> ModelResponse:
    return await model.generate(request)


async def streamed(model: Model, request: ModelRequest = ASK) -> ModelResponse:
    async with aclosing(model.stream(request)) as read:  # type: ignore[type-var]  # a generator
        return await fold(read, request)


BOTH = pytest.mark.parametrize("ask", [whole, streamed])


# --- DefaultSettings ---


@BOTH
async def test_defaults_fill_in_what_is_left_open(ask: Any) -> None:
    ours = ModelSettings(temperature=0.2, max_tokens=99, provider_options={"a": 1, "b": 1})
    theirs = ModelSettings(max_tokens=5, provider_options={"b": 2})
    inner = ScriptedModel(text("ok"))
    await ask(wrap_model(inner, DefaultSettings(ours)), ASK.replace(settings=theirs))
    expected = ModelSettings(temperature=0.2, max_tokens=5, provider_options={"a": 1, "b": 2})
    assert inner.requests[0].settings == expected


async def test_zero_is_no_open_setting() -> None:
    inner = ScriptedModel(text("ok"))
    model = wrap_model(inner, DefaultSettings(ModelSettings(temperature=0.9)))
    await whole(model, ASK.with_temperature(0.0))
    assert inner.requests[0].settings.temperature == 0.0


def test_defaults_must_be_settings() -> None:
    with pytest.raises(TypeError, match="takes a ModelSettings"):
        DefaultSettings({"temperature": 0.2})  # type: ignore[arg-type]  # what is tested


# --- ExtractReasoning ---

SAID = "<think>\nTwo and two.\n</think>\n\nFour <b>four</b>, a < b."


def parted(response: ModelResponse) -> tuple[str | None, str]:
    return response.message.reasoning, response.text


@BOTH
async def test_text_in_tags_becomes_reasoning(ask: Any) -> None:
    model = wrap_model(ScriptedModel(text(SAID)), ExtractReasoning())
    assert parted(await ask(model)) == ("Two and two.\n", "Four <b>four</b>, a < b.")


@pytest.mark.parametrize("place", range(1, len(SAID)))
async def test_tags_are_found_wherever_they_are_split(place: int) -> None:
    model = wrap_model(ScriptedModel(text(chunks=(SAID[:place], SAID[place:]))), ExtractReasoning())
    assert parted(await streamed(model)) == ("Two and two.\n", "Four <b>four</b>, a < b.")


PIECES = st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think", ">", "a", " ", "\n", "<thin", "b"]))


@given(PIECES, PIECES)
async def test_split_never_changes_what_is_made_of_a_text(first: list[str], rest: list[str]) -> None:
    pieces = [*first, *rest]
    said = "".join(pieces)
    layer = ExtractReasoning()
    by_piece = await streamed(wrap_model(ScriptedModel(text(chunks=pieces)), layer))
    by_letter = await streamed(wrap_model(ScriptedModel(text(chunks=said)), layer))
    at_once = await whole(wrap_model(ScriptedModel(text(said)), layer))
    assert parted(by_piece) == parted(by_letter) == parted(at_once)


async def test_only_what_may_be_a_tag_is_held_back() -> None:
    model = wrap_model(ScriptedModel(text(chunks=("a<", "b", "<thi", "nk>c"))), ExtractReasoning())
    assert [chunk async for chunk in model.stream(ASK)] == [
        TextDelta("a"),
        TextDelta("<b"),
        ReasoningDelta("c"),
        Finish("stop"),
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("no tags", (None, "no tags")),
        ("<think>never closed", ("never closed", "")),
        ("one <think>two</think> three <think>four</think>", ("twofour", "one three ")),
        ("<think></think>said", (None, "said")),
        ("ends in <thi", (None, "ends in <thi")),
        ("</think>", (None, "</think>")),
        ("", (None, "")),
    ],
)
@BOTH
async def test_odd_tags(ask: Any, said: str, expected: tuple[Any, str]) -> None:
    assert parted(await ask(wrap_model(ScriptedModel(text(said)), ExtractReasoning()))) == expected


@BOTH
async def test_answer_may_begin_inside_the_tag(ask: Any) -> None:
    model = wrap_model(ScriptedModel(text("Hm.</think>Four")), ExtractReasoning(starts_inside=True))
    assert parted(await ask(model)) == ("Hm.", "Four")


@BOTH
async def test_tag_may_have_another_name(ask: Any) -> None:
    model = wrap_model(ScriptedModel(text("<reason>Hm.</reason>Four")), ExtractReasoning("reason"))
    assert parted(await ask(model)) == ("Hm.", "Four")


@pytest.mark.parametrize("tag", ["", "<think>", "a b", "a/b"])
def test_tag_is_a_name(tag: str) -> None:
    with pytest.raises(ValueError, match="without brackets"):
        ExtractReasoning(tag)


@BOTH
async def test_calls_usage_and_id_stay_as_they_were(ask: Any) -> None:
    call = ToolCall("c1", "echo", {"x": "a"})
    turn = calls(call, text="<think>Hm.</think>Look", usage=Usage(3, 4))
    response = await ask(wrap_model(ScriptedModel(turn), ExtractReasoning()))
    assert (response.tool_calls, response.usage, response.finish_reason) == ((call,), Usage(3, 4), "tool_calls")
    assert parted(response) == ("Hm.", "Look")


async def test_held_text_comes_before_the_call_behind_it() -> None:
    model = wrap_model(ScriptedModel(calls(("echo", {}), text="a <")), ExtractReasoning())
    kinds = [type(chunk).__name__ async for chunk in model.stream(ASK)]
    assert kinds == ["TextDelta", "TextDelta", "ToolCallDelta", "Finish"]


async def test_usage_in_between_holds_nothing_up() -> None:
    turn = chunks(MessageStart("m"), TextDelta("<th"), UsageUpdate(Usage(1, 1)), TextDelta("ink>x"), Finish())
    assert parted(await streamed(wrap_model(ScriptedModel(turn), ExtractReasoning()))) == ("x", "")


async def test_run_shows_reasoning_and_remembers_it_apart() -> None:
    agent = Agent(wrap_model(ScriptedModel(text(SAID)), ExtractReasoning()))
    async with agent.stream("go") as run:
        shown = event_types(await collect(run))
        result = await run.result()
    assert ("REASONING_MESSAGE_CONTENT" in shown, result.text) == (True, "Four <b>four</b>, a < b.")
    assert result.messages[-1].reasoning == "Two and two.\n"  # type: ignore[union-attr]  # the model's message


# --- SimulateStreaming ---


class WholeOnly(Model):
    """A model that gives whole answers only."""

    provider, name, profile = "whole", "whole", None

    def __init__(self, inner: ScriptedModel) -> None:
        self.inner = inner

    def stream(self, request: ModelRequest, /) -> AsyncIterator[Any]:
        raise AssertionError("asked for a stream")

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        return await self.inner.generate(request)


async def test_whole_answer_is_streamed() -> None:
    call = ToolCall("c1", "echo", {"x": "a"})
    inner = ScriptedModel(calls(call, text="Look", usage=Usage(1, 2)))
    response = await streamed(wrap_model(WholeOnly(inner), SimulateStreaming()))
    assert (response.text, response.tool_calls, response.usage) == ("Look", (call,), Usage(1, 2))


async def test_simulated_stream_passes_the_layers_of_whole_answers_inside() -> None:
    model = wrap_model(WholeOnly(ScriptedModel(text(SAID))), SimulateStreaming(), ExtractReasoning())
    assert parted(await streamed(model)) == ("Two and two.\n", "Four <b>four</b>, a < b.")


async def test_whole_answer_passes_untouched() -> None:
    assert (await whole(wrap_model(WholeOnly(ScriptedModel(text("hi"))), SimulateStreaming()))).text == "hi"


async def test_run_of_a_model_that_cannot_stream_can_be_watched() -> None:
    agent = Agent(wrap_model(WholeOnly(ScriptedModel(text("hi"))), SimulateStreaming()))
    async with agent.stream("go") as run:
        events = await collect(run)
    assert event_types(events).count("TEXT_MESSAGE_CONTENT") == 1


# --- LogModelCalls ---


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="interpose.models")
    return caplog


@BOTH
async def test_each_call_is_one_line(ask: Any, lines: pytest.LogCaptureFixture) -> None:
    await ask(wrap_model(ScriptedModel(text("secret", usage=Usage(3, 4))), LogModelCalls()))
    (line,) = lines.messages
    assert line.startswith("scripted:scripted, 1 messages after ")
    assert line.endswith(" ms: stop; tokens: 3 in, 4 out")


@BOTH
async def test_unreported_usage_is_unknown_and_texts_are_there_when_asked_for(
    ask: Any, lines: pytest.LogCaptureFixture
) -> None:
    await ask(wrap_model(ScriptedModel(text(chunks=("hi ", "you"))), LogModelCalls(content=True)))
    assert lines.messages[0].endswith("stop; tokens: unknown; said: hi you")


@BOTH
async def test_failure_is_a_warning(ask: Any, lines: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError):
        await ask(wrap_model(ScriptedModel(fail(RuntimeError("boom"))), LogModelCalls()))
    assert [(record.levelname, record.message.rpartition(" ms: ")[2]) for record in lines.records] == [
        ("WARNING", "RuntimeError: boom")
    ]


async def test_call_that_is_left_is_logged_as_such(lines: pytest.LogCaptureFixture) -> None:
    model = wrap_model(ScriptedModel(text(chunks=("a", "b"))), LogModelCalls())
    async with aclosing(model.stream(ASK)) as read:  # type: ignore[type-var]  # a generator
        async for _ in read:
            break
    assert lines.messages[0].endswith("left early")


async def test_stream_without_an_end_is_logged_as_cut_off(lines: pytest.LogCaptureFixture) -> None:
    model = wrap_model(ScriptedModel(chunks(TextDelta("a"))), LogModelCalls())
    assert [chunk async for chunk in model.stream(ASK)] == [TextDelta("a")]
    assert "cut off" in lines.messages[0]


async def test_logger_and_level_are_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    own = logging.getLogger("mine")
    caplog.set_level(logging.DEBUG, logger="mine")
    await whole(wrap_model(ScriptedModel(text("hi")), LogModelCalls(own, level=logging.DEBUG)))
    assert [(record.name, record.levelno) for record in caplog.records] == [("mine", logging.DEBUG)]


@pytest.mark.parametrize(
    "layer",
    [DefaultSettings(ModelSettings()), ExtractReasoning(), SimulateStreaming(), LogModelCalls()],
    ids=lambda layer: type(layer).__name__,
)
async def test_leaving_early_reaches_the_model_through_each(layer: LanguageModelMiddleware) -> None:
    inner = ScriptedModel(text(chunks=("a", "b", "c")))
    async with aclosing(wrap_model(inner, layer).stream(ASK)) as read:  # type: ignore[type-var]  # a generator
        async for _ in read:
            break
    assert inner.open_streams == 0
