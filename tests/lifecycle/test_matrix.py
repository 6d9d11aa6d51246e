"""Every hook, returning nothing, raising, aborting, or reached when the caller leaves: one end, nothing left over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.lifecycle.play import Endings, add, agent, assert_answered, ending_of, play

from interpose import Agent, Middleware, RunAborted, Usage
from interpose.testing import assert_events_valid, calls, fail, text

Act = Callable[[Any], Awaitable[None]]

PLAIN = {
    "setup": 0,
    "on_config": 1,
    "on_start": 0,
    "on_step": 1,
    "on_interrupt_boundary": 0,
    "before_model_call": 1,
    "on_chunk": 1,
    "after_model_call": 2,
    "on_usage": 1,
    "before_tool_call": 1,
    "after_tool_call": 2,
    "on_tool_phase_complete": 1,
    "on_should_continue": 1,
    "on_structured_output_config": 1,
    "on_finish": 1,
    "on_node": 1,
    "on_abort": 1,
    "on_error": 1,
}
WRAPS = [f"wrap_{seam} {side}" for seam in ("run", "model_call", "tool_call") for side in ("in", "out")]
PLACES = [*PLAIN, *WRAPS]
ENDS = ("on_finish", "on_abort", "on_error")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Trouble(Exception):
    """Raised by a hook of these tests."""


def acts_at(place: str, act: Act, nth: int = 0) -> Middleware:
    """Return a middleware that does *act* in the hook of *place*, the *nth* time that it is called."""
    hook, _, side = place.partition(" ")
    count = iter(range(10**6))

    async def maybe(ctx: Any) -> None:
        if next(count) == nth:
            await act(ctx)

    async def none(self: Any, ctx: Any) -> None:
        await maybe(ctx)

    async def one(self: Any, ctx: Any, given: Any) -> None:
        await maybe(ctx)

    async def two(self: Any, ctx: Any, given: Any, came: Any) -> None:
        await maybe(ctx)

    async def around(ctx: Any, inner: Any) -> Any:
        if side == "in":
            await maybe(ctx)
        came = await inner()
        if side == "out":
            await maybe(ctx)
        return came

    async def wrap(self: Any, ctx: Any, given: Any, call_next: Any) -> Any:
        return await around(ctx, lambda: call_next(given))

    async def wrap_run(self: Any, ctx: Any, call_next: Any) -> Any:
        return await around(ctx, call_next)

    method: Any = (none, one, two)[PLAIN[hook]] if hook in PLAIN else wrap_run if hook == "wrap_run" else wrap
    made: Middleware = type("Acts", (Middleware,), {hook: method})()
    return made


def rich(place: str, acting: Middleware) -> Agent[Any]:
    """Return an agent whose run meets every seam; where *place* is the hook of a bad end, one that ends so."""
    used = Usage(input_tokens=1, output_tokens=1)
    last: Any = text('{"n":3}', usage=used)
    ending: list[Any] = []
    if place == "on_error":
        last = fail(ValueError("wanted"))
    if place == "on_abort":
        ending = [acts_at("on_structured_output_config", abort)]
    first = calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}), text="let me see", usage=used)
    second = text("It is 3.", chunks=("It ", "is ", "3."), reasoning="hm", usage=used)
    return agent(first, second, last, tools=[add], output=SCHEMA, middleware=[acting, *ending, Endings()])


async def nothing(ctx: Any) -> None:
    pass


async def explode(ctx: Any) -> None:
    raise Trouble("here")


async def abort(ctx: Any) -> None:
    ctx.abort("here")


def endings(one: Agent[Any]) -> list[str]:
    """Return the one terminal hook of the run, which outermost and innermost middleware agree on."""
    inner = one.middleware[-1]
    assert isinstance(inner, Endings)
    outer = ending_of(one)
    assert list(inner.called.values()) == list(outer.called.values())
    ((name,),) = outer.called.values()
    return [name]


def natural(place: str) -> str:
    return place if place in ENDS else "on_finish"


@pytest.mark.parametrize("how", ["run", "stream"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_hook_that_returns_nothing_changes_no_end(place: str, how: str) -> None:
    met: list[str] = []

    async def note(ctx: Any) -> None:
        met.append(place)

    played = await play(how, rich(place, acts_at(place, note)))
    assert met == [place]
    assert endings(played.agent) == [natural(place)]
    if natural(place) == "on_finish":
        assert played.result.output == {"n": 3}


@pytest.mark.parametrize("how", ["run", "stream"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_hook_that_raises_fails_the_run_unless_it_is_isolated(place: str, how: str) -> None:
    played = await play(how, rich(place, acts_at(place, explode)))
    if place == "on_node":
        assert played.result.output == {"n": 3}
    elif place == "on_abort":
        assert isinstance(played.error, RunAborted)
    elif place == "on_error":
        assert repr(played.error) == "ValueError('wanted')"
    else:
        assert isinstance(played.error, Trouble)
    isolated = ("on_node", *ENDS)
    assert endings(played.agent) == ([natural(place)] if place in isolated else ["on_error"])
    assert_answered(played.partial.messages)


@pytest.mark.parametrize("how", ["run", "stream"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_hook_that_aborts_ends_the_run_as_aborted(place: str, how: str) -> None:
    played = await play(how, rich(place, acts_at(place, abort)))
    if place in ENDS:  # too late: the end is known
        assert endings(played.agent) == [place]
        return
    assert isinstance(played.error, RunAborted)
    assert played.error.reason == "here"
    assert endings(played.agent) == ["on_abort"]
    assert_answered(played.partial.messages)
    if how == "stream":
        assert (played.types[-1], played.events[-1].code) == ("RUN_ERROR", "aborted")


@pytest.mark.parametrize("how", ["run", "stream"])
@pytest.mark.parametrize("what", ["raises", "aborts"])
@pytest.mark.parametrize("place", PLAIN)
async def test_a_plain_hook_may_fail_or_abort_as_an_async_one_does(place: str, what: str, how: str) -> None:
    def act(self: Any, ctx: Any, *more: Any) -> None:
        if what == "aborts":
            ctx.abort("here")
        else:
            raise Trouble("here")

    signatures: tuple[Any, ...] = (
        lambda self, ctx: act(self, ctx),
        lambda self, ctx, given: act(self, ctx),
        lambda self, ctx, given, came: act(self, ctx),
    )
    acting = type("Acts", (Middleware,), {place: signatures[PLAIN[place]]})()
    played = await play(how, rich(place, acting))
    if place in ENDS:
        assert endings(played.agent) == [place]
    elif place == "on_node" and what == "raises":
        assert endings(played.agent) == ["on_finish"]
    else:
        assert isinstance(played.error, RunAborted if what == "aborts" else Trouble)
        assert endings(played.agent) == ["on_abort" if what == "aborts" else "on_error"]


class Reached:
    """Tells when a hook is reached, and keeps it waiting there."""

    def __init__(self, wait_s: float) -> None:
        self.event = asyncio.Event()
        self.wait_s = wait_s

    async def __call__(self, ctx: Any) -> None:
        self.event.set()
        await asyncio.sleep(self.wait_s)


async def leave_run(one: Agent[Any], reached: Reached) -> None:
    task = asyncio.create_task(one.run("Go"))
    await asyncio.wait_for(reached.event.wait(), 5)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        assert task.exception() is None or one.middleware, task.exception()


async def leave_stream(one: Agent[Any], reached: Reached) -> None:
    async def read() -> None:
        async for event in run:
            events.append(event)

    events: list[Any] = []
    async with one.stream("Go") as run:
        reader = asyncio.create_task(read())
        await asyncio.wait_for(reached.event.wait(), 5)
        reader.cancel()
        await asyncio.wait([reader])
    if events and events[-1].type in ("RUN_FINISHED", "RUN_ERROR"):
        assert_events_valid(events)


@pytest.mark.parametrize("how", ["run", "stream"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_caller_that_leaves_while_a_hook_waits_ends_the_run_once(place: str, how: str) -> None:
    reached = Reached(0.01 if place in ENDS else 30)
    one = rich(place, acts_at(place, reached))
    async with asyncio.timeout(5):
        await (leave_run if how == "run" else leave_stream)(one, reached)
    assert endings(one) == [place] if place in ENDS else ["on_abort"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    model: Any = one.model
    assert model.open_streams == 0


EVENTS = 34
"""No fewer than the events of the rich run; what lies beyond its end changes nothing."""


@pytest.mark.parametrize("how", ["run", "stream"])
@pytest.mark.parametrize("act", [explode, abort], ids=["raises", "aborts"])
@pytest.mark.parametrize("nth", range(EVENTS))
async def test_a_chunk_hook_may_fail_or_abort_at_any_event(nth: int, act: Act, how: str) -> None:
    played = await play(how, rich("on_chunk", acts_at("on_chunk", act, nth)))
    if played.error is not None:
        assert isinstance(played.error, Trouble if act is explode else RunAborted)
        assert endings(played.agent) == ["on_error" if act is explode else "on_abort"]
        assert_answered(played.partial.messages)
    else:
        assert endings(played.agent) == ["on_finish"]


@pytest.mark.parametrize("nth", range(EVENTS))
async def test_a_reader_may_leave_at_any_event(nth: int) -> None:
    one = rich("on_chunk", Middleware())
    taken = 0
    last = ""
    async with one.stream("Go") as run:
        async for event in run:
            last = event.type
            taken += 1
            if taken > nth:
                break
    assert endings(one) == ["on_finish" if last == "RUN_FINISHED" else "on_abort"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_rich_run_has_no_more_events_than_are_tried() -> None:
    played = await play("stream", rich("on_chunk", Middleware()))
    assert len(played.events) <= EVENTS
