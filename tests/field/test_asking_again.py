"""Retry asks the model again, in that attempt only."""

from typing import Any

from tests.layers.play import agent_of, both, results_of, roles

from interpose import (
    Middleware,
)
from interpose.testing import calls, text

ONE = ("echo", {"x": "1"})


async def test_retry_runs_the_askers_own_befores_again_and_gives_up_after_its_number() -> None:
    from interpose import Retry

    def make(log: list[Any]) -> Any:
        class Inner(Middleware):
            def before_model_call(self, ctx: Any, request: Any) -> None:
                log.append(f"inner {request.attempt}")

        class Asks(Middleware):
            async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
                log.append("wrap")
                return await call_next(request)

            def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
                return None if response.text.endswith(".") else Retry("End with a full stop.")

        return agent_of(text("hi"), text("hi again"), middleware=[Asks(), Inner()])

    played = await both(make)
    assert played.log == ["wrap", "inner 0", "wrap", "inner 1"]
    assert [(m.role, m.text) for m in played.requests[1].messages[1:]] == [
        ("assistant", "hi"), ("user", "End with a full stop."),
    ]  # fmt: skip
    assert played.result.text == "hi again"
    assert roles(played.result.messages) == ["user", "assistant"]


async def test_retry_of_a_response_with_calls_runs_none_of_them() -> None:
    from interpose import Retry

    def make(log: list[Any]) -> Any:
        async def pay() -> str:
            """Pay."""
            log.append("paid")
            return "x"

        class Asks(Middleware):
            def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
                return Retry("No tools, please.") if response.tool_calls else None

        return agent_of(calls("pay", text="let me"), text("fine"), tools=[pay], middleware=[Asks()])

    played = await both(make)
    assert played.log == []
    assert results_of(played.result) == []
    assert played.result.text == "fine"
