"""`RetryModelCalls` and `Fallback`: which failures are tried again, when, and on which model."""

import asyncio
import traceback
from typing import Any

import pytest

from interpose import (
    Agent,
    AuthFailed,
    Clock,
    CustomEvent,
    Limits,
    Middleware,
    ModelRequest,
    Pause,
    ProviderDown,
    RateLimited,
    RunContext,
)
from interpose.builtin import Fallback, RetryModelCalls
from interpose.testing import FakeClock, ScriptedModel, assert_events_valid, collect, fail, text, text_of


def agent(*turns: Any, clock: FakeClock | None = None, middleware: Any = None, **options: Any) -> Agent:
    mine = [RetryModelCalls(**options)] if middleware is None else middleware
    clock = clock or FakeClock(auto=True)
    return Agent(ScriptedModel(*turns), middleware=mine, clock=clock, post_model_hooks=())


# --- trying again ---


async def test_retryable_failure_is_tried_again() -> None:
    result = await agent(fail(ProviderDown("down")), fail(RateLimited("slow")), text("ok")).run("go")
    assert result.text == "ok"


async def test_last_failure_is_raised_after_all_attempts() -> None:
    turns = [fail(ProviderDown(str(n))) for n in range(3)]
    with pytest.raises(ProviderDown, match="2"):
        await agent(*turns, text("never")).run("go")


@pytest.mark.parametrize("error", [AuthFailed("no key"), ValueError("bug")])
async def test_other_failures_are_raised_at_once(error: Exception) -> None:
    clock = FakeClock(auto=True)
    with pytest.raises(type(error)) as caught:
        await agent(fail(error), text("never"), clock=clock).run("go")
    assert (caught.value, clock.sleeps) == (error, [])


async def test_waits_grow_from_half_a_second_by_doubling() -> None:
    clock = FakeClock(auto=True)
    await agent(*[fail(ProviderDown("x"))] * 4, text("ok"), clock=clock, attempts=5).run("go")
    for asked, expected in zip(clock.sleeps, (0.5, 1, 2, 4), strict=True):
        assert expected <= asked <= 1.2 * expected


@pytest.mark.parametrize(
    ("hint", "least"),
    [(5.0, 5.0), (60.0, 60.0), (float("nan"), 0.5), (-3.0, 0.5), (None, 0.5)],
)
async def test_providers_hint_is_honoured_and_garbage_is_not(hint: float | None, least: float) -> None:
    clock = FakeClock(auto=True)
    await agent(fail(RateLimited("slow", retry_after_s=hint)), text("ok"), clock=clock).run("go")
    assert least <= clock.sleeps[0] <= 1.2 * least


async def test_hint_above_the_cap_fails_at_once_and_is_shown() -> None:
    clock = FakeClock(auto=True)
    with pytest.raises(RateLimited) as caught:
        await agent(fail(RateLimited("slow", retry_after_s=3600)), clock=clock).run("go")
    assert clock.sleeps == []
    assert "3600 s" in "".join(traceback.format_exception(caught.value))


async def test_waits_of_many_runs_differ() -> None:
    clock = FakeClock()
    limited = [fail(RateLimited("slow", retry_after_s=5))] * 20
    mine = agent(*limited, *[text("ok")] * 20, clock=clock)
    runs = [asyncio.create_task(mine.run("go")) for _ in range(20)]
    await asyncio.sleep(0.05)
    await clock.advance(6)
    assert {run.result().text for run in runs} == {"ok"}
    assert len(set(clock.sleeps)) == 20


async def test_cancelling_during_the_wait_takes_effect_at_once() -> None:
    mine = agent(fail(ProviderDown("x")), text("never")).copy(clock=Clock())
    run = asyncio.create_task(mine.run("go"))
    await asyncio.sleep(0.02)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 10)


async def test_every_attempt_counts_for_limits() -> None:
    mine = agent(fail(ProviderDown("x")), text("never")).copy(limits=Limits(max_model_calls=1))
    assert (await mine.run("go")).finish_reason == "limit"


async def test_pause_is_no_failure() -> None:
    class Gate(Middleware):
        entered = 0

        def before_model_call(self, ctx: RunContext, request: ModelRequest) -> Pause:
            self.entered += 1
            return Pause("ask")

    gate, clock = Gate(), FakeClock(auto=True)
    mine = agent(middleware=[RetryModelCalls(), Fallback("b"), gate], clock=clock)
    result = await mine.run("go")
    assert (result.status, len(result.interrupts), gate.entered, clock.sleeps) == ("interrupted", 1, 1, [])
    assert len(result.messages) == 1


async def test_text_of_the_failed_attempt_is_superseded_in_a_stream() -> None:
    mine = agent(fail(ProviderDown("x"), after=["Here is"]), text("Here is it"))
    async with mine.stream("go") as run:
        events = await collect(run)
        result = await run.result()
    assert (text_of(events), result.text) == ("Here is it", "Here is it")
    assert [event.name for event in events if isinstance(event, CustomEvent)] == ["interpose.superseded"]
    assert_events_valid(events)


@pytest.mark.parametrize("options", [{"attempts": 0}, {"max_wait_s": -1}, {"max_wait_s": float("nan")}], ids=str)
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        RetryModelCalls(**options)


# --- another model ---


async def test_next_model_answers_where_the_first_fails() -> None:
    mine = agent(fail(AuthFailed("no")), text("ok"), middleware=[Fallback("b", "c")])
    result = await mine.run("go")
    assert (result.text, result.steps[0].response.model) == ("ok", "b")


async def test_model_of_another_provider_is_asked() -> None:
    other = ScriptedModel(text("ok"), provider="elsewhere", model="big")
    result = await agent(fail(ProviderDown("down")), middleware=[Fallback(other)]).run("go")
    assert (result.text, result.steps[0].response.provider, len(other.requests)) == ("ok", "elsewhere", 1)


async def test_first_error_is_raised_with_the_others_as_notes() -> None:
    first = ProviderDown("first")
    mine = agent(fail(first), fail(AuthFailed("second")), fail(RateLimited("third")), middleware=[Fallback("b", "c")])
    with pytest.raises(ProviderDown) as caught:
        await mine.run("go")
    assert caught.value is first
    assert [note.split("failed: ")[1] for note in first.__notes__] == ["AuthFailed: second", "RateLimited: third"]


async def test_failure_that_is_no_providers_is_raised_at_once() -> None:
    mine = agent(fail(ValueError("bug")), text("never"), middleware=[Fallback("b")])
    with pytest.raises(ValueError, match="bug"):
        await mine.run("go")


async def test_each_model_is_tried_again_by_a_retry_inside() -> None:
    down = [fail(ProviderDown("x"))] * 2
    mine = agent(*down, *down[:1], text("ok"), middleware=[Fallback("b"), RetryModelCalls(attempts=2)])
    result = await mine.run("go")
    assert (result.text, result.steps[0].response.model) == ("ok", "b")


async def test_stream_shows_one_start_where_the_first_failed_before_saying_anything() -> None:
    mine = agent(fail(ProviderDown("x")), text("ok"), middleware=[Fallback("b")])
    async with mine.stream("go") as run:
        events = await collect(run)
    assert [event.type for event in events].count("TEXT_MESSAGE_START") == 1
    assert not [event for event in events if isinstance(event, CustomEvent)]


@pytest.mark.parametrize("models", [(), (3,)], ids=["none", "a number"])
def test_models_that_are_none_are_refused(models: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="model"):
        Fallback(*models)
