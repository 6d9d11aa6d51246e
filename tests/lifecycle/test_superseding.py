"""Text that was shown and is then replaced, and text that is held back until it was judged."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, deltas, hello

from interpose import (
    Agent,
    Middleware,
    ProviderDown,
    after_model_call,
    before_model_call,
    on_chunk,
    wrap_model_call,
)
from interpose.testing import calls, fail, hang, text, text_of


class Holds(Middleware):
    holds_stream = True

    def __init__(self, log: list[Any], judge: Any = None) -> None:
        self.log = log
        self.judge = judge

    def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
        self.log.append(f"judged {response.text}")
        return self.judge(response) if self.judge is not None else None


async def test_held_text_arrives_unchanged_after_the_judgement() -> None:
    log: list[Any] = []
    one = agent(hello(), middleware=[Holds(log)])
    async with one.stream("Go") as run:
        async for event in run:
            log.append(event.type)
            if event.type == "STEP_STARTED":
                await asyncio.sleep(0.005)
    shown = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert [entry for entry in log if entry.startswith(("judged", "TEXT"))] == ["judged Hello", *shown]
    assert log[-1] == "RUN_FINISHED"
    assert (await both(lambda log: agent(hello(), middleware=[Holds(log)]))).result.text == "Hello"


async def test_held_text_that_is_replaced_is_never_sent() -> None:
    played = await both(
        lambda log: agent(hello(), middleware=[Holds(log, lambda response: response.with_text("clean"))])
    )
    assert deltas(played.events) == ["clean"]
    assert "CUSTOM" not in played.types


def superseded(events: list[Any]) -> list[Any]:
    return [event.value for event in events if event.type == "CUSTOM" and event.name == "interpose.superseded"]


async def again(ctx: Any, request: Any, call_next: Any) -> Any:
    await call_next(request)
    return await call_next.again(request)


async def test_text_that_is_tried_again_is_superseded_under_its_id() -> None:
    played = await both(lambda log: agent(text("bad"), text("good"), middleware=[wrap_model_call(again)]))
    starts = [event.message_id for event in played.events if event.type == "TEXT_MESSAGE_START"]
    assert len(set(starts)) == 2
    assert superseded(played.events) == [{"messageId": starts[0]}]
    assert text_of(played.events) == played.result.text == "good"


async def test_a_call_that_is_tried_again_is_superseded_by_its_id() -> None:
    turns = calls(("add", {"a": 0, "b": 0})), text("good")
    played = await both(lambda log: agent(*turns, tools=[add], middleware=[wrap_model_call(again)]))
    (call,) = [event.tool_call_id for event in played.events if event.type == "TOOL_CALL_START"]
    assert superseded(played.events) == [{"toolCallIds": [call]}]


async def test_nothing_is_superseded_where_nothing_was_shown() -> None:
    async def patient(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    played = await both(lambda log: agent(fail(ProviderDown("gone")), "good", middleware=[wrap_model_call(patient)]))
    assert superseded(played.events) == []
    assert played.result.text == "good"


async def test_a_failed_attempt_that_was_shown_is_superseded() -> None:
    async def patient(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    turns = fail(ProviderDown("gone"), after=["half"]), "good"
    played = await both(lambda log: agent(*turns, middleware=[wrap_model_call(patient)]))
    assert len(superseded(played.events)) == 1
    assert text_of(played.events) == played.result.text == "good"


async def test_a_rewritten_response_supersedes_what_was_shown_and_meets_the_hook_anew() -> None:
    def louder(ctx: Any, event: Any) -> Any:
        return event.replace(delta=event.delta + "!") if event.type == "TEXT_MESSAGE_CONTENT" else None

    rewrite = after_model_call(lambda ctx, request, response: response.with_text("other"))
    played = await both(lambda log: agent(hello(), middleware=[on_chunk(louder), rewrite]))
    assert len(superseded(played.events)) == 1
    assert text_of(played.events) == played.result.text == "other!"


@pytest.mark.parametrize("reason", ["tool_calls", "length"])
async def test_a_rewritten_text_beside_a_call_opens_no_call_twice(reason: str) -> None:
    turn = calls(("add", {"a": 1, "b": 2}), text="look", finish_reason=reason)
    rewrite = after_model_call(lambda ctx, request, response: response.with_text("other") if response.text else None)
    played = await both(lambda log: agent(turn, text("end"), tools=[add], middleware=[rewrite]))
    assert played.types.count("TOOL_CALL_RESULT") == 1
    told = [event.tool_call_id for event in played.events if event.type == "TOOL_CALL_RESULT"]
    assert told == [call.id for message in played.result.messages for call in message.tool_calls]


@pytest.mark.parametrize("way", ["fails", "aborts"])
async def test_of_held_text_nothing_is_sent_when_the_call_does_not_end_well(way: str) -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def arm(ctx: Any, request: Any) -> None:
            if way == "aborts":
                asyncio.get_running_loop().call_later(0.005, ctx.abort)

        turn = fail(ProviderDown("gone"), after=["half"]) if way == "fails" else hang(["half"])
        return agent(turn, middleware=[Holds(log), before_model_call(arm)])

    played = await both(make)
    assert played.error is not None
    assert not [kind for kind in played.types if kind.startswith("TEXT")]
