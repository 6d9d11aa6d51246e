"""`Summarization`: when older messages become a summary, what stays, and what happens when it fails."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from interpose import (
    Agent,
    AssistantMessage,
    ImagePart,
    Message,
    Middleware,
    ModelRequest,
    RunContext,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from interpose.brevity import first_sentence
from interpose.builtin import ResultEviction, Summarization, by_model, extractive
from interpose.testing import MemoryBackend, ScriptedModel, calls, make_context, make_request, text


@tool
async def echo(x: str) -> str:
    return x


def talk(count: int, length: int = 400) -> list[Message]:
    return [
        UserMessage(f"q{n}. " + "u" * length) if n % 2 == 0 else AssistantMessage(f"a{n}. " + "a" * length)
        for n in range(count)
    ]


class Told:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *what: int) -> None:
        self.count += 1


def short(ctx: RunContext, messages: Sequence[Message]) -> str:
    return "|".join([message.text[:3].strip(". ") for message in messages])


async def sent(mine: Summarization, messages: Sequence[Message], ctx: Any = None, **fields: Any) -> ModelRequest:
    request = make_request(*messages, **fields)
    return await mine.before_model_call(ctx or make_context(), request) or request


# --- when ---


@pytest.mark.parametrize(("chars", "roles"), [(40, ["user", "assistant", "user"]), (41, ["system", "user"])])
async def test_summary_is_made_above_the_trigger_and_not_at_it(chars: int, roles: list[str]) -> None:
    mine = Summarization(100, keep_messages=1, trigger_ratio=1, count_tokens=len)
    messages: list[Message] = [UserMessage("u" * 29), AssistantMessage("a" * 30), UserMessage("n")]
    assert [m.role for m in (await sent(mine, messages, instructions="i" * chars)).messages] == roles


async def test_instructions_and_tools_count_too() -> None:
    mine = Summarization(1000, keep_messages=2, trigger_ratio=1, summarize=short)
    assert len((await sent(mine, talk(8, 100), instructions="i" * 4000)).messages) == 3


async def test_trigger_is_a_share_of_the_limit() -> None:
    mine = Summarization(100, keep_messages=1, trigger_ratio=0.29, count_tokens=len)
    messages: list[Message] = [UserMessage("u" * 10), AssistantMessage("a" * 10), UserMessage("n" * 9)]
    assert len((await sent(mine, messages)).messages) == 3


# --- what stays ---


async def test_of_twenty_long_messages_the_last_six_and_a_summary_are_sent() -> None:
    told: list[tuple[int, int, int]] = []
    mine = Summarization(2000, on_summarized=lambda *what: told.append(what))
    messages = talk(20)
    request = await sent(mine, messages)
    assert request.messages[0].role == "system"
    assert list(request.messages[1:]) == messages[14:]
    ((original, summarized, removed),) = told
    assert (removed, summarized < original) == (14, True)


async def test_leading_system_message_stays_first() -> None:
    request = await sent(Summarization(1000, summarize=short), [SystemMessage("rules"), *talk(20)])
    assert [message.role for message in request.messages[:3]] == ["system", "system", "user"]
    assert request.messages[0].text == "rules"


async def test_kept_messages_reach_back_to_the_start_of_their_group() -> None:
    asked = tuple([ToolCall(f"c{n}", "echo", {"x": "1"}) for n in range(3)])
    group: list[Message] = [AssistantMessage(tool_calls=asked), *[ToolMessage("r", call.id) for call in asked]]
    request = await sent(Summarization(1000, keep_messages=2, summarize=short), [*talk(9), *group])
    assert list(request.messages[-4:]) == group


async def test_newest_user_message_stays_in_its_place_though_older() -> None:
    exchanges: list[Message] = []
    for n in range(6):
        call = ToolCall(f"c{n}", "echo", {"x": "y" * 400})
        exchanges += [AssistantMessage(tool_calls=(call,)), ToolMessage("r" * 400, call.id)]
    newest = UserMessage("newest")
    request = await sent(Summarization(1000, keep_messages=2, summarize=short), [*talk(4), newest, *exchanges])
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert request.messages[1] is newest


async def test_nothing_to_remove_changes_nothing_and_the_record_says_so() -> None:
    ctx, told = make_context(), Told()
    messages = [UserMessage("u" * 200_000)]
    assert list((await sent(Summarization(100, on_summarized=told), messages, ctx)).messages) == messages
    assert (told.count, ctx.written) == (0, {"summary_over_limit": True})


async def test_picture_is_not_counted_by_its_bytes() -> None:
    picture = ImagePart(data="A" * 250_000, media_type="image/png")
    messages = [*talk(8, 40), UserMessage(parts=(TextPart("t" * 40), picture))]
    assert len((await sent(Summarization(20_000, summarize=short), messages)).messages) == 9


# --- again ---


async def test_second_summary_takes_up_the_first() -> None:
    ctx, messages = make_context(), talk(20)
    mine = Summarization(2000, summarize=short)
    await sent(mine, messages, ctx)
    request = await sent(mine, [*messages, *talk(20)], ctx)
    systems = [message.text for message in request.messages if message.role == "system"]
    assert len(systems) == 1
    assert systems[0].split("\n")[1].startswith("q0||q14|a15")


async def test_summary_stands_in_without_being_made_again() -> None:
    made: list[int] = []

    def counting(ctx: RunContext, messages: Sequence[Message]) -> str:
        made.append(len(messages))
        return "S"

    ctx, messages = make_context(), talk(20)
    mine = Summarization(2000, summarize=counting)
    first = await sent(mine, messages, ctx)
    second = await sent(mine, [*messages, AssistantMessage("more")], ctx)
    assert made == [14]
    assert second.messages == (*first.messages, second.messages[-1])


async def test_message_that_stayed_as_the_newest_is_summarised_once_it_is_not() -> None:
    seen: list[list[str]] = []

    def noting(ctx: RunContext, messages: Sequence[Message]) -> str:
        seen.append([message.text[:2] for message in messages])
        return "S"

    ctx = make_context()
    mine = Summarization(500, keep_messages=2, summarize=noting)
    messages: list[Message] = [
        UserMessage("q0" + "u" * 400),
        *[AssistantMessage(f"a{n}" + "a" * 600) for n in range(4)],
    ]
    await sent(mine, messages, ctx)
    await sent(mine, [*messages, UserMessage("q1" + "u" * 900), AssistantMessage("b0"), AssistantMessage("b1")], ctx)
    assert seen == [["a0", "a1"], ["S", "q0", "a2", "a3"]]


async def test_summary_of_a_message_that_is_gone_is_not_used() -> None:
    ctx = make_context()
    mine = Summarization(2000, summarize=short)
    await sent(mine, talk(20), ctx)
    fresh = talk(4, 10)
    assert list((await sent(mine, fresh, ctx)).messages) == fresh


# --- in a run ---


def long_run(model: ScriptedModel, *middleware: Any) -> Agent:
    return Agent(model, tools=[echo], middleware=middleware, post_model_hooks=())


def looping(steps: int) -> list[Any]:
    return [*[calls(("echo", {"x": f"{n}" * 400})) for n in range(steps)], text("done")]


async def test_result_has_every_message_and_no_summary() -> None:
    model = ScriptedModel(*looping(8))
    result = await long_run(model, Summarization(1000, keep_messages=2, summarize=short)).run("go")
    assert len(result.messages) == 18
    assert not [message for message in result.messages if message.role == "system"]
    assert [message.role for message in model.requests[-1].messages[:3]] == ["system", "user", "assistant"]


async def test_summary_by_model_is_counted_recorded_and_unseen() -> None:
    class Watch(Middleware):
        def __init__(self) -> None:
            self.classes: list[str] = []
            self.nodes: list[Any] = []

        def before_model_call(self, ctx: RunContext, request: ModelRequest) -> None:
            self.classes.append(request.call_class)

        def on_node(self, ctx: RunContext, node: Any) -> None:
            if node.kind == "model" and node.phase == "end":
                self.nodes.append(node.name)

    watch = Watch()
    model = ScriptedModel(
        calls(("echo", {"x": "1" * 6000})), calls(("echo", {"x": "2"})), text("SUMMARY"), text("done")
    )
    agent = long_run(model, watch, Summarization(1000, keep_messages=2, summarize=by_model()))
    async with agent.stream("go") as run:
        shown = [event.to_json() async for event in run]
        result = await run.result()
    summary = model.requests[2]
    assert (summary.call_class, summary.tools, summary.output_schema) == ("summary", (), None)
    assert summary.settings.tool_choice is None
    assert not [line for line in shown if "SUMMARY" in line]
    assert (result.text, set(watch.classes), len(watch.nodes)) == ("done", {"agent"}, 4)
    assert "SUMMARY" in model.requests[3].messages[0].text


async def test_summary_by_model_that_answers_with_a_call_is_none() -> None:
    turns = [calls(("echo", {"x": "1" * 6000})), calls(("echo", {"x": "2"})), calls(("echo", {})), text("done")]
    model = ScriptedModel(*turns)
    result = await long_run(model, Summarization(1000, keep_messages=2, summarize=by_model())).run("go")
    assert (result.text, len(model.requests[3].messages)) == ("done", 5)


# --- failures ---


def failing(ctx: RunContext, messages: Sequence[Message]) -> str:
    raise RuntimeError("no summary today")


def nothing(ctx: RunContext, messages: Sequence[Message]) -> Any:
    return None


def blank(ctx: RunContext, messages: Sequence[Message]) -> str:
    return " \n"


def longer(ctx: RunContext, messages: Sequence[Message]) -> str:
    return "long " * 10_000


@pytest.mark.parametrize("summarize", [failing, nothing, blank, longer])
async def test_bad_summary_leaves_the_request_as_it_was(summarize: Any, caplog: pytest.LogCaptureFixture) -> None:
    told, backend, messages = Told(), MemoryBackend(), talk(20)
    mine = Summarization(2000, summarize=summarize, on_summarized=told, backend=backend)
    assert list((await sent(mine, messages)).messages) == messages
    assert (told.count, backend.files, bool(caplog.text)) == (0, {}, True)


async def test_failing_counter_fails_the_run_with_its_own_error() -> None:
    error = TypeError("bad schema")

    def broken(said: str) -> int:
        raise error

    with pytest.raises(TypeError) as caught:
        await long_run(ScriptedModel(text("x")), Summarization(100, count_tokens=broken)).run("go")
    assert caught.value is error


async def test_failing_on_summarized_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(*what: int) -> None:
        raise RuntimeError("no log today")

    request = await sent(Summarization(2000, on_summarized=broken, summarize=short), talk(20))
    assert (len(request.messages), "on_summarized failed" in caplog.text) == (7, True)


# --- offloading ---


async def test_full_history_is_offloaded() -> None:
    backend, messages, ctx = MemoryBackend(), talk(20), make_context(thread_id="t/1", run_id="r", step=3)
    await sent(Summarization(2000, backend=backend, summarize=short), messages, ctx)
    await ctx.finish()
    ((path, written),) = backend.files.items()
    assert path == "history/t_1/r-3.json"
    assert [message["text"] for message in json.loads(written)] == [message.text for message in messages]


class Failing:
    async def write(self, path: str, text: str, /) -> None:
        raise OSError("disk full")


class Silent:
    async def write(self, path: str, text: str, /) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("backend", [Failing(), Silent()], ids=["failing", "silent"])
async def test_bad_backend_is_logged_and_the_summary_stands(
    backend: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interpose.builtin.summarization.OFFLOAD_TIMEOUT_S", 0.01)
    model = ScriptedModel(*looping(4))
    mine = Summarization(500, keep_messages=2, backend=backend, summarize=short)
    result = await long_run(model, mine).run("go")
    assert (result.text, model.requests[-1].messages[0].role) == ("done", "system")
    assert "could not be written" in caplog.text


# --- extractive ---


def test_extract_has_a_line_a_message_in_the_old_order() -> None:
    messages: list[Message] = [
        UserMessage("Find Lyon. Then Nice."),
        AssistantMessage("Looking", tool_calls=(ToolCall("c1", "search", {"q": "Lyon", "n": 1}),)),
        ToolMessage("522 250 people\nin 2020", "c1"),
    ]
    assert extractive(None, messages).splitlines() == [
        "user: Find Lyon.",
        "assistant: Looking search(q, n)",
        "tool: 522 250 people",
    ]


async def test_extract_says_where_an_evicted_result_is() -> None:
    call, mine = ToolCall("c1", "fetch"), ResultEviction(MemoryBackend(), max_tokens=10)
    changed = await mine.after_tool_call(make_context(run_id="r1"), call, call.answer("First line.\n" + "x" * 500))
    assert extractive(None, [changed.message()]) == "tool: evicted/r1/fetch/c1.txt holds: First line."


@pytest.mark.parametrize(
    "odd", ['{"_evicted":true', '{"_evicted":true,"preview":5}', '{"_evicted":true,"preview":"x"}']
)
def test_extract_takes_what_only_looks_evicted_as_it_is(odd: str) -> None:
    assert extractive(None, [ToolMessage(odd, "c1")]) == f"tool: {odd}"


def test_extract_takes_the_newest_until_the_tokens_are_used_up() -> None:
    messages = [UserMessage(f"{n:04d}") for n in range(100)]
    lines = extractive(None, messages, max_tokens=12).splitlines()
    assert lines == ["user: 0096", "user: 0097", "user: 0098", "user: 0099"]


def test_extract_keeps_the_lines_of_a_former_summary() -> None:
    former = SystemMessage("user: one\nuser: two", metadata={"summary": True})
    assert extractive(None, [former, UserMessage("three")]) == "user: one\nuser: two\nuser: three"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("One. Two.", "One."),
        ("3.14 is pi! Yes", "3.14 is pi!"),
        ("no end", "no end"),
        ("line\nnext", "line"),
        ("x" * 200, "x" * 159 + "…"),
        ("一。二。", "一。"),
        ("", ""),
    ],
)
def test_first_sentence_is_at_most_160_characters(said: str, expected: str) -> None:
    assert first_sentence(said, 160) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"max_input_tokens": 0},
        {"keep_messages": 0},
        {"trigger_ratio": 0},
        {"trigger_ratio": 1.1},
        {"backend": object()},
        {"count_tokens": 4},
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Summarization(**{"max_input_tokens": 100, **options})
