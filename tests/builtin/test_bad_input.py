"""What context management makes of what it should never be given: nothing is lost, and the run goes on where it can."""

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interpose import (
    Agent,
    AssistantMessage,
    ContextTooLong,
    FileBackend,
    Limits,
    Message,
    ModelProfile,
    ModelRequest,
    PreModelHookContext,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    history_trimmer,
    tool,
)
from interpose.builtin import ContextWindow, ResultEviction, Summarization, ToolCache, by_model, read_tool
from interpose.testing import MemoryBackend, ScriptedModel, calls, hang, make_context, text


def short(ctx: Any, messages: Sequence[Message]) -> str:
    return "short"


def trimmed(messages: Sequence[Message]) -> list[Message]:
    """What the model hook sends, to a model that has room for nothing."""
    profile = ModelProfile(max_input_tokens=1)
    context = PreModelHookContext(
        messages=tuple(messages), model="m", model_profile=profile, tools=(), system_prompt="rules " * 50, state={}
    )
    result = history_trimmer(context)
    return list(messages if result is None or result.messages is None else result.messages)


async def windowed(messages: Sequence[Message]) -> list[Message]:
    request = ModelRequest(messages=tuple(messages), instructions="rules " * 50)
    sent = ContextWindow(max_messages=1, max_chars=1, notice=None).before_model_call(make_context(), request)
    return list((sent or request).messages)


async def summarised(messages: Sequence[Message]) -> list[Message]:
    request = ModelRequest(messages=tuple(messages), instructions="rules " * 50)
    mine = Summarization(1, keep_messages=1, summarize=short)
    sent = await mine.before_model_call(make_context(), request)
    return [message for message in (sent or request).messages if not message.text.startswith("Summary so far")]


async def by_hook(messages: Sequence[Message]) -> list[Message]:
    return [message for message in trimmed(messages) if "were left out" not in message.text]


CUTTERS = pytest.mark.parametrize("cut", [windowed, summarised, by_hook])


def call(*ids: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=tuple([ToolCall(one, "echo", {"x": "y" * 99}) for one in ids]))


def result(of: str) -> ToolMessage:
    return ToolMessage("r" * 400, of)


# --- odd histories, with limits below what must be sent ---


@CUTTERS
async def test_one_message_over_every_budget_is_sent_whole(cut: Any) -> None:
    messages = [UserMessage("u" * 100_000)]
    assert await cut(messages) == messages


@CUTTERS
async def test_leading_system_messages_are_never_cut(cut: Any) -> None:
    messages = [SystemMessage("s" * 5000), SystemMessage("t" * 5000), UserMessage("u")]
    assert await cut(messages) == messages


@CUTTERS
async def test_nothing_at_all_stays_nothing(cut: Any) -> None:
    assert await cut([]) == []


@CUTTERS
async def test_system_messages_alone_stay(cut: Any) -> None:
    messages = [SystemMessage("s" * 5000)]
    assert await cut(messages) == messages


@CUTTERS
async def test_of_tool_messages_alone_the_newest_stays(cut: Any) -> None:
    messages = [result("a"), result("b"), result("c")]
    assert (await cut(messages))[-1] is messages[-1]


@CUTTERS
async def test_history_that_ends_in_open_calls_keeps_them(cut: Any) -> None:
    messages = [UserMessage("old"), AssistantMessage("so"), UserMessage("new"), call("a", "b"), result("a")]
    assert (await cut(messages))[-3:] == messages[-3:]


@CUTTERS
async def test_call_that_was_never_answered_goes_or_stays_as_a_whole(cut: Any) -> None:
    messages = [UserMessage("old"), call("a", "b"), result("a"), UserMessage("new")]
    sent = await cut(messages)
    asked = {one.id for message in sent for one in message.tool_calls}
    assert all(message.tool_call_id in asked for message in sent if message.role == "tool")
    assert sent[-1] is messages[-1]


@CUTTERS
async def test_result_without_a_call_is_a_message_by_itself(cut: Any) -> None:
    messages = [UserMessage("old"), result("nobody"), UserMessage("new")]
    assert (await cut(messages))[-1] is messages[-1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Summarization(100, keep_messages=0),
        lambda: Summarization(0),
        lambda: Summarization(-5),
        lambda: ContextWindow(max_messages=0),
        lambda: ContextWindow(max_chars=0),
        lambda: ResultEviction(MemoryBackend(), max_tokens=0),
        lambda: ResultEviction(MemoryBackend(), preview_chars=-1),
    ],
)
def test_limit_that_leaves_nothing_is_refused_with_what_is_allowed(make: Any) -> None:
    with pytest.raises(ValueError, match=r"must be (at least 1|0 or more)"):
        make()


async def test_limit_below_the_instructions_is_noted_and_the_run_goes_on() -> None:
    model = ScriptedModel(text("ok"))
    agent = Agent(model, instructions="rules " * 200, middleware=[Summarization(10), ContextWindow(max_chars=1)])
    result = await agent.run([UserMessage("old"), AssistantMessage("so"), UserMessage("new")])
    assert result.text == "ok"
    assert [message.role for message in model.requests[0].messages][-1] == "user"


# --- odd results ---


class Cyclic(dict[str, Any]):
    """A mapping that contains itself."""

    def __init__(self) -> None:
        super().__init__(pad="x" * 9000)
        self["me"] = self


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


ODD = {
    "bytes": b"\xff\xfe" * 9000,
    "NaN": [math.nan, math.inf] * 9000,
    "cycle": Cyclic(),
    "deep": None,
    "objects": {"x": "y" * 9000, "z": Unprintable()},
    "lone surrogates": "\ud800" * 9000,
    "keys that are no strings": {number: number for number in range(9000)},
}


def nested(depth: int) -> Any:
    data: Any = "x" * 9000
    for _ in range(depth):
        data = [data]
    return data


@pytest.mark.parametrize("kind", ODD)
async def test_odd_result_is_evicted_and_read_back(kind: str) -> None:
    data = ODD[kind] if kind != "deep" else nested(20_000)

    @tool
    async def odd() -> Any:
        """Give something odd."""
        return data

    backend = MemoryBackend()
    model = ScriptedModel(calls("odd"), text("done"))
    agent = Agent(model, tools=[odd, read_tool(backend)], middleware=[ResultEviction(backend)], post_model_hooks=())
    result = await agent.run("go")
    sent = model.requests[1].messages[-1].text
    assert (result.text, len(sent) < 9000, bool(sent)) == ("done", True, True)
    assert backend.files or len(sent) < 2000


def sizes_below(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.rglob("*.txt")]


async def test_result_of_50_mb_is_evicted_in_a_few_seconds(tmp_path: Path) -> None:
    huge = "x" * 50_000_000

    @tool
    async def fetch() -> str:
        """Give very much."""
        return huge

    backend = FileBackend(tmp_path)
    model = ScriptedModel(calls("fetch"), text("done"))
    agent = Agent(model, tools=[fetch], middleware=[ResultEviction(backend)], post_model_hooks=())
    started = time.monotonic()
    result = await agent.run("go")
    assert (result.text, len(model.requests[1].messages[-1].text) < 2000) == ("done", True)
    assert sizes_below(tmp_path) == [50_000_000]
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("kind", ["bytes", "NaN", "cycle", "objects"])
async def test_odd_result_is_cached_or_fetched_again_but_never_lost(kind: str) -> None:
    ran: list[int] = []

    @tool
    async def odd() -> Any:
        """Give something odd."""
        ran.append(1)
        return ODD[kind]

    model = ScriptedModel(calls("odd"), calls("odd"), text("done"))
    agent = Agent(model, tools=[odd], middleware=[ToolCache()], post_model_hooks=())
    await agent.run("go")
    first, second = [message.text for message in model.requests[2].messages if message.role == "tool"]
    assert (first == second, len(ran) in (1, 2)) == (True, True)


# --- backends ---


class Full:
    async def write(self, path: str, text: str, /) -> None:
        raise OSError(28, "No space left on device")


class Odd:
    """A backend that is not async."""

    def write(self, path: str, text: str, /) -> None:
        return None


@pytest.mark.parametrize("backend", [Full(), Odd()], ids=["full", "not async"])
async def test_result_that_cannot_be_written_stays_whole(backend: Any, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def fetch() -> str:
        """Give much."""
        return "x" * 9000

    model = ScriptedModel(calls("fetch"), text("done"))
    agent = Agent(model, tools=[fetch], middleware=[ResultEviction(backend)], post_model_hooks=())
    assert (await agent.run("go")).text == "done"
    assert model.requests[1].messages[-1].text == "x" * 9000
    assert "could not be written" in caplog.text


class Slow:
    async def write(self, path: str, text: str, /) -> None:
        await asyncio.sleep(0.3)


async def test_model_is_not_kept_waiting_by_a_slow_backend_of_a_summary() -> None:
    asked: list[float] = []

    def noting(request: ModelRequest) -> Any:
        asked.append(time.monotonic())
        return text("done")

    agent = Agent(ScriptedModel(noting), middleware=[Summarization(100, 1, backend=Slow(), summarize=short)])
    started = time.monotonic()
    await agent.run([UserMessage("old " * 200), AssistantMessage("so " * 200), UserMessage("new")])
    assert asked[0] - started < 0.25


# --- summarisers ---

TALK: list[Message] = [UserMessage("old " * 200), AssistantMessage("so " * 200), UserMessage("new")]


async def test_model_that_fails_to_summarise_leaves_the_history(caplog: pytest.LogCaptureFixture) -> None:
    def answers(request: ModelRequest) -> Any:
        if request.call_class == "summary":
            raise ContextTooLong("too long", provider="scripted", model="scripted")
        return text("done")

    model = ScriptedModel(answers, answers)
    agent = Agent(model, middleware=[Summarization(100, 1, summarize=by_model())])
    result = await agent.run(TALK)
    assert (result.text, list(model.requests[1].messages)) == ("done", TALK)
    assert "no summary was made" in caplog.text


async def test_model_that_summarises_for_ever_is_cut_by_the_limits_of_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel(hang(), text("done"))
    limits = Limits(model_timeout_s=0.05)
    agent = Agent(model, middleware=[Summarization(100, 1, summarize=by_model())], limits=limits)
    assert (await agent.run(TALK)).text == "done"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_limit_that_a_summary_reaches_ends_the_run_and_nothing_is_lost() -> None:
    model = ScriptedModel(text("a summary"), text("never"))
    agent = Agent(model, middleware=[Summarization(100, 1, summarize=by_model())], limits=Limits(max_model_calls=1))
    result = await agent.run(TALK)
    assert (result.finish_reason, list(result.messages[:3])) == ("limit", TALK)


async def test_summary_longer_than_what_it_covers_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(text("very " * 2000), text("done"))
    agent = Agent(model, middleware=[Summarization(100, 1, summarize=by_model())])
    assert (await agent.run(TALK)).text == "done"
    assert list(model.requests[1].messages) == TALK
    assert "no shorter" in caplog.text


@pytest.mark.parametrize("made", [b"bytes", 7, ["a list"], AssistantMessage("a message")], ids=repr)
async def test_summary_that_is_no_text_leaves_the_history(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(text("done"))
    agent = Agent(model, middleware=[Summarization(100, 1, summarize=lambda ctx, messages: made)])
    assert (await agent.run(TALK)).text == "done"
    assert list(model.requests[0].messages) == TALK
    assert f"summarize must return text, got {type(made).__name__}" in caplog.text


@pytest.mark.parametrize("reason", ["content_filter", "dead_air"])
async def test_summary_that_was_broken_off_leaves_the_history(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(text("I can't", finish_reason=reason), text("done"))
    agent = Agent(model, middleware=[Summarization(100, 1, summarize=by_model())])
    assert (await agent.run(TALK)).text == "done"
    assert list(model.requests[1].messages) == TALK
    assert reason in caplog.text


async def test_summary_that_ran_into_its_limit_is_used_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(text("They talked of", finish_reason="length"), text("done"))
    agent = Agent(model, middleware=[Summarization(100, 1, summarize=by_model(max_tokens=3))])
    await agent.run(TALK)
    assert model.requests[1].messages[0].text.endswith("They talked of")
    assert "max_tokens=3" in caplog.text


async def test_counter_of_fractions_serves_an_extract_too() -> None:
    model = ScriptedModel(text("done"))
    agent = Agent(model, middleware=[Summarization(12, 1, count_tokens=lambda said: len(said) / 4)])  # type: ignore[arg-type, return-value]  # as a user would write it
    await agent.run([UserMessage("o" * 200), AssistantMessage("s" * 200), UserMessage("n")])
    assert model.requests[0].messages[0].text.startswith("Summary so far:")
