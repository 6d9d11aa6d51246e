"""Whatever cuts history, in any order and with any limits: what must hold for every request and every ending."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interpose import (
    Agent,
    AssistantMessage,
    ImagePart,
    Message,
    ModelProfile,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    history_trimmer,
    tool,
)
from interpose.builtin import ContextWindow, ResultEviction, Summarization, ToolCache, extractive, read_tool
from interpose.testing import MemoryBackend, ScriptedModel, Trace, assert_events_valid, calls, collect, text, text_of

SIZES = st.sampled_from([0, 1, 30, 700, 5000])
PICTURE = ImagePart(data="QUJD" * 1000, media_type="image/png")


@tool
async def echo(x: str) -> str:
    """Give it back."""
    return x


@st.composite
def exchanges(draw: Any) -> list[Message]:
    """A message, or one that calls tools with all its results, in any order."""
    kind = draw(st.sampled_from(["user", "picture", "system", "assistant", "calls"]))
    if kind == "user":
        return [UserMessage("ü" * draw(SIZES))]
    if kind == "picture":
        return [UserMessage(parts=(TextPart("look"), PICTURE))]
    if kind == "system":
        return [SystemMessage("s" * draw(SIZES))]
    if kind == "assistant":
        return [AssistantMessage("a" * draw(SIZES))]
    asked = [ToolCall(f"c{draw(st.uuids())}", "echo", {"x": "y"}) for _ in range(draw(st.integers(1, 4)))]
    results = [ToolMessage("r" * draw(SIZES), call.id) for call in asked]
    return [AssistantMessage(tool_calls=tuple(asked)), *draw(st.permutations(results))]


@st.composite
def histories(draw: Any) -> list[Message]:
    head: list[Message] = [SystemMessage("rules")] * draw(st.integers(0, 1))
    body = draw(st.lists(exchanges(), max_size=9))
    return [*head, *[message for one in body for message in one], UserMessage("newest " + "n" * draw(SIZES))]


def fails(ctx: Any, messages: Sequence[Message]) -> str:
    raise RuntimeError("no summary today")


LIMIT = st.sampled_from([None, 1, 3, 900])
CUTTERS = st.one_of(
    st.builds(
        lambda *limits: lambda backend: ContextWindow(*limits), LIMIT, LIMIT, LIMIT, st.sampled_from([None, "", "cut"])
    ),
    st.builds(
        lambda limit, keep, by: lambda backend: Summarization(limit, keep, backend=backend, summarize=by),
        st.sampled_from([1, 60, 900]),
        st.sampled_from([1, 2, 50]),
        st.sampled_from([extractive, fails, lambda ctx, messages: "short", lambda ctx, messages: ""]),
    ),
    st.builds(
        lambda limit, chars: lambda backend: ResultEviction(backend, limit, preview_chars=chars),
        st.sampled_from([1, 50, 2000]),
        st.sampled_from([0, 1, 700]),
    ),
    st.just(lambda backend: ToolCache()),
)


def played(history: Sequence[Message], cutters: Sequence[Any], steps: Sequence[int], trims: bool) -> tuple[Any, ...]:
    """An agent, its model, and what watches it."""
    backend, trace = MemoryBackend(), Trace()
    turns = [calls(*[("echo", {"x": "z" * 900 * count})] * count) for count in steps]
    model = ScriptedModel(*turns, text("done"), profile=ModelProfile(max_input_tokens=300, max_output_tokens=100))
    middleware = [make(backend) for make in cutters]
    for place, one in enumerate(middleware):
        one.name = f"{type(one).__name__} {place}"
    agent = Agent(model, tools=[echo, read_tool(backend)], middleware=[*middleware, trace], post_model_hooks=())
    if trims:
        agent.register_pre_model_hook(history_trimmer)
    return agent, model, trace


def check_requests(model: ScriptedModel, history: Sequence[Message]) -> None:
    """The strict model has refused what parts calls from results; here is what it cannot know."""
    heads = [message.id for message in history if message.role == "system"][: 1 if history[0].role == "system" else 0]
    for request in model.requests:
        ids = [message.id for message in request.messages]
        assert ids[: len(heads)] == heads
        assert [message.id for message in request.messages if message.role == "user"][-1] == history[-1].id
        known = [message.id for message in history if message.id in ids]
        assert [one for one in ids if one in known] == known


def shape(messages: Sequence[Message]) -> list[Any]:
    return [(message.role, "" if "_evicted" in message.text else message.text) for message in messages]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(), st.lists(CUTTERS, min_size=1, max_size=4), st.lists(st.integers(1, 3), max_size=3), st.booleans())
async def test_nothing_that_cuts_history_parts_what_belongs_together_or_changes_what_is_kept(
    history: list[Message], cutters: list[Any], steps: list[int], trims: bool
) -> None:
    agent, model, trace = played(history, cutters, steps, trims)
    result = await agent.run(list(history))
    check_requests(model, history)
    assert list(result.messages[: len(history)]) == history
    assert trace.names().count("on_finish") == 1

    other, streaming, told = played(history, cutters, steps, trims)
    async with other.stream(list(history)) as run:
        events = await collect(run)
        streamed = await run.result()
    assert_events_valid(events)
    assert text_of(events) == streamed.text == result.text
    assert told.names().count("on_finish") == 1
    assert shape(streamed.messages) == shape(result.messages)
    assert [len(one.messages) for one in streaming.requests] == [len(one.messages) for one in model.requests]
