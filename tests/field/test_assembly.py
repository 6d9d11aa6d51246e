"""How streamed pieces become tool calls: providers' indexes, ids and finish words are hints, not truths."""

import time
from typing import Any

import pytest
from tests.layers.play import agent_of, both, errors_of, results_of, run_once, stream_once

from interpose import Finish, MessageStart, Middleware, ProviderError, TextDelta, ToolCall, ToolCallDelta
from interpose.testing import calls, chunks, text, text_of

Delta = ToolCallDelta


async def f(x: int = 0) -> int:
    """F."""
    return x


async def g(x: int = 0) -> int:
    """G."""
    return x


async def find(q: str) -> str:
    """Find."""
    return q


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def asked(played: Any) -> list[Any]:
    return [(call.name, dict(call.args)) for call in played.result.messages[1].tool_calls]


async def test_odd_indexes_give_the_calls_that_were_meant() -> None:
    turn = chunks(
        Delta(3, "a", "f", '{"x":'), Delta(3, None, None, "1}"), Delta(None, "b", "g", "{}"),
        Delta(0, "c", "f", ""), Delta(0, None, None, '{"x":2}'), Finish("tool_calls"),
    )  # fmt: skip
    played = await both(lambda log: agent_of(turn, text("x"), tools=[f, g]))
    assert asked(played) == [("f", {"x": 1}), ("g", {}), ("f", {"x": 2})]
    assert [call.id for call in played.result.messages[1].tool_calls] == ["a", "b", "c"]
    assert results_of(played.result) == ["1", "0", "2"]


async def test_interleaved_calls_are_told_apart_by_index_alone() -> None:
    turn = chunks(
        Delta(0, "a", "f", '{"x"'), Delta(1, "b", "g", '{"x"'), Delta(0, None, None, ":1}"),
        Delta(1, None, None, ":2}"), Finish("tool_calls"),
    )  # fmt: skip
    played = await both(lambda log: agent_of(turn, text("x"), tools=[f, g]))
    assert asked(played) == [("f", {"x": 1}), ("g", {"x": 2})]


async def test_one_index_for_two_calls_is_told_apart_by_their_ids() -> None:
    turn = chunks(Delta(0, "a", "f", '{"x":1}'), Delta(0, "b", "f", '{"x":2}'), Finish("tool_calls"))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[f]))
    assert asked(played) == [("f", {"x": 1}), ("f", {"x": 2})]


async def test_nothing_runs_before_the_end_of_the_answer() -> None:
    def make(log: list[Any]) -> Any:
        async def note() -> str:
            """Note."""
            log.append("ran")
            return "x"

        class Watches(Middleware):
            def on_chunk(self, ctx: Any, event: Any) -> None:
                if event.type == "TOOL_CALL_ARGS":
                    assert log == []

        turn = chunks(Delta(0, "a", "note", "{}"), Delta(0, None, None, " "), Finish("tool_calls"))
        return agent_of(turn, text("x"), tools=[note], middleware=[Watches()])

    assert (await both(make)).log == ["ran"]


async def test_a_name_that_comes_late_is_in_the_start_before_all_arguments() -> None:
    turn = chunks(Delta(None, "a", None, '{"q"'), Delta(None, "a", "find", ':"x"}'), Finish("tool_calls"))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[find]))
    events = [event for event in played.events if event.type.startswith("TOOL_CALL_")]
    assert asked(played) == [("find", {"q": "x"})]
    assert next(event.type for event in events) == "TOOL_CALL_START"
    assert events[0].tool_call_name == "find"
    assert "".join(event.delta for event in events if event.type == "TOOL_CALL_ARGS") == '{"q":"x"}'


async def test_a_provider_without_ids_still_gets_each_result_to_its_call() -> None:
    turn = chunks(Delta(0, None, "add", '{"a":1,"b":2}'), Delta(1, None, "add", '{"a":3,"b":4}'), Finish("tool_calls"))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[add]))
    assert results_of(played.result) == ["3", "7"]
    assert asked(played)[0][0] == "add"


async def test_two_whole_calls_without_index_and_id_are_two_calls() -> None:
    turn = chunks(
        Delta(None, None, "add", '{"a":1,"b":2}'), Delta(None, None, "add", '{"a":3,"b":4}'), Finish("tool_calls")
    )
    played = await both(lambda log: agent_of(turn, text("x"), tools=[add]))
    assert results_of(played.result) == ["3", "7"]


async def test_missing_empty_and_doubled_ids_are_given_their_own() -> None:
    turn = chunks(
        Delta(0, "", "f", '{"x":1}'), Delta(1, None, "f", '{"x":2}'), Delta(2, "k", "f", '{"x":3}'),
        Delta(3, "k", "f", '{"x":4}'), Finish("tool_calls"),
    )  # fmt: skip
    played = await both(lambda log: agent_of(turn, text("x"), tools=[f]))
    ids = [call.id for call in played.result.messages[1].tool_calls]
    assert results_of(played.result) == ["1", "2", "3", "4"]
    assert len(set(ids)) == 4
    assert all(ids)
    assert ids[2] == "k"


async def test_an_id_that_an_earlier_step_used_is_replaced() -> None:
    def make(log: list[Any]) -> Any:
        return agent_of(
            calls(ToolCall("c1", "f", {"x": 1})), calls(ToolCall("c1", "f", {"x": 2})), text("x"), tools=[f]
        )

    assert results_of((await both(make)).result) == ["1", "2"]


@pytest.mark.parametrize("raw", ["", "null", "{}", " ", "\n"], ids=repr)
async def test_no_arguments_in_any_spelling_are_no_arguments(raw: str) -> None:
    played = await both(lambda log: agent_of(calls(("f", raw)), text("x"), tools=[f]))
    assert results_of(played.result) == ["0"]
    assert not errors_of(played.result)[0]


@pytest.mark.parametrize("raw", ['{"n": 0}', "", "[1]", "12", '"x"', "true", '{"n": 1} {"n": 2}', '{"n": NaN}'])
async def test_required_arguments_are_there_or_the_body_is_not_entered(raw: str) -> None:
    good = raw == '{"n": 0}'

    def make(log: list[Any]) -> Any:
        async def need(n: int) -> int:
            """Need."""
            log.append(n)
            return n

        return agent_of(calls(("need", raw)), text("x"), tools=[need])

    played = await both(make)
    assert played.log == ([0] if good else [])
    assert errors_of(played.result)[0] is not good


async def test_broken_arguments_are_shown_and_the_next_request_is_legal() -> None:
    turns = [calls(("find", '{"a": tru')), calls(("find", {"q": "ok"})), text("x")]
    played = await both(lambda log: agent_of(*turns, tools=[find]))
    answers = results_of(played.result)
    assert '{"a": tru' in answers[0]
    assert answers[1] == "ok"
    assert len(played.requests) == 3


async def test_broken_arguments_reach_hooks_as_an_error_and_may_be_mended() -> None:
    class Mends(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            assert call.error
            assert call.args == {}
            return call.replace(args={"q": "mended"})

    played = await both(lambda log: agent_of(calls(("find", "{oops")), text("x"), tools=[find], middleware=[Mends()]))
    assert results_of(played.result) == ["mended"]


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "weird-word"])
async def test_no_tool_runs_after_an_unsafe_finish(reason: str) -> None:
    def make(log: list[Any]) -> Any:
        async def pay(n: int) -> str:
            """Pay."""
            log.append("paid")
            return "paid"

        return agent_of(calls(("pay", {"n": 5}), finish_reason=reason), tools=[pay])

    played = await both(make)
    assert played.log == []
    assert errors_of(played.result)[0]
    assert played.result.finish_reason == ("unknown" if reason == "weird-word" else reason)


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
async def test_tools_run_after_a_safe_finish(reason: str) -> None:
    played = await both(lambda log: agent_of(calls(("f", {"x": 5}), finish_reason=reason), text("x"), tools=[f]))
    assert results_of(played.result) == ["5"]
    assert played.result.text == "x"


async def test_two_answers_in_one_stream_are_an_error() -> None:
    turn = chunks(MessageStart("m1"), TextDelta("a"), MessageStart("m2"), TextDelta("b"), Finish())
    played = await both(lambda log: agent_of(turn))
    assert isinstance(played.error, ProviderError)
    assert "splice" in str(played.error)


async def test_a_repeated_start_of_one_answer_is_tolerated() -> None:
    turn = chunks(MessageStart("m1"), TextDelta("a"), MessageStart("m1"), TextDelta("b"), Finish())
    played = await both(lambda log: agent_of(turn))
    assert played.result.text == text_of(played.events) == "ab"


async def test_what_comes_after_the_finish_is_usage_at_most() -> None:
    from interpose import Usage, UsageUpdate

    turn = chunks(TextDelta("a"), Finish(), UsageUpdate(Usage(input_tokens=3)))
    played = await both(lambda log: agent_of(turn))
    assert (played.result.text, played.result.usage.input_tokens) == ("a", 3)


@pytest.mark.parametrize("turn", [chunks(TextDelta("par"), TextDelta("tial")), chunks()], ids=["half", "nothing"])
async def test_a_stream_that_ends_without_finish_is_an_error(turn: Any) -> None:
    played = await both(lambda log: agent_of(turn))
    assert isinstance(played.error, ProviderError)
    assert played.partial.text == "".join(chunk.text for chunk in turn.chunks)
    assert played.end == "on_error"


async def test_a_chunk_that_is_no_chunk_is_an_error_that_names_it() -> None:
    played = await both(lambda log: agent_of(chunks("not a chunk", Finish())))  # type: ignore[arg-type]  # a slip
    assert played.error is not None
    assert "str" in str(played.error) or "not a chunk" in str(played.error)


async def timed(size: int) -> float:
    piece = "abcd"
    deltas = [Delta(0, "a", "find", '{"q":"'), *[Delta(0, None, None, piece)] * (size // 4), Delta(0, None, None, '"}')]

    class NoOp(Middleware):
        def on_chunk(self, ctx: Any, event: Any) -> None:
            pass

    agent = agent_of(
        chunks(*deltas, Finish("tool_calls")), text("x"), tools=[find], middleware=[NoOp(), NoOp(), NoOp()]
    )
    started = time.perf_counter()
    async with agent.stream("go") as run:
        result = await run.result()
    assert len(results_of(result)[0]) == size
    return time.perf_counter() - started


async def test_the_time_for_long_arguments_grows_with_their_length() -> None:
    short, long = await timed(100_000), await timed(200_000)
    assert long / short < 3.5


async def test_an_unnamed_call_is_answered_and_never_dropped() -> None:
    turn = chunks(Delta(0, "a", None, '{"x":1}'), Finish("tool_calls"))
    run = await run_once(lambda log: agent_of(turn, text("x"), tools=[f]))
    stream = await stream_once(lambda log: agent_of(turn, text("x"), tools=[f]))
    for played in (run, stream):
        assert errors_of(played.result)[0]
        assert len(played.requests) == 2
