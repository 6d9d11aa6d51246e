"""Tool calls: what runs, in which order, and what the model reads."""

import asyncio
import time
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, logged, results_of, two_steps

from interpose import (
    Agent,
    FatalToolError,
    Limits,
    Middleware,
    Skip,
    ToolCall,
    ToolContext,
    after_tool_call,
    before_tool_call,
    on_chunk,
    tool,
)
from interpose.testing import ScriptedModel, calls, text

ADD = calls(("add", {"a": 1, "b": 2}))


async def test_a_call_meets_its_hooks_once_with_a_good_result() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return two_steps(
            middleware=[
                before_tool_call(lambda ctx, call: log.append(dict(call.args))),
                after_tool_call(lambda ctx, call, result: log.append((result.data, result.is_error))),
            ]
        )

    assert (await both(make)).log == [{"a": 1, "b": 2}, (3, False)]


@pytest.mark.parametrize("slow", ["a", "b"])
async def test_results_keep_the_order_of_the_calls(slow: str) -> None:
    async def work(name: str) -> str:
        """Work."""
        await asyncio.sleep(0.01 if name == slow else 0)
        return name

    played = await both(lambda log: agent(calls(("work", {"name": "a"}), ("work", {"name": "b"})), "x", tools=[work]))
    assert results_of(played.result.messages) == ["a", "b"]
    assert [event.content for event in played.events if event.type == "TOOL_CALL_RESULT"] == ["a", "b"]


async def test_calls_of_a_step_run_side_by_side() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        meet = asyncio.Barrier(2)

        async def work() -> str:
            """Work."""
            async with asyncio.timeout(20):
                await meet.wait()
            return "met"

        return agent(calls("work", "work"), "x", tools=[work])

    assert results_of((await both(make)).result.messages) == ["met", "met"]


async def test_tool_concurrency_of_one_runs_them_one_by_one() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work(n: int) -> str:
            """Work."""
            log.append(f"in {n}")
            await asyncio.sleep(0.001)
            log.append(f"out {n}")
            return "x"

        turn = calls(("work", {"n": 0}), ("work", {"n": 1}))
        return agent(turn, "x", tools=[work], limits=Limits(tool_concurrency=1))

    assert (await both(make)).log == ["in 0", "out 0", "in 1", "out 1"]


async def test_a_raising_tool_is_read_by_the_model_and_the_run_goes_on() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work() -> str:
            """Work."""
            raise ValueError("boom")

        after = after_tool_call(lambda ctx, call, result: log.append(result.is_error))
        return agent(calls("work"), "x", tools=[work], middleware=[after])

    played = await both(make)
    assert played.log == [True]
    assert "boom" in results_of(played.requests[1].messages)[0]
    assert played.result.text == "x"


async def test_a_fatal_tool_error_fails_the_run_with_its_cause() -> None:
    async def work() -> str:
        """Work."""
        raise FatalToolError("db down") from OSError("no route")

    played = await both(lambda log: agent(calls("work"), "never", tools=[work]))
    assert isinstance(played.error, FatalToolError)
    assert isinstance(played.error.__cause__, OSError)
    assert played.endings == ["on_error"]


async def test_one_of_two_calls_can_be_skipped() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work(name: str) -> str:
            """Work."""
            log.append(name)
            return f"did {name}"

        def skip(ctx: Any, call: Any) -> Any:
            return Skip("not needed") if call.args["name"] == "a" else None

        turn = calls(("work", {"name": "a"}), ("work", {"name": "b"}))
        return agent(turn, "x", tools=[work], middleware=[before_tool_call(skip)])

    played = await both(make)
    assert played.log == ["b"]
    assert results_of(played.requests[1].messages) == ["not needed", "did b"]


@pytest.mark.parametrize("how", ["answer", "refuse", "skip"])
async def test_an_answer_in_front_is_seen_by_the_afters_outside(how: str) -> None:
    answers: dict[str, Any] = {
        "answer": lambda call: call.answer(7),
        "refuse": lambda call: call.refuse("no"),
        "skip": lambda call: Skip(call.answer(7)),
    }

    def make(log: list[Any]) -> Agent[Any]:
        outer = after_tool_call(lambda ctx, call, result: log.append((result.data, result.is_error)))
        return two_steps(middleware=[outer, before_tool_call(lambda ctx, call: answers[how](call))])

    assert (await both(make)).log == [("no", True) if how == "refuse" else (7, False)]


@pytest.mark.parametrize(
    ("value", "read"),
    [("plain", "plain"), (42, "42"), ({"a": [1, None]}, '{"a":[1,null]}'), (None, None), (0, "0"), ("", "")],
    ids=["text", "number", "dict", "none", "zero", "empty"],
)
async def test_a_tool_may_return_any_plain_value(value: Any, read: str | None) -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work() -> Any:
            """Work."""
            return value

        after = after_tool_call(lambda ctx, call, result: log.append(result.data))
        return agent(calls("work"), "x", tools=[work], middleware=[after])

    played = await both(make)
    assert played.log == [value]
    assert not played.result.steps[0].tool_results[0].is_error
    if read is not None:
        assert results_of(played.requests[1].messages) == [read]


async def test_rewritten_arguments_are_seen_further_in_and_run() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        first = before_tool_call(lambda ctx, call: call.replace(args={**call.args, "b": 40}))
        second = before_tool_call(lambda ctx, call: log.append(dict(call.args)))
        return two_steps(middleware=[first, second])

    played = await both(make)
    assert played.log == [{"a": 1, "b": 40}]
    assert results_of(played.requests[1].messages) == ["41"]
    assert dict(played.result.messages[1].tool_calls[0].args) == {"a": 1, "b": 2}


async def test_the_agents_own_hooks_stand_outside_the_middlewares() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return two_steps(
            before_tool=lambda ctx, call: log.append("agent before"),
            after_tool=lambda ctx, call, result: log.append("agent after"),
            middleware=[logged("A", log, "before_tool_call", "after_tool_call")],
        )

    assert (await both(make)).log == ["agent before", "A.before_tool_call", "A.after_tool_call", "agent after"]


async def test_a_rewrite_may_name_another_tool_on_offer() -> None:
    async def double(a: int, b: int) -> int:
        """Return twice the sum."""
        return 2 * (a + b)

    swap = before_tool_call(lambda ctx, call: call.replace(name="double"))
    played = await both(lambda log: agent(ADD, "x", tools=[add, double], middleware=[swap]))
    assert results_of(played.requests[1].messages) == ["6"]


async def test_text_before_a_call_is_kept_with_it() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work(ctx: ToolContext[Any]) -> str:
            """Work."""
            log.append(ctx.tool_call_id)
            return "done"

        return agent(calls(ToolCall("c1", "work"), text="let me"), "x", tools=[work])

    played = await both(make)
    message = played.result.messages[1]
    assert (message.text, [call.id for call in message.tool_calls]) == ("let me", ["c1"])
    assert played.log == ["c1"]


async def test_a_blocking_tool_does_not_block_the_loop() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def sleepy() -> str:
            """Sleep."""
            time.sleep(0.05)
            return "slept"

        async def beat(ctx: Any) -> None:
            for _ in range(200):
                if log:
                    return
                await asyncio.sleep(0.001)
                beats.append(1)

        beats: list[int] = []

        class Beats(Middleware):
            def before_tool_call(self, ctx: Any, call: Any) -> None:
                ctx.defer(beat(ctx))

            def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
                log.append(len(beats) >= 5)

        return agent(calls("sleepy"), "x", tools=[sleepy], middleware=[Beats()])

    assert (await both(make)).log == [True]


async def test_a_tool_that_is_alone_overlaps_with_none() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        running: set[str] = set()

        async def work(name: str) -> str:
            """Work."""
            running.add(name)
            await asyncio.sleep(0.002)
            log.append("lonely" in running)
            running.discard(name)
            return name

        async def lonely() -> str:
            """Work alone."""
            log.append(bool(running))
            running.add("lonely")
            await asyncio.sleep(0.002)
            log.append(running != {"lonely"})
            running.discard("lonely")
            return "alone"

        turn = calls(("work", {"name": "a"}), "lonely", ("work", {"name": "b"}))
        return agent(turn, "x", tools=[work, tool(lonely, alone=True)])

    played = await both(make)
    assert played.log == [False] * 4
    assert results_of(played.result.messages) == ["a", "alone", "b"]


@pytest.mark.parametrize("where", ["limits", "tool"])
async def test_a_tool_that_takes_too_long_is_answered_and_the_run_goes_on(where: str) -> None:
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(10)
        return "done"

    one = tool(slow, timeout_s=0.01) if where == "tool" else slow
    limits = Limits(tool_timeout_s=0.01) if where == "limits" else Limits()
    played = await both(lambda log: agent(calls("slow"), "x", tools=[one], limits=limits))
    (read,) = results_of(played.requests[1].messages)
    assert "0.01" in read or "timed out" in read or "time" in read
    assert played.result.steps[0].tool_results[0].is_error
    assert played.result.text == "x"


async def test_no_more_tools_run_than_the_limit_allows_also_side_by_side() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work(n: int) -> str:
            """Work."""
            log.append("ran")
            await asyncio.sleep(0.001)
            return str(n)

        turn = calls(("work", {"n": 1}), ("work", {"n": 2}))
        return agent(turn, turn, "never", tools=[work], limits=Limits(max_tool_calls=3))

    played = await both(make)
    assert len(played.log) <= 3
    assert played.result.finish_reason == "limit"
    assert len(results_of(played.result.messages)) == 4


async def test_events_of_a_tool_pass_the_hooks_and_come_before_its_result() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        async def work(ctx: ToolContext[Any]) -> str:
            """Work."""
            ctx.emit("progress", 1)
            await ctx.emit("progress", 2)
            return "done"

        look = on_chunk(lambda ctx, event: log.append(event.value) if event.type == "CUSTOM" else None)
        return agent(calls("work"), "x", tools=[work], middleware=[look])

    played = await both(make)
    assert played.log == [1, 2]
    told = [kind for kind in played.types if kind in ("CUSTOM", "TOOL_CALL_RESULT")]
    assert told == ["CUSTOM", "CUSTOM", "TOOL_CALL_RESULT"]


async def test_a_middleware_hears_when_all_calls_are_settled() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Hears(Middleware):
            def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
                log.append(([c.name for c in info.calls], [r.data for r in info.results], info.pending))

        return two_steps(middleware=[Hears()])

    assert (await both(make)).log == [(["add"], [3], ())]


async def test_text_of_the_last_step_is_the_text_of_the_run() -> None:
    played = await both(lambda log: agent(calls(("add", {"a": 1, "b": 2}), text="first"), text("last"), tools=[add]))
    assert played.result.text == "last"


async def test_a_phase_does_not_end_by_the_last_call_of_the_phase_before() -> None:
    @tool
    async def quick() -> str:
        """Quick."""
        return "q"

    @tool
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(0.001)
        return "s"

    for _ in range(50):
        turns = (calls("quick", "slow"), calls("slow"), calls("slow", "quick"), calls("slow"), text("x"))
        result = await Agent(ScriptedModel(*turns), tools=[quick, slow], post_model_hooks=()).run("go")
        assert [m.text for m in result.messages if m.role == "tool"] == ["q", "s", "s", "s", "q", "s"]
