"""A pause is no error: nothing takes it for one, and its siblings finish."""

from typing import Any

from tests.layers.play import agent_of, both, echo, roles

from interpose import (
    Middleware,
    Pause,
)
from interpose.testing import calls, text

ONE = ("echo", {"x": "1"})


async def test_a_pause_is_not_taken_for_an_error_by_a_retrying_tool_layer() -> None:
    def make(log: list[Any]) -> Any:
        class Tries(Middleware):
            async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
                for _ in range(3):
                    try:
                        log.append("try")
                        return await call_next.again(call)
                    except Exception:
                        continue
                return "gave up"

        class Asks(Middleware):
            def before_tool_call(self, ctx: Any, call: Any) -> Any:
                return Pause("may I?", {"x": 1})

        return agent_of(calls(ONE), text("never"), tools=[echo], middleware=[Tries(), Asks()])

    played = await both(make)
    assert (played.result.status, played.log) == ("interrupted", ["try"])
    assert [(one.reason, one.value) for one in played.result.interrupts] == [("may I?", {"x": 1})]
    assert played.end == "on_finish"
    assert played.info.status == "interrupted"


async def test_a_pause_is_not_taken_for_an_error_by_retry_and_fallback_of_the_model() -> None:
    async def swallow(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except Exception:
            return await call_next.again(request.with_model("other"))

    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return Pause("gate")

    played = await both(lambda log: agent_of(text("never"), middleware=[swallow, swallow, Gate()]))
    assert played.result.status == "interrupted"
    assert [one.reason for one in played.result.interrupts] == ["gate"]
    assert played.requests == []
    assert roles(played.result.messages) == ["user"]


async def test_the_siblings_of_a_paused_call_finish() -> None:
    class Asks(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return Pause("may I?") if call.args["x"] == "ask" else None

    def make(log: list[Any]) -> Any:
        async def work(x: str) -> str:
            """Work."""
            log.append(x)
            return x

        return agent_of(calls(("work", {"x": "ask"}), ("work", {"x": "go"})), tools=[work], middleware=[Asks()])

    played = await both(make)
    assert played.log == ["go"]
    assert [event.content for event in played.events if event.type == "TOOL_CALL_RESULT"] == ["go"]
    assert played.result.interrupts[0].tool_call.args == {"x": "ask"}  # type: ignore[union-attr]  # it has one
