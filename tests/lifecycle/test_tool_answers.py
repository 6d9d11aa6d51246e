"""Calls that are answered in place of being run: broken, unknown, handed in, cut off, waiting for approval."""

from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, logged, results_of

from interpose import (
    Agent,
    ConfigurationError,
    Limits,
    Middleware,
    ToolCall,
    ToolMessage,
    before_tool_call,
    tool,
)
from interpose.testing import calls

ADD = calls(("add", {"a": 1, "b": 2}))


async def test_a_rewrite_that_loses_an_argument_is_answered_by_validation() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def add(a: int, b: int) -> int:
            """Return the sum."""
            log.append("ran")
            return a + b

        lose = before_tool_call(lambda ctx, call: call.replace(args={"a": 1}))
        return agent(ADD, "x", tools=[add], middleware=[lose])

    played = await both(make)
    assert played.log == []
    (read,) = results_of(played.requests[1].messages)
    assert "b" in read
    assert "add" in read
    assert played.result.steps[0].tool_results[0].is_error


OPEN = [
    {"role": "user", "content": "Go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}],
    },
]


def counting_add(log: list[Any]) -> Any:
    async def add(a: int, b: int) -> int:
        """Return the sum."""
        log.append("ran")
        return a + b

    return add


async def test_an_open_call_handed_in_is_answered_and_not_run() -> None:
    played = await both(lambda log: agent("x", tools=[counting_add(log)]), OPEN)
    assert played.log == []
    answer = played.result.messages[2]
    assert isinstance(answer, ToolMessage)
    assert answer.is_error
    assert played.requests[0].messages[2].role == "tool"
    told = [event for event in played.events if event.type.startswith("TOOL_CALL")]
    assert [event.type for event in told] == ["TOOL_CALL_RESULT"]
    assert told[0].tool_call_id == "c1"


async def test_an_answered_call_handed_in_is_left_alone() -> None:
    answered = [*OPEN, {"role": "tool", "tool_call_id": "c1", "content": "3"}]
    played = await both(lambda log: agent("x", tools=[counting_add(log)]), answered)
    assert played.log == []
    assert "TOOL_CALL_RESULT" not in played.types
    assert results_of(played.requests[0].messages) == ["3"]


async def test_an_open_call_in_the_midst_of_messages_handed_in_is_answered_in_its_place() -> None:
    played = await both(
        lambda log: agent("x", tools=[counting_add(log)]), [*OPEN, {"role": "user", "content": "Well?"}]
    )
    assert played.log == []
    assert [m.role for m in played.requests[0].messages] == ["user", "assistant", "tool", "user"]


async def test_messages_handed_in_are_no_approval() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent("x", tools=[tool(counting_add(log), approval=True)])

    played = await both(make, OPEN)
    assert played.log == []
    assert played.result.status == "interrupted"
    assert played.result.interrupts[0].tool_call is not None
    assert played.requests == []


@pytest.mark.parametrize("whose", ["agent", "middleware"])
def test_two_tools_of_one_name_are_refused(whose: str) -> None:
    async def other() -> int:
        """Return nothing of use."""
        return 0

    twin = tool(other, name="add")

    class Brings(Middleware):
        tools = (twin,)

    with pytest.raises(ConfigurationError, match="add"):
        agent("x", tools=[add, twin] if whose == "agent" else [add], middleware=[] if whose == "agent" else [Brings()])


async def test_middleware_can_bring_tools() -> None:
    class Brings(Middleware):
        tools = (add,)

    assert results_of((await both(lambda log: agent(ADD, "x", middleware=[Brings()]))).result.messages) == ["3"]


async def test_an_unknown_tool_beside_a_good_one_is_answered_with_what_is_offered() -> None:
    turn = calls(("subtract", {"a": 1}), ("add", {"a": 1, "b": 2}))
    played = await both(lambda log: agent(turn, "x", tools=[add], middleware=[logged("A", log, "before_tool_call")]))
    unknown, good = results_of(played.requests[1].messages)
    assert good == "3"
    assert "add" in unknown
    assert "subtract" in unknown
    assert played.log == ["A.before_tool_call"] * 2


@pytest.mark.parametrize("raw", ['{"a": 1', "[1, 2]", "nonsense"])
async def test_broken_arguments_are_answered_and_seen_by_the_hooks(raw: str) -> None:
    def make(log: list[Any]) -> Agent[Any]:
        look = before_tool_call(lambda ctx, call: log.append((dict(call.args), bool(call.error))))
        return agent(calls(("add", raw)), "x", tools=[add], middleware=[look])

    played = await both(make)
    assert played.log == [({}, True)]
    assert played.result.steps[0].tool_results[0].is_error


@pytest.mark.parametrize("raw", ["", "null", "{}"])
async def test_absent_arguments_are_none(raw: str) -> None:
    async def work() -> str:
        """Work."""
        return "done"

    assert results_of((await both(lambda log: agent(calls(("work", raw)), "x", tools=[work]))).result.messages) == [
        "done"
    ]


async def test_two_calls_of_one_id_are_told_apart_and_both_answered() -> None:
    turn = calls(ToolCall("c", "add", {"a": 1, "b": 1}), ToolCall("c", "add", {"a": 2, "b": 2}))
    played = await both(lambda log: agent(turn, "x", tools=[add]))
    assert results_of(played.result.messages) == ["2", "4"]
    assert len({call.id for call in played.result.messages[1].tool_calls}) == 2


async def test_a_call_id_of_an_earlier_step_is_keyed_anew() -> None:
    turn = calls(ToolCall("c", "add", {"a": 1, "b": 1}))
    played = await both(lambda log: agent(turn, turn, "x", tools=[add]))
    ids = [call.id for message in played.result.messages for call in message.tool_calls]
    assert len(set(ids)) == 2


async def test_in_the_last_step_calls_are_answered_with_the_step_limit() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(ADD, "never", tools=[counting_add(log)], limits=Limits(max_steps=1))

    played = await both(make)
    assert played.log == []
    (read,) = results_of(played.result.messages)
    assert "step limit" in read
    assert played.result.steps[0].tool_results[0].is_error


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_calls_of_an_answer_that_was_cut_are_not_run(reason: str) -> None:
    def make(log: list[Any]) -> Agent[Any]:
        turn = calls(("add", {"a": 1, "b": 2}), finish_reason=reason)
        return agent(turn, "never", tools=[counting_add(log)])

    played = await both(make)
    assert played.log == []
    assert len(played.requests) == 1
    assert played.result.finish_reason == reason


async def test_an_approval_pauses_its_call_and_lets_the_others_run() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def guarded(n: int) -> str:
            """Do what needs approval."""
            log.append("guarded ran")
            return "done"

        turn = calls(("guarded", {"n": 5}), ("add", {"a": 1, "b": 2}))
        return agent(turn, "never", tools=[tool(guarded, approval=True), counting_add(log)])

    played = await both(make)
    assert played.log == ["ran"]
    (asked,) = played.result.interrupts
    assert asked.tool_call is not None
    assert (asked.tool_call.name, dict(asked.tool_call.args)) == ("guarded", {"n": 5})
    assert played.types.count("TOOL_CALL_RESULT") == 1
    assert played.types.index("TOOL_CALL_RESULT") < played.types.index("RUN_FINISHED")


async def test_an_approval_can_depend_on_the_call() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        guarded = tool(counting_add(log), approval=lambda ctx, call: call.args["a"] > 10)
        return agent(ADD, "x", tools=[guarded])

    played = await both(make)
    assert played.log == ["ran"]
    assert played.result.status == "finished"


@pytest.mark.parametrize("code", [None, 2, "bad arguments"])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_that_exits_is_answered_and_the_process_goes_on(is_async: bool, code: Any) -> None:
    async def convert() -> str:
        """Convert."""
        raise SystemExit(code)

    def convert_in_thread() -> str:
        """Convert."""
        raise SystemExit(code)

    leaves = tool(convert) if is_async else tool(convert_in_thread, name="convert")
    played = await both(lambda log: agent(calls("convert"), "x", tools=[leaves]))
    (read,) = results_of(played.requests[1].messages)
    assert read == f"the tool tried to end the process: SystemExit({code!r})"
    assert played.result.steps[0].tool_results[0].is_error


async def test_the_event_of_a_result_says_whether_it_is_an_error() -> None:
    def good() -> str:
        """Good."""
        return "fine"

    played = await both(lambda log: agent(calls("good", "missing"), "x", tools=[good]))
    told = [event for event in played.events if event.type == "TOOL_CALL_RESULT"]
    assert [event.metadata for event in told] == [None, {"interpose": {"isError": True}}]
