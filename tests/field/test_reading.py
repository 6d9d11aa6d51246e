"""How a reader meets a run: order, back-pressure, holding, and going on after a break."""

import asyncio
from typing import Any

from tests.layers.play import agent_of, both, echo

from interpose import (
    Middleware,
    tool,
)
from interpose.testing import calls, event_types, text, text_of

ONE = ("echo", {"x": "1"})


async def test_chunk_hooks_are_never_entered_twice_at_once() -> None:
    async def noisy(ctx, x: str) -> str:  # type: ignore[no-untyped-def]  # an unannotated ctx is the context
        """Noise."""
        for n in range(5):
            ctx.emit("noise", n)
            await asyncio.sleep(0)
        return x

    def make(log: list[Any]) -> Any:
        class Slow(Middleware):
            inside = 0

            async def on_chunk(self, ctx: Any, event: Any) -> None:
                self.inside += 1
                log.append(self.inside)
                await asyncio.sleep(0.001)
                self.inside -= 1

        return agent_of(
            calls(("noisy", {"x": "1"}), ("noisy", {"x": "2"})), text("x"), tools=[noisy], middleware=[Slow()]
        )

    assert set((await both(make)).log) == {1}


async def test_a_tool_that_wants_to_be_alone_is() -> None:
    def make(log: list[Any]) -> Any:
        running: list[str] = []

        @tool(alone=True)
        async def alone() -> str:
            """Alone."""
            running.append("alone")
            await asyncio.sleep(0.01)
            log.append(list(running))
            running.remove("alone")
            return "x"

        async def other() -> str:
            """Other."""
            running.append("other")
            await asyncio.sleep(0.005)
            running.remove("other")
            return "x"

        return agent_of(calls("other", "alone", "other"), text("x"), tools=[alone, other])

    assert (await both(make)).log == [["alone"]]


async def test_the_model_is_not_pulled_far_ahead_of_its_reader() -> None:
    produced: list[int] = []

    class Endless:
        provider, name, profile = "own", "own", None

        async def stream(self, request: Any) -> Any:
            from interpose import Finish, TextDelta

            for n in range(2000):
                produced.append(n)
                yield TextDelta("x")
            yield Finish()

    agent = agent_of(model=Endless())
    async with agent.stream("go") as run:
        await anext(run)
        await asyncio.sleep(0.05)
        assert len(produced) < 100
    assert len(produced) < 100


async def test_reading_goes_on_after_a_break() -> None:
    agent = agent_of(text(chunks=("a", "b")))
    seen: list[str] = []
    async with agent.stream("go") as run:
        async for event in run:
            seen.append(event.type)
            break
        async for event in run:
            seen.append(event.type)
        result = await run.result()
    assert result.text == "ab"
    assert seen[0] == "RUN_STARTED"
    assert seen[-1] == "RUN_FINISHED"


async def test_a_hook_may_wait_for_the_runs_own_result_of_a_reader_that_never_comes() -> None:
    agent = agent_of(*[text("x" * 10, chunks=tuple("x" * 10))] * 3)
    async with agent.stream("go") as run:
        result = await run.result()
    assert result.text == "x" * 10


async def test_held_events_can_be_released_early() -> None:
    class Holds(Middleware):
        holds_stream = True

        def on_chunk(self, ctx: Any, event: Any) -> None:
            if event.type == "TEXT_MESSAGE_CONTENT" and event.delta == "b":
                ctx.release_stream()

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    played = await both(lambda log: agent_of(text(chunks=("a", "b", "c")), middleware=[Holds()]))
    assert text_of(played.events) == "abc"
    assert event_types(played.events).count("TEXT_MESSAGE_CONTENT") == 3


async def test_held_tool_calls_are_sent_before_their_results() -> None:
    class Holds(Middleware):
        holds_stream = True

    played = await both(lambda log: agent_of(calls(ONE, text="t"), text("x"), tools=[echo], middleware=[Holds()]))
    kinds = event_types(played.events)
    assert kinds.index("TOOL_CALL_END") < kinds.index("TOOL_CALL_RESULT")
    assert text_of(played.events) == "tx"


async def test_a_run_that_fails_while_it_holds_shows_nothing_of_the_call() -> None:
    from interpose.testing import fail

    class Holds(Middleware):
        holds_stream = True

    played = await both(lambda log: agent_of(fail(RuntimeError("x"), after=["half"]), middleware=[Holds()]))
    assert "half" not in text_of(played.events)
    assert str(played.error) == "x"
