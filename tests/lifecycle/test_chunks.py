"""Every event on its way to the reader, and what the run remembers of it."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, deltas, hello, play, two_steps

from interpose import (
    DROP,
    Agent,
    AssistantMessage,
    Finish,
    HookError,
    Middleware,
    ProviderDown,
    ReasoningDelta,
    RunAborted,
    TextDelta,
    ToolCallDelta,
    ToolContext,
    after_model_call,
    on_chunk,
)
from interpose.testing import calls, chunks, collect, event_types, fail, hang, text, text_of


def on_text(change: Any) -> Middleware:
    """Return a middleware that gives `change(delta, event)` for each piece of text."""
    return on_chunk(lambda ctx, event: change(event.delta, event) if event.type == "TEXT_MESSAGE_CONTENT" else None)


def append(mark: str) -> Middleware:
    return on_text(lambda delta, event: event.replace(delta=delta + mark))


def split() -> Middleware:
    return on_text(lambda delta, event: [event.replace(delta=letter) for letter in delta])


@pytest.mark.parametrize("make", [lambda **o: agent(hello(), **o), two_steps], ids=["text", "two steps"])
async def test_the_hook_sees_what_the_reader_sees(make: Any) -> None:
    played = await both(lambda log: make(middleware=[on_chunk(lambda ctx, event: log.append(event.type))]))
    assert played.log == played.types


async def test_a_replaced_piece_is_what_reader_result_and_history_have() -> None:
    played = await both(lambda log: two_steps(middleware=[on_text(lambda delta, event: event.replace(delta="***"))]))
    assert text_of(played.events) == played.result.text == played.result.messages[-1].text == "***"


async def test_the_model_reads_next_what_the_reader_saw() -> None:
    turn = calls(("add", {"a": 1, "b": 2}), text="secret")
    hide = on_text(lambda delta, event: event.replace(delta="***"))
    played = await both(lambda log: agent(turn, text("x"), tools=[add], middleware=[hide]))
    assert played.requests[1].messages[1].text == "***"


async def test_a_dropped_piece_is_gone_for_good() -> None:
    drop = on_text(lambda delta, event: DROP if delta == "Hello" else None)
    played = await both(lambda log: agent(text(chunks=("Hello", "World")), middleware=[drop]))
    assert text_of(played.events) == played.result.text == "World"


async def test_an_empty_list_drops() -> None:
    drop = on_text(lambda delta, event: [] if delta == "Hello" else None)
    played = await both(lambda log: agent(text(chunks=("Hello", "World")), middleware=[drop]))
    assert text_of(played.events) == played.result.text == "World"


async def test_one_piece_can_become_two() -> None:
    played = await both(lambda log: agent(text("AB"), middleware=[split()]))
    assert deltas(played.events) == ["A", "B"]
    assert played.result.text == "AB"


async def test_hooks_see_what_the_one_before_left() -> None:
    upper = on_text(lambda delta, event: event.replace(delta=delta.upper()))
    played = await both(lambda log: agent("hello", middleware=[upper, append("!")]))
    assert played.result.text == "HELLO!"


async def test_each_of_several_goes_through_what_follows() -> None:
    played = await both(lambda log: agent("AB", middleware=[split(), append("!")]))
    assert deltas(played.events) == ["A!", "B!"]


async def test_what_is_dropped_later_hooks_do_not_see() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(
            text(chunks=("a", "b")),
            middleware=[
                on_text(lambda delta, event: DROP if delta == "a" else None),
                on_text(lambda delta, event: log.append(delta)),
            ],
        )

    assert (await both(make)).log == ["b"]


async def test_slow_hooks_keep_the_order_and_are_never_entered_twice() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def slow(ctx: Any, event: Any) -> None:
            log.append("in")
            await asyncio.sleep(0.005)
            log.append("out")

        return agent(text(chunks=("A", "B", "C")), middleware=[on_chunk(slow)])

    played = await both(make)
    assert deltas(played.events) == ["A", "B", "C"]
    assert played.log == ["in", "out"] * (len(played.log) // 2)


async def test_a_hook_is_not_entered_twice_by_parallel_tools_either() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def shout(ctx: ToolContext[Any], n: int) -> None:
            """Shout."""
            ctx.emit("shout", n)
            await asyncio.sleep(0)
            await ctx.emit("shout", n)

        async def slow(ctx: Any, event: Any) -> None:
            if event.type == "CUSTOM":
                log.append("in")
                await asyncio.sleep(0.002)
                log.append("out")

        turn = calls(*[("shout", {"n": n}) for n in range(3)])
        return agent(turn, "x", tools=[shout], middleware=[on_chunk(slow)])

    assert (await both(make)).log == ["in", "out"] * 6


async def test_a_model_that_says_nothing_makes_an_empty_answer() -> None:
    played = await both(lambda log: agent(text()))
    assert played.result.text == ""
    assert "TEXT_MESSAGE_START" not in played.types


async def test_a_step_with_a_call_is_told_in_order_and_once() -> None:
    played = await both(lambda log: two_steps())
    for kind in ("RUN_STARTED", "RUN_FINISHED", "TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"):
        assert played.types.count(kind) == 1
    order = [played.types.index(f"TOOL_CALL_{kind}") for kind in ("START", "ARGS", "END", "RESULT")]
    assert order == sorted(order)


async def test_a_provider_that_fails_in_mid_text_closes_the_message() -> None:
    played = await both(lambda log: agent(fail(ProviderDown("gone"), after=["Hel", "lo"])))
    assert isinstance(played.error, ProviderDown)
    assert played.types[-4:] == ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    assert "Hello" in played.partial.text


async def test_an_abort_in_mid_text_closes_the_message_with_its_code() -> None:
    def stop(ctx: Any, event: Any) -> None:
        if event.type == "TEXT_MESSAGE_CONTENT":
            asyncio.get_running_loop().call_soon(ctx.abort, "enough")

    played = await both(lambda log: agent(hang(after=["Hel"]), middleware=[on_chunk(stop)]))
    assert isinstance(played.error, RunAborted)
    assert played.types[-3:] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    assert played.events[-1].code == "aborted"


async def test_the_iterator_raises_after_the_last_event_of_a_failed_run() -> None:
    one = agent(fail(ValueError("no")))
    async with one.stream("Go") as run:
        seen = [(await anext(run)).type for _ in range(4)]
        with pytest.raises(ValueError, match="no"):
            await anext(run)
    assert seen[-1] == "RUN_ERROR"


async def test_hiding_the_events_of_a_call_does_not_undo_it() -> None:
    hide = on_chunk(lambda ctx, event: DROP if event.type.startswith("TOOL_CALL") else None)
    played = await both(lambda log: two_steps(middleware=[hide]))
    assert not [kind for kind in played.types if kind.startswith("TOOL_CALL")]
    assert played.requests[1].messages[2].text == "3"


async def test_hiding_the_start_of_a_call_hides_its_arguments_and_end() -> None:
    hide = on_chunk(lambda ctx, event: DROP if event.type == "TOOL_CALL_START" else None)
    played = await both(lambda log: two_steps(middleware=[hide]))
    assert not {"TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"} & set(played.types)


async def test_reasoning_is_closed_before_the_text_begins() -> None:
    played = await both(lambda log: agent(text("Hello", reasoning="well")))
    kinds = [kind for kind in played.types if kind.startswith(("REASONING", "TEXT"))]
    assert kinds == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]
    assert played.result.steps[0].response.message.reasoning == "well"


async def test_reasoning_is_remembered_as_it_leaves_the_hook() -> None:
    def edit(ctx: Any, event: Any) -> Any:
        return event.replace(delta="hm") if event.type == "REASONING_MESSAGE_CONTENT" else None

    played = await both(lambda log: agent(text("Hello", reasoning="well"), middleware=[on_chunk(edit)]))
    assert played.result.steps[0].response.message.reasoning == "hm"


async def test_text_between_calls_keeps_its_place() -> None:
    turn = chunks(
        TextDelta("first "),
        ToolCallDelta(0, "c1", "add", '{"a":1,"b":2}'),
        TextDelta("then "),
        ToolCallDelta(1, "c2", "add", '{"a":3,"b":4}'),
        Finish("tool_calls"),
    )
    played = await both(lambda log: agent(turn, "x", tools=[add]))
    answer = played.result.messages[1]
    assert isinstance(answer, AssistantMessage)
    kinds = [part.to_dict()["type"] for part in answer.content()]
    assert kinds == ["text", "tool_call", "text", "tool_call"]
    assert answer.text == "first then "


async def test_a_hook_that_edits_by_step_leaves_in_each_what_was_shown_in_it() -> None:
    def edit(ctx: Any, event: Any) -> Any:
        return event.replace(delta=f"{event.delta}{ctx.step}") if event.type == "TEXT_MESSAGE_CONTENT" else None

    turns = calls(("add", {"a": 1, "b": 2}), text="look"), text("done")
    played = await both(lambda log: agent(*turns, tools=[add], middleware=[on_chunk(edit)]))
    assert [m.text for m in played.result.messages if m.role == "assistant"] == ["look0", "done1"]
    assert deltas(played.events) == ["look0", "done1"]


async def test_no_more_than_the_buffer_is_produced_ahead_of_a_reader() -> None:
    made: list[str] = []

    async def many(request: Any) -> Any:
        return text(chunks=["x"] * 500)

    one = agent(many, middleware=[on_text(lambda delta, event: made.append(delta))])
    async with one.stream("Go") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                await asyncio.sleep(0.02)
                break
        assert 1 < len(made) <= 70


async def test_changing_the_id_of_a_message_is_refused() -> None:
    class Renames(Middleware):
        def on_chunk(self, ctx: Any, event: Any) -> Any:
            return event.replace(message_id="mine") if event.type == "TEXT_MESSAGE_CONTENT" else None

    played = await both(lambda log: agent(hello(), middleware=[Renames()]))
    assert isinstance(played.error, HookError)
    assert "Renames" in str(played.error)


async def test_something_that_is_no_event_is_refused() -> None:
    played = await both(lambda log: agent(hello(), middleware=[on_text(lambda delta, event: delta)]))
    assert isinstance(played.error, HookError)
    assert "on_chunk" in str(played.error)


@pytest.mark.parametrize("kind", ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"])
async def test_the_frame_of_the_run_can_only_be_watched(kind: str) -> None:
    drop = on_chunk(lambda ctx, event: DROP if event.type == kind else None)
    played = await both(lambda log: agent(hello(), middleware=[drop]))
    assert kind in played.types


async def test_where_all_contents_are_dropped_no_message_is_sent() -> None:
    played = await both(lambda log: agent(hello(), middleware=[on_text(lambda delta, event: DROP)]))
    assert not [kind for kind in played.types if kind.startswith("TEXT")]
    assert played.result.text == ""


async def test_a_hook_can_flush_at_the_end_of_a_message_also_after_a_failure() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Keeps(Middleware):
            def on_chunk(self, ctx: Any, event: Any) -> Any:
                mine = ctx.private(self)
                if event.type == "TEXT_MESSAGE_CONTENT":
                    mine["held"] = (mine.get("held") or event).replace(
                        delta=(mine["held"].delta if mine.get("held") else "") + event.delta
                    )
                    return DROP
                if event.type == "TEXT_MESSAGE_END" and mine.get("held"):
                    return [mine.pop("held"), event]
                return None

        return agent(fail(ProviderDown("gone"), after=["Hel", "lo"]), middleware=[Keeps()])

    played = await both(make)
    assert isinstance(played.error, ProviderDown)
    assert deltas(played.events) == ["Hello"]


async def test_a_stream_that_is_cut_off_without_its_end_has_failed() -> None:
    played = await both(lambda log: agent(chunks(TextDelta("half"))))
    assert played.error is not None
    assert played.endings == ["on_error"]


async def test_pieces_of_reasoning_may_come_without_text() -> None:
    played = await both(lambda log: agent(chunks(ReasoningDelta("hm"), Finish("stop"))))
    assert played.result.text == ""
    assert played.types.count("REASONING_END") == 1


async def test_custom_events_of_a_hook_reach_the_reader() -> None:
    def tell(ctx: Any, request: Any, response: Any) -> None:
        ctx.emit("judged", {"ok": True})

    played = await both(lambda log: agent(hello(), middleware=[after_model_call(tell)]))
    assert [(e.name, e.value) for e in played.events if e.type == "CUSTOM"] == [("judged", {"ok": True})]


async def test_events_are_numbered_from_zero() -> None:
    events = await collect(two_steps().stream("Go"))
    assert [event.seq for event in events] == list(range(len(events)))
    assert event_types(events)[-1] == "RUN_FINISHED"


async def test_a_failing_run_can_be_collected() -> None:
    played = await play("stream", agent(fail(ValueError("no"))))
    assert played.types == ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_ERROR"]
