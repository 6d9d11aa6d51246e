"""The testing kit: what it plays, what it refuses, and how it tells the time."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

import interpose.testing as kit
from interpose.capabilities import Capability
from interpose.context import ToolContext
from interpose.errors import BadRequest, ConfigurationError, ProviderDown, ScriptExhausted
from interpose.events import (
    CustomEvent,
    Event,
    ReasoningEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from interpose.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from interpose.middleware import HOOKS, Middleware
from interpose.models.base import Finish, MessageStart, Model, ReasoningDelta, TextDelta, ToolCallDelta, fold
from interpose.models.guard import check_real_calls
from interpose.request import ModelRequest, ModelResponse, Usage
from interpose.testing import FakeClock, ScriptedModel, assert_events_valid, make_request

REQUEST = make_request("hi")
NUMBER = Capability[int]("number")


async def play(model: ScriptedModel, request: ModelRequest = REQUEST) -> list[Any]:
    return [chunk async for chunk in model.stream(request)]


def test_public_names_are_sorted_and_there() -> None:
    assert kit.__all__ == sorted(kit.__all__)
    assert all(hasattr(kit, name) for name in kit.__all__)


# Turns.


async def test_text_is_one_piece_and_a_finish() -> None:
    usage = Usage(3, 1)
    assert await play(ScriptedModel(kit.text("hi", usage=usage))) == [TextDelta("hi"), Finish("stop", usage)]


async def test_empty_text_is_only_a_finish() -> None:
    assert await play(ScriptedModel("")) == [Finish()]


async def test_chunks_are_played_as_given_after_the_reasoning() -> None:
    turn = kit.text("hi", chunks=("h", "", "i"), reasoning="hm", finish_reason="length")
    expected = [ReasoningDelta("hm"), TextDelta("h"), TextDelta(""), TextDelta("i"), Finish("length")]
    assert await play(ScriptedModel(turn)) == expected


def test_chunks_that_do_not_join_to_the_text_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'hello'.*'help'"):
        kit.text("hello", chunks=("hel", "p"))


async def test_calls_come_whole_with_an_index_each() -> None:
    turn = kit.calls(("f", {"a": 1}), ToolCall("c7", "g", {}), "h", text="Let me look.")
    first, f, g, h, end = await play(ScriptedModel(turn))
    assert (first, end) == (TextDelta("Let me look."), Finish("tool_calls"))
    assert (f.index, f.name, f.args) == (0, "f", '{"a":1}')
    assert g == ToolCallDelta(1, "c7", "g", "{}")
    assert (h.index, h.name, h.args) == (2, "h", "{}")
    assert len({f.id, g.id, h.id}) == 3


@pytest.mark.parametrize("raw", ['{"a": tru', "", "null", "[1]", '{"a":  1}'])
async def test_arguments_given_as_text_are_played_as_they_are(raw: str) -> None:
    chunks = await play(ScriptedModel(kit.calls(("f", raw))))
    assert chunks[0].args == raw


def test_calls_of_another_shape_are_refused() -> None:
    with pytest.raises(TypeError, match="a call must be"):
        kit.calls(("f", {}, 3))


async def test_raw_chunks_get_no_finish() -> None:
    raw = (MessageStart("m1"), TextDelta("a"))
    assert await play(ScriptedModel(kit.chunks(*raw))) == list(raw)


async def test_fail_raises_that_very_error_after_its_text() -> None:
    error = ProviderDown("down")
    stream = ScriptedModel(kit.fail(error, after=("a", "b"))).stream(REQUEST)
    assert [await anext(stream), await anext(stream)] == [TextDelta("a"), TextDelta("b")]
    with pytest.raises(ProviderDown) as caught:
        await anext(stream)
    assert caught.value is error


async def test_hang_waits_until_cancelled_and_closes_its_stream() -> None:
    model = ScriptedModel(kit.hang(after="a"))
    task = asyncio.create_task(play(model))
    await asyncio.sleep(0)
    assert model.open_streams == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.open_streams == 0


async def test_a_turn_may_be_a_function_of_the_request() -> None:
    async def later(request: ModelRequest) -> str:
        return request.messages[-1].text.upper()

    model = ScriptedModel(lambda request: kit.text(f"{len(request.messages)}"), later)
    assert (await play(model))[0] == TextDelta("1")
    assert (await play(model))[0] == TextDelta("HI")


async def test_a_function_that_returns_no_turn_is_named() -> None:
    with pytest.raises(TypeError, match="must return a turn"):
        await play(ScriptedModel(lambda request: 3))  # type: ignore[arg-type,return-value]  # the mistake under test


def test_something_that_is_no_turn_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="a turn must be"):
        ScriptedModel(3)  # type: ignore[arg-type]  # the mistake under test


# The scripted model.


async def test_requests_are_kept_and_an_empty_script_says_so() -> None:
    model = ScriptedModel("one")
    await play(model)
    with pytest.raises(ScriptExhausted, match="called 2 times and has 1 turns"):
        await play(model)
    assert model.requests == [REQUEST, REQUEST]


async def test_assert_consumed_counts_what_is_left() -> None:
    model = ScriptedModel("one", "two")
    await play(model)
    with pytest.raises(AssertionError, match="1 of 2 turns"):
        model.assert_consumed()
    await play(model)
    model.assert_consumed()


async def test_concurrent_calls_take_turns_in_their_order() -> None:
    model = ScriptedModel("one", "two", "three")
    answers = await asyncio.gather(*[play(model) for _ in range(3)])
    assert [answer[0].text for answer in answers] == ["one", "two", "three"]


def test_it_has_no_generate_of_its_own() -> None:
    assert "generate" not in vars(ScriptedModel)
    assert ScriptedModel.generate is Model.generate


def test_native_structured_output_is_in_the_profile() -> None:
    profile = ScriptedModel(native_structured_output=True).profile
    assert profile is not None
    assert profile.supports_structured_output
    assert ScriptedModel().profile is None


async def test_leaving_a_stream_early_closes_it() -> None:
    model = ScriptedModel(kit.text("ab", chunks="ab"))
    stream = model.stream(REQUEST)
    await anext(stream)
    await stream.aclose()
    assert model.open_streams == 0


# What it refuses.

CALL = AssistantMessage(tool_calls=(ToolCall("c1", "f", {}),), id="a1")
ANSWER = ToolMessage("1", "c1", id="t1")
HALF = "\ud83d"


def both(*ids: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=tuple(ToolCall(id, "f", {}) for id in ids))


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        pytest.param((), "neither messages nor instructions", id="nothing at all"),
        pytest.param((CALL,), "'c1' of message 0 has no result", id="call without result"),
        pytest.param((CALL, UserMessage("so?"), ANSWER), "'c1' of message 0 has no result", id="result comes later"),
        pytest.param((both("c1", "c2"), ANSWER), "'c2' of message 0 has no result", id="one of two results"),
        pytest.param((ANSWER,), "no earlier message asks for", id="result without call"),
        pytest.param((ANSWER, CALL), "no earlier message asks for", id="result before call"),
        pytest.param((CALL, ANSWER, ANSWER), "second result", id="two results"),
        pytest.param((CALL, ANSWER, UserMessage("x"), ANSWER), "second result", id="second result later"),
        pytest.param((both("c1", "c1"), ANSWER), "an earlier call has too", id="one id twice in a message"),
        pytest.param((CALL, ANSWER, CALL, ANSWER), "an earlier call has too", id="one id twice in a thread"),
        pytest.param((both(""),), "without an id", id="call without id"),
    ],
)
async def test_a_history_that_providers_refuse_is_refused(messages: tuple[Message, ...], why: str) -> None:
    model = ScriptedModel("never")
    with pytest.raises(BadRequest, match=why):
        await play(model, ModelRequest(messages=messages))
    with pytest.raises(AssertionError):
        model.assert_consumed()


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param((SystemMessage("s"), UserMessage("u")), id="plain"),
        pytest.param((both("c2", "c1"), ANSWER, ToolMessage("2", "c2")), id="results in another order"),
        pytest.param((CALL, ANSWER, both("c2"), ToolMessage("2", "c2")), id="two rounds"),
        pytest.param((UserMessage("u", metadata={"note": HALF}),), id="metadata is not sent"),
    ],
)
async def test_a_legal_history_is_played(messages: tuple[Message, ...]) -> None:
    assert await play(ScriptedModel("ok"), ModelRequest(messages=messages))


async def test_instructions_alone_are_enough_and_are_checked() -> None:
    model = ScriptedModel("ok")
    assert await play(model, ModelRequest(instructions="Say hello."))
    with pytest.raises(BadRequest, match="the instructions"):
        await play(model, ModelRequest(instructions=HALF))


class OneTool:
    def __init__(self, name: str, description: str = "") -> None:
        self.name = name
        self.description = description

    def to_dict(self) -> dict[str, str]:
        return {"name": self.name, "description": self.description}


@pytest.mark.parametrize(
    ("tools", "choice", "why"),
    [
        pytest.param((), "required", "no tools are offered", id="forced without tools"),
        pytest.param((), "f", "no tools are offered", id="named without tools"),
        pytest.param((OneTool("g"),), "f", "not offered", id="named but not offered"),
        pytest.param((OneTool("f"), OneTool("f")), "auto", "twice under one name: 'f'", id="one name twice"),
        pytest.param((OneTool("f", HALF),), "auto", "the tool 'f'", id="surrogate in a tool"),
    ],
)
async def test_tools_that_providers_refuse_are_refused(tools: Any, choice: str, why: str) -> None:
    request = ModelRequest(instructions="x", tools=tools).replace()
    request = request.replace(settings=request.settings.replace(tool_choice=choice))
    with pytest.raises(BadRequest, match=why):
        await play(ScriptedModel("never"), request)


class CountedArguments(Mapping[str, Any]):
    """Arguments that count how often they are looked through."""

    def __init__(self) -> None:
        self.looked_at = 0

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        self.looked_at += 1
        return iter(())

    def __len__(self) -> int:
        return 0


async def test_a_known_beginning_is_not_looked_at_again() -> None:
    model = ScriptedModel("ok", "ok", "ok")
    args = CountedArguments()
    thread = (AssistantMessage(tool_calls=(ToolCall("c1", "f", args),)), ANSWER)
    await play(model, ModelRequest(messages=thread))
    once = args.looked_at
    await play(model, ModelRequest(messages=(*thread, UserMessage("more"))))
    assert args.looked_at == once
    await play(model, ModelRequest(messages=(UserMessage("first"), *thread)))
    assert args.looked_at == 2 * once > 0


async def test_interleaved_histories_are_checked_each_on_its_own() -> None:
    model = ScriptedModel(*["ok"] * 10)
    shared = UserMessage("hi")
    other = (both("c1"), ToolMessage("other", "c1"))
    for _ in range(2):
        await play(model, ModelRequest(messages=(shared,)))
        await play(model, ModelRequest(messages=(shared, CALL, ANSWER)))
        await play(model, ModelRequest(messages=(shared, *other)))
    with pytest.raises(BadRequest, match="an earlier call has too"):
        await play(model, ModelRequest(messages=(shared, *other, CALL, ANSWER)))


async def test_a_refused_ending_is_refused_again() -> None:
    model = ScriptedModel("ok", "ok")
    good = (UserMessage("hi"), CALL, ANSWER)
    await play(model, ModelRequest(messages=good))
    for _ in range(2):
        with pytest.raises(BadRequest, match="'c2' of message 3"):
            await play(model, ModelRequest(messages=(*good, both("c2"))))
    await play(model, ModelRequest(messages=(*good, both("c2"), ToolMessage("2", "c2"))))


# The clock.


async def test_the_clock_stands_still_until_it_is_advanced() -> None:
    clock = FakeClock()
    log: list[tuple[float, float]] = []

    async def waiter(seconds: float) -> None:
        await clock.sleep(seconds)
        log.append((seconds, clock.now()))

    tasks = [asyncio.create_task(waiter(seconds)) for seconds in (5, 2, 3)]
    await clock.advance(4)
    assert log == [(2, 2.0), (3, 3.0)]
    await clock.advance(1)
    assert log[-1] == (5, 5.0)
    assert clock.sleeps == [5, 2, 3]
    assert clock.monotonic() == 5.0
    await asyncio.gather(*tasks)


async def test_one_advance_serves_sleeps_that_follow_each_other() -> None:
    clock = FakeClock()

    async def two_naps() -> float:
        await clock.sleep(1)
        await clock.sleep(1)
        return clock.now()

    task = asyncio.create_task(two_naps())
    await clock.advance(10)
    assert await task == 2.0
    assert clock.now() == 10.0


async def test_a_timer_rings_in_time_order_unless_cancelled() -> None:
    clock = FakeClock()
    rung: list[str] = []
    clock.call_later(2, lambda: rung.append("two"))
    clock.call_later(1, lambda: rung.append("one"))
    clock.call_later(1.5, lambda: rung.append("never")).cancel()
    await clock.advance(1.9)
    assert rung == ["one"]
    await clock.advance(0.2)
    assert rung == ["one", "two"]


async def test_a_cancelled_sleep_leaves_nothing_due() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.advance(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await clock.advance(10)
    assert clock.now() == 11.0


async def test_an_auto_clock_advances_with_each_sleep() -> None:
    clock = FakeClock(auto=True)
    rung: list[float] = []
    clock.call_later(3, lambda: rung.append(clock.now()))
    await clock.sleep(2)
    assert (clock.now(), rung) == (2.0, [])
    await clock.sleep(4)
    assert (clock.now(), len(rung)) == (6.0, 1)


async def test_an_auto_clock_cancels_what_sleeps_past_its_timeout() -> None:
    clock = FakeClock(auto=True)
    task = asyncio.create_task(clock.sleep(10))
    clock.call_later(5, lambda: task.cancel() and None)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="forwards"):
        await FakeClock().advance(-1)


# The rest.


async def test_a_memory_backend_gives_back_what_was_written() -> None:
    backend = kit.MemoryBackend()
    await backend.write("a/b.txt", "text")
    assert await backend.read("a/b.txt") == "text"
    assert backend.files == {"a/b.txt": "text"}
    with pytest.raises(FileNotFoundError, match=r"'c'.*a/b\.txt"):
        await backend.read("c")


def test_make_request_takes_strings_dicts_and_messages() -> None:
    request = make_request("a", {"role": "assistant", "content": "b"}, SystemMessage("c"), number=2)
    assert [(m.role, m.text) for m in request.messages] == [("user", "a"), ("assistant", "b"), ("system", "c")]
    assert (request.number, request.model) == (2, "scripted")


def test_make_response_takes_a_text_or_calls() -> None:
    assert kit.make_response("hi").text == "hi"
    response = kit.make_response([("f", {"a": 1}), ToolCall("c1", "g", {})], usage=Usage(1, 2))
    assert [(call.name, call.args) for call in response.tool_calls] == [("f", {"a": 1}), ("g", {})]
    assert (response.finish_reason, response.usage) == ("tool_calls", Usage(1, 2))


def test_no_real_models_refuses_calls_only_inside() -> None:
    check_real_calls("openai", "gpt-5.5")
    with kit.no_real_models(), kit.no_real_models():
        pass
    with kit.no_real_models(), pytest.raises(ConfigurationError, match=r"openai:gpt-5\.5.*ScriptedModel"):
        check_real_calls("openai", "gpt-5.5")
    check_real_calls("openai", "gpt-5.5")


async def test_no_real_models_decorates_plain_and_async_functions() -> None:
    @kit.no_real_models()
    def plain() -> None:
        check_real_calls("p", "m")

    @kit.no_real_models()
    async def later() -> None:
        await asyncio.sleep(0)
        check_real_calls("p", "m")

    with pytest.raises(ConfigurationError):
        plain()
    with pytest.raises(ConfigurationError):
        await later()
    check_real_calls("p", "m")


# Hooks by hand.


def public_properties() -> list[str]:
    return [name for name in dir(ToolContext) if isinstance(getattr(ToolContext, name), property)]


@pytest.mark.parametrize("name", public_properties())
def test_a_context_by_hand_has_every_property(name: str) -> None:
    getattr(kit.make_context(), name)


def test_a_context_by_hand_says_what_it_was_told() -> None:
    call = ToolCall("c1", "f")
    ctx = kit.make_context(
        tool_call=call, step=3, phase="before_tools", messages="hi", accumulated_text="ab", streaming=True, context="me"
    )
    assert (ctx.step, ctx.phase, ctx.accumulated_text, ctx.streaming) == (3, "before_tools", "ab", True)
    assert (ctx.messages[0].text, ctx.context, ctx.tool_call) == ("hi", "me", call)
    assert ctx.idempotency_key == "thread:c1"


def test_an_unknown_field_of_a_context_is_refused() -> None:
    with pytest.raises(TypeError, match="stepp"):
        kit.make_context(stepp=3)


async def test_what_a_hook_does_can_be_read_off_its_context() -> None:
    ctx = kit.make_context()
    seen: list[str] = []

    @asynccontextmanager
    async def room() -> AsyncIterator[str]:
        yield "room"
        seen.append("left")

    async def later() -> None:
        seen.append("done")

    ctx.meta(a=1)
    await ctx.emit("n", 2)
    ctx.abort("enough")
    ctx.defer(later())
    assert await ctx.enter(room()) == "room"
    await ctx.sleep(5)
    await ctx.finish()
    assert (ctx.written, ctx.emitted, ctx.aborted) == ({"a": 1}, [("n", 2)], "enough")
    assert (seen, ctx.now()) == (["done", "left"], 5.0)


def test_private_and_shared_state_work_by_hand() -> None:
    ctx, one, other = kit.make_context(state={"k": 1}), Middleware[Any](), Middleware[Any]()
    ctx.private(one)["x"] = 1
    ctx.provide(NUMBER, 3)
    assert (ctx.private(one), ctx.private(other), ctx.state) == ({"x": 1}, {}, {"k": 1})
    assert ctx.get(NUMBER) == 3


async def test_a_context_generates_with_the_model_that_it_was_given() -> None:
    model = ScriptedModel("short", "shorter")
    ctx = kit.make_context(model=model)
    assert (await ctx.generate("long", instructions="Sum up.")).text == "short"
    assert (await ctx.generate(make_request("long"))).text == "shorter"
    assert (model.requests[0].instructions, model.requests[0].call_class) == ("Sum up.", "summary")
    with pytest.raises(ConfigurationError, match="make_context"):
        await kit.make_context().generate("long")


def test_a_trace_has_every_hook_of_its_own() -> None:
    assert set(HOOKS) <= set(vars(kit.Trace))


async def test_a_trace_writes_down_what_each_hook_is_about() -> None:
    trace, ctx, response = kit.Trace(), kit.make_context(), kit.make_response("r")

    async def model(request: ModelRequest) -> ModelResponse:
        return response

    assert trace.on_start(ctx) is None
    assert trace.before_model_call(ctx, REQUEST) is None
    assert await trace.wrap_model_call(ctx, REQUEST, model) is response  # type: ignore[arg-type, misc]  # no `again`
    assert trace.after_model_call(ctx, REQUEST, response) is None
    assert trace.entries == [
        ("on_start", None),
        ("before_model_call", REQUEST),
        ("wrap_model_call", REQUEST),
        ("after_model_call", response),
    ]
    assert trace.names() == ["on_start", "before_model_call", "wrap_model_call", "after_model_call"]


# Events.

START = RunStartedEvent(thread_id="t", run_id="r")
END = RunFinishedEvent(thread_id="t", run_id="r")
FAILED = RunErrorEvent(message="no")
TEXT = [
    TextMessageStartEvent(message_id="m", role="assistant"),
    TextMessageContentEvent(message_id="m", delta="hi"),
    TextMessageEndEvent(message_id="m"),
]
TOOL = [
    ToolCallStartEvent(tool_call_id="c", tool_call_name="f"),
    ToolCallArgsEvent(tool_call_id="c", delta="{}"),
    ToolCallEndEvent(tool_call_id="c"),
]
RESULT = ToolCallResultEvent(message_id="m2", tool_call_id="c", content="1")
STEP = StepStartedEvent(step_name="step-0")
STEP_OVER = StepFinishedEvent(step_name="step-0")
THINK = ReasoningStartEvent(message_id="r")
THOUGHT = ReasoningMessageStartEvent(message_id="r")


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([START, STEP, *TEXT, *TOOL, RESULT, STEP_OVER, END], id="a whole step"),
        pytest.param([START, FAILED], id="failed at once"),
        pytest.param([START, RESULT, END], id="result of a call of an earlier run"),
        pytest.param([START, TEXT[0], *TOOL, *TEXT[1:], END], id="call within a message"),
        pytest.param([START, CustomEvent(name="n", value=1), END], id="custom"),
    ],
)
def test_a_valid_order_passes(events: list[Event]) -> None:
    assert_events_valid(events)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        pytest.param([], "no events", id="nothing"),
        pytest.param([*TEXT, END], "event 0.*first event must be RUN_STARTED", id="no start"),
        pytest.param([START, START, END], "event 1.*started before", id="two starts"),
        pytest.param([START, *TEXT], "event 3.*last event must be", id="no end"),
        pytest.param([START, END, FAILED], "event 2.*nothing may follow", id="two ends"),
        pytest.param([START, END, STEP], "event 2.*nothing may follow", id="something after the end"),
        pytest.param([START, TEXT[1], END], "event 1.*no message 'm' is open", id="content before start"),
        pytest.param([START, *TEXT, TEXT[1], END], "event 4.*no message 'm' is open", id="content after end"),
        pytest.param([START, TEXT[2], END], "event 1.*no message 'm' is open", id="end before start"),
        pytest.param([START, TEXT[0], TEXT[0], END], "event 2.*open already", id="opened twice at once"),
        pytest.param([START, *TEXT, *TEXT, END], "event 4.*opened once", id="opened again"),
        pytest.param([START, TEXT[0], END], "event 2.*open: message 'm'", id="message open at finish"),
        pytest.param([START, TEXT[0], FAILED], "event 2.*open: message 'm'", id="message open at error"),
        pytest.param([START, STEP, END], "open: step 'step-0'", id="step open"),
        pytest.param([START, STEP_OVER, END], "no step 'step-0' is open", id="step not open"),
        pytest.param([START, TOOL[0], FAILED], "open: tool call 'c'", id="call open"),
        pytest.param([START, TOOL[1], END], "no tool call 'c' is open", id="arguments before start"),
        pytest.param([START, *TOOL[:2], RESULT, TOOL[2], END], "event 3.*END comes first", id="result before end"),
        pytest.param([START, *TOOL, RESULT, RESULT, END], "event 5.*a result already", id="two results"),
        pytest.param([START, RESULT, *TOOL, END], "event 2.*its result already", id="result before start"),
        pytest.param([START, THINK, FAILED], "open: reasoning 'r'", id="reasoning open"),
        pytest.param(
            [START, THINK, THOUGHT, ReasoningEndEvent(message_id="r"), END],
            "event 3.*still open",
            id="reasoning message outlives its span",
        ),
    ],
)
def test_a_broken_order_is_quoted_with_its_index(events: list[Event], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert_events_valid(events)


def test_text_of_leaves_superseded_messages_out() -> None:
    events = [
        START,
        *TEXT,
        CustomEvent(name="interpose.superseded", value={"messageId": "m"}),
        TextMessageStartEvent(message_id="m2", role="assistant"),
        TextMessageContentEvent(message_id="m2", delta="a"),
        TextMessageContentEvent(message_id="m2", delta="b"),
        TextMessageEndEvent(message_id="m2"),
        END,
    ]
    assert kit.text_of(events) == "ab"
    assert kit.event_types(events[:3]) == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]


class FailingRun:
    """What `collect` needs of a run."""

    def __init__(self, entered: bool) -> None:
        self.entered = entered
        self.log: list[str] = []

    async def __aenter__(self) -> "FailingRun":
        self.log.append("enter")
        self.entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.log.append("exit")
        raise ConfigurationError("on_finish failed too")

    async def __aiter__(self) -> AsyncIterator[Event]:
        yield START
        raise ProviderDown("down")


@pytest.mark.parametrize(("entered", "log"), [(False, ["enter", "exit"]), (True, [])], ids=["not entered", "entered"])
async def test_collect_gives_the_events_of_a_failing_run(entered: bool, log: list[str]) -> None:
    run = FailingRun(entered)
    assert await kit.collect(run) == [START]  # type: ignore[arg-type]  # all that it needs
    assert run.log == log


async def test_a_scripted_answer_folds_to_its_response() -> None:
    model = ScriptedModel(kit.text("hello", chunks=("hel", "lo"), reasoning="hm", usage=Usage(1, 2)))
    response = await fold(model.stream(REQUEST), REQUEST)
    assert (response.text, response.message.reasoning, response.usage) == ("hello", "hm", Usage(1, 2))
