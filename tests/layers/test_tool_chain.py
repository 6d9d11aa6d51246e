"""The tool chain: the agent's own hooks outermost, then the layers, then validation; answers, rewrites, refusals."""

import asyncio
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, errors_of, results_of, roles

from interpose import HookError, Limits, Middleware, Skip, ToolCall, ToolResult
from interpose.testing import calls, event_types, text

ONE = ("echo", {"x": "original"})


async def test_a_layer_sees_the_call_before_and_the_data_after() -> None:
    def make(log: list[Any]) -> Any:
        class Logs(Middleware):
            async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
                log.append(f"before:{call.name}")
                result = await call_next(call)
                log.append(f"after:{result.data}")
                return result

        return agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Logs()])

    assert (await both(make)).log == ["before:echo", "after:original"]


@pytest.mark.parametrize("value", ["cached", 0, "", [], {"a": 1}, False], ids=repr)
async def test_a_plain_value_of_a_layer_is_the_result(value: Any) -> None:
    class Cache(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            return value

    async def never(x: str) -> str:
        """Never."""
        raise AssertionError("the tool ran")

    played = await both(
        lambda log: agent_of(calls(("never", {"x": "1"})), text("x"), tools=[never], middleware=[Cache()])
    )
    result = played.result.steps[0].tool_results[0]
    assert (result.data, result.is_error) == (value, False)


async def test_the_agents_own_hook_comes_first_and_middleware_sees_its_rewrite() -> None:
    def make(log: list[Any]) -> Any:
        class Logs(Middleware):
            def before_tool_call(self, ctx: Any, call: Any) -> None:
                log.append(("before", call.args["x"]))

            async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
                log.append(("wrap", call.args["x"]))
                return await call_next(call)

        def rewrite(ctx: Any, call: Any) -> Any:
            return call.replace(args={"x": "new"})

        return agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Logs()], before_tool=rewrite)

    played = await both(make)
    assert played.log == [("before", "new"), ("wrap", "new")]
    assert results_of(played.result) == ["new"]


async def test_the_history_keeps_the_models_own_arguments() -> None:
    played = await both(
        lambda log: agent_of(
            calls(ONE), text("x"), tools=[echo], before_tool=lambda ctx, call: call.replace(args={"x": "new"})
        )
    )
    assert played.result.messages[1].tool_calls[0].args == {"x": "original"}


async def test_rewritten_arguments_reach_the_tool_the_record_and_later_hooks() -> None:
    def make(log: list[Any]) -> Any:
        class Rewrites(Middleware):
            async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
                return await call_next(call.replace(args={"x": "new"}))

        class Logs(Middleware):
            def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
                log.append((call.args["x"], result.data))

            def on_node(self, ctx: Any, node: Any) -> None:
                if node.phase == "end" and node.kind == "tool":
                    log.append(("node", "new" in str(node.content), "original" in str(node.content)))

        return agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Rewrites(), Logs()])

    assert (await both(make)).log == [("new", "new"), ("node", True, False)]


async def test_a_layer_that_answers_spends_no_tool_calls() -> None:
    def make(log: list[Any]) -> Any:
        class Cache(Middleware):
            async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
                log.append("hit")
                return "cached"

        turns = [calls(ONE), calls(ONE), calls(ONE), text("end")]
        return agent_of(*turns, tools=[echo], middleware=[Cache()], limits=Limits(max_tool_calls=1))

    played = await both(make)
    assert played.log == ["hit"] * 3
    assert played.result.text == "end"


async def test_meta_of_an_answering_layer_is_on_the_tool_node() -> None:
    nodes: list[Any] = []

    class Cache(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            ctx.meta(cache_hit=True)
            return "cached"

    class Watches(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            if node.phase == "end" and node.kind == "tool":
                nodes.append(node)

    await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Cache(), Watches()]))
    assert [node.meta for node in nodes] == [{"cache_hit": True}] * 2
    await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Cache()]))


async def test_calls_of_a_step_overlap_and_everything_keeps_their_order() -> None:
    def make(log: list[Any]) -> Any:
        async def nap(x: str) -> str:
            """Sleep, the first longer."""
            log.append(f"{x}+")
            await asyncio.sleep(0.03 if x == "slow" else 0.001)
            log.append(f"{x}-")
            return x

        return agent_of(calls(("nap", {"x": "slow"}), ("nap", {"x": "fast"})), text("x"), tools=[nap])

    played = await both(make)
    assert played.log == ["slow+", "fast+", "fast-", "slow-"]
    assert results_of(played.result) == ["slow", "fast"]
    assert [event.content for event in played.events if event.type == "TOOL_CALL_RESULT"] == ["slow", "fast"]
    assert [result.data for result in played.result.steps[0].tool_results] == ["slow", "fast"]
    assert len(played.result.messages[1].tool_calls) == 2


async def test_the_agents_after_hook_may_turn_an_error_into_a_result() -> None:
    nodes: list[Any] = []

    async def breaks() -> str:
        """Break."""
        raise OSError("disk")

    class Watches(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            if node.phase == "end" and node.kind == "tool":
                nodes.append(node.status)

    def mend(ctx: Any, call: Any, result: Any) -> Any:
        assert result.is_error
        return result.replace(data="mended", is_error=False)

    played = await both(
        lambda log: agent_of(calls("breaks"), text("x"), tools=[breaks], after_tool=mend, middleware=[Watches()])
    )
    assert results_of(played.result) == ["mended"]
    assert nodes == ["ok", "ok"]


@pytest.mark.parametrize("plain", [True, False], ids=["plain value", "ToolResult"])
async def test_skip_answers_the_call_and_outer_after_hooks_see_it(plain: bool) -> None:
    def make(log: list[Any]) -> Any:
        class Outer(Middleware):
            def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
                log.append(f"outer {result.data}")

        class Skips(Middleware):
            def before_tool_call(self, ctx: Any, call: Any) -> Any:
                return Skip("skipped" if plain else call.answer("skipped"))

        class Inner(Middleware):
            def before_tool_call(self, ctx: Any, call: Any) -> None:
                log.append("inner")

        return agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Outer(), Skips(), Inner()])

    played = await both(make)
    assert played.log == ["outer skipped"]
    assert results_of(played.result) == ["skipped"]


async def test_a_rewrite_may_name_another_offered_tool() -> None:
    async def upper(x: str) -> str:
        """Shout."""
        return x.upper()

    played = await both(
        lambda log: agent_of(
            calls(("echo", {"x": "a"})),
            text("x"),
            tools=[echo, upper],
            before_tool=lambda ctx, call: call.replace(name="upper"),
        )
    )
    assert results_of(played.result) == ["A"]
    assert played.result.messages[1].tool_calls[0].name == "echo"


async def test_a_rewrite_to_a_hidden_tool_is_answered_with_an_error() -> None:
    ran: list[int] = []

    async def rm() -> str:
        """Remove."""
        ran.append(1)
        return "x"

    class Hides(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.without_tools("rm")

        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.replace(name="rm", args={})

    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo, rm], middleware=[Hides()]))
    assert ran == []
    assert errors_of(played.result)[0]


async def test_a_rewrite_that_changes_the_id_is_a_hook_error() -> None:
    class Renames(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.replace(id="other")

    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Renames()]))
    assert isinstance(played.error, HookError)
    assert "Renames" in str(played.error)


async def test_a_result_for_another_call_is_a_hook_error_or_set_right() -> None:
    class Crosses(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            return ToolResult(tool_call_id="another", data="x")

    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Crosses()]))
    assert isinstance(played.error, HookError) or results_of(played.result) == ["x"]


async def test_a_string_from_an_after_hook_is_a_hook_error() -> None:
    class Wrong(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> Any:
            return "x"

    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Wrong()]))
    assert isinstance(played.error, HookError)
    for word in ("Wrong", "after_tool_call", "str", "ToolResult"):
        assert word in str(played.error)


async def test_rewritten_arguments_are_validated_again() -> None:
    async def count(n: int) -> int:
        """Count."""
        return n

    played = await both(
        lambda log: agent_of(
            calls(("count", {"n": 1})),
            text("x"),
            tools=[count],
            before_tool=lambda ctx, call: call.replace(args={"n": "many"}),
        )
    )
    assert errors_of(played.result)[0]


async def test_a_retry_of_a_tool_by_a_layer_runs_it_again() -> None:
    def make(log: list[Any]) -> Any:
        async def flaky() -> str:
            """Fail once."""
            log.append("ran")
            if len(log) == 1:
                raise OSError("once")
            return "fine"

        class Again(Middleware):
            async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
                result = await call_next(call)
                return await call_next.again(call) if result.is_error else result

        return agent_of(calls("flaky"), text("x"), tools=[flaky], middleware=[Again()])

    played = await both(make)
    assert played.log == ["ran", "ran"]
    assert results_of(played.result) == ["fine"]


async def test_phase_complete_comes_after_the_result_events_with_all_results() -> None:
    def make(log: list[Any]) -> Any:
        class Logs(Middleware):
            def on_chunk(self, ctx: Any, event: Any) -> None:
                if event.type == "TOOL_CALL_RESULT":
                    log.append(event.content)

            def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
                log.append(([c.name for c in info.calls], [r.data for r in info.results], info.pending))

        return agent_of(calls(ONE, ("echo", {"x": "2"})), text("x"), tools=[echo], middleware=[Logs()])

    played = await both(make)
    assert played.log == ["original", "2", (["echo", "echo"], ["original", "2"], ())]


async def test_no_tool_hook_is_called_in_a_step_without_calls() -> None:
    class Logs(Middleware):
        def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
            raise AssertionError("no calls, no phase")

    assert (await both(lambda log: agent_of(text("x"), middleware=[Logs()]))).result.text == "x"


async def test_tool_concurrency_is_kept() -> None:
    peaks: list[int] = []

    def make(log: list[Any]) -> Any:
        running: list[str] = []

        async def nap(x: str) -> str:
            """Nap."""
            running.append(x)
            peaks.append(len(running))
            await asyncio.sleep(0.002)
            running.remove(x)
            return x

        turn = calls(*[("nap", {"x": str(n)}) for n in range(6)])
        return agent_of(turn, text("x"), tools=[nap], limits=Limits(tool_concurrency=2))

    played = await both(make)
    assert max(peaks) == 2
    assert results_of(played.result) == [str(n) for n in range(6)]


async def test_one_result_event_a_call_and_one_message() -> None:
    played = await both(lambda log: agent_of(calls(ONE, ONE), text("x"), tools=[echo]))
    assert event_types(played.events).count("TOOL_CALL_RESULT") == 2
    assert roles(played.result.messages) == ["user", "assistant", "tool", "tool", "assistant"]


async def test_two_calls_of_one_id_are_told_apart() -> None:
    turn = calls(ToolCall("k", "echo", {"x": "1"}), ToolCall("k", "echo", {"x": "2"}))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[echo]))
    assert results_of(played.result) == ["1", "2"]
