"""Refusals, failing tools and wrong calls: the model reads them and goes on, unless they are fatal."""

from typing import Any

from tests.layers.play import agent_of, both, echo, errors_of, results_of

from interpose import FatalToolError, Middleware
from interpose.testing import calls, text

ONE = ("echo", {"x": "original"})


async def test_a_refusal_is_read_by_the_model_and_the_run_goes_on() -> None:
    class Refuses(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.refuse("No permission for echo.")

    played = await both(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Refuses()]))
    assert played.requests[1].messages[-1].text == "No permission for echo."
    assert errors_of(played.result) == [True]
    assert played.result.text == "x"


async def test_a_before_hook_that_raises_fails_the_run_and_runs_no_tool() -> None:
    ran: list[int] = []

    async def pay() -> str:
        """Pay."""
        ran.append(1)
        return "x"

    def refuse(ctx: Any, call: Any) -> None:
        raise PermissionError("refused by policy")

    played = await both(lambda log: agent_of(calls("pay"), text("x"), tools=[pay], before_tool=refuse))
    assert isinstance(played.error, PermissionError)
    assert ran == []


async def test_a_tools_exception_is_a_result_that_the_model_reads() -> None:
    async def breaks() -> str:
        """Break."""
        raise OSError("boom")

    played = await both(lambda log: agent_of(calls("breaks"), text("x"), tools=[breaks]))
    assert "boom" in results_of(played.result)[0]
    assert errors_of(played.result)[0]


async def test_a_fatal_tool_error_fails_the_run_and_keeps_its_cause() -> None:
    async def breaks() -> str:
        """Break."""
        try:
            raise OSError("socket")
        except OSError as error:
            raise FatalToolError("db down") from error

    played = await both(lambda log: agent_of(calls("breaks"), text("x"), tools=[breaks]))
    assert isinstance(played.error, FatalToolError)
    assert isinstance(played.error.__cause__, OSError)
    assert len(played.requests) == 1


async def test_an_unknown_tool_is_seen_recorded_and_answered_with_what_there_is() -> None:
    def make(log: list[Any]) -> Any:
        class Logs(Middleware):
            def before_tool_call(self, ctx: Any, call: Any) -> None:
                log.append(f"before {call.name}")

            def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
                log.append(f"after {result.is_error}")

            def on_node(self, ctx: Any, node: Any) -> None:
                if node.phase == "end" and node.kind == "tool":
                    log.append(node.status)

        return agent_of(calls(("serach", {"q": "1"})), text("sorry"), tools=[echo], middleware=[Logs()])

    played = await both(make)
    assert played.log == ["before serach", "after True", "error"]
    assert "serach" in results_of(played.result)[0]
    assert "echo" in results_of(played.result)[0]


async def test_bad_arguments_are_answered_with_the_name_of_the_missing_one() -> None:
    played = await both(lambda log: agent_of(calls(("echo", {"y": 1})), text("x"), tools=[echo]))
    answer = results_of(played.result)[0]
    assert "echo" in answer
    assert "x" in answer
    assert errors_of(played.result)[0]


async def test_the_model_may_try_again_after_a_failure() -> None:
    def make(log: list[Any]) -> Any:
        async def read(path: str) -> str:
            """Read."""
            log.append(path)
            if path == "wrong":
                raise FileNotFoundError(path)
            return "content"

        turns = [calls(("read", {"path": "wrong"})), calls(("read", {"path": "right"})), text("done")]
        return agent_of(*turns, tools=[read])

    played = await both(make)
    assert played.log == ["wrong", "right"]
    assert played.result.text == "done"
