"""Callers that go while something is under way: the run ends once, and nothing is left."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import agent, ending_of, hello

from interpose import Agent, Middleware, RunAborted, on_start
from interpose.testing import calls, event_types, hang, text


def ends(one: Agent[Any]) -> list[list[str]]:
    return list(ending_of(one).called.values())


def nothing_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


class Place:
    """Somewhere in a run where it waits, and tells that it got there and that it was cancelled."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.cancelled = 0

    async def wait(self) -> None:
        self.reached.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def waiting_in(where: str, place: Place) -> Agent[Any]:
    async def turn(request: Any) -> Any:
        await place.wait()

    async def slow() -> None:
        """Wait."""
        await place.wait()

    if where == "model":
        return agent(turn)
    if where == "tool":
        return agent(calls("slow", "slow"), tools=[slow])
    inner = agent(turn)
    return agent(calls(("ask", {"prompt": "Well?"})), tools=[inner.as_tool("ask", "Ask.")])


@pytest.mark.parametrize("where", ["model", "tool", "nested"])
@pytest.mark.parametrize("how", ["run", "stream"])
async def test_leaving_cancels_what_is_under_way(where: str, how: str) -> None:
    place = Place()
    one = waiting_in(where, place)
    if how == "run":
        task = asyncio.create_task(one.run("Go"))
        await place.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with one.stream("Go"):
            await place.reached.wait()
    assert place.cancelled == (2 if where == "tool" else 1)
    assert ends(one) == [["on_abort"]]
    assert nothing_left()


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_a_caller_that_is_cancelled_again_while_the_run_ends_leaves_nothing(how: str) -> None:
    log: list[str] = []

    class Slow(Middleware):
        async def on_abort(self, ctx: Any, info: Any) -> None:
            await asyncio.sleep(0.02)
            log.append("aborted")

    place = Place()

    async def turn(request: Any) -> Any:
        await place.wait()

    one = agent(turn, middleware=[Slow()])

    async def call() -> None:
        if how == "run":
            await one.run("Go")
        else:
            async with one.stream("Go") as run:
                async for _ in run:
                    pass

    task = asyncio.create_task(call())
    await place.reached.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.002)
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.05)
    assert log == ["aborted"]
    assert ends(one) == [["on_abort"]]
    assert nothing_left()


async def test_a_timeout_round_a_run_aborts_it() -> None:
    one = agent(hang())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await one.run("Go")
    assert ends(one) == [["on_abort"]]
    assert nothing_left()


async def test_the_result_can_be_had_without_reading() -> None:
    one = agent(text("abc", chunks="abc" * 1))
    async with one.stream("Go") as run:
        assert (await run.result()).text == "abc"
    assert ends(one) == [["on_finish"]]


async def test_the_result_of_a_run_longer_than_the_buffer_can_be_had_without_reading() -> None:
    one = agent(text(chunks=["x"] * 500))
    async with one.stream("Go") as run:
        assert len((await run.result()).text) == 500
    assert ends(one) == [["on_finish"]]


async def test_reading_may_go_on_after_a_break() -> None:
    one = agent(hello())
    types: list[str] = []
    async with one.stream("Go") as run:
        async for event in run:
            types.append(event.type)
            if event.type == "TEXT_MESSAGE_START":
                break
        async for event in run:
            types.append(event.type)
    assert types[-1] == "RUN_FINISHED"
    assert len(types) == 8
    assert ends(one) == [["on_finish"]]


async def test_a_started_run_outlives_its_reader() -> None:
    async def turn(request: Any) -> str:
        await asyncio.sleep(0.01)
        return "late"

    one = agent(turn)
    run = await one.start("Go")
    async with run:
        async for event in run:
            if event.type == "RUN_STARTED":
                break
    assert (await run.result()).text == "late"
    assert ends(one) == [["on_finish"]]


async def test_a_started_run_can_be_read_on_from_a_number() -> None:
    one = agent(hello())
    run = await one.start("Go")
    await run.result()
    async with one.attach(run.run_id, after=2) as again:
        events = [event async for event in again]
    assert [event.seq for event in events] == [3, 4, 5, 6, 7]
    assert event_types(events)[-1] == "RUN_FINISHED"


async def test_closing_the_agent_ends_its_started_runs() -> None:
    one = agent(hang(["so"]))
    run = await one.start("Go")
    await asyncio.sleep(0.005)
    await one.aclose()
    with pytest.raises(RunAborted, match="closed"):
        await run.result()
    assert ends(one) == [["on_abort"]]
    assert nothing_left()


async def test_entered_managers_are_left_when_the_caller_leaves() -> None:
    log: list[str] = []

    class Held:
        async def __aenter__(self) -> None:
            log.append("in")

        async def __aexit__(self, *error: Any) -> None:
            log.append("out")

    one = agent(hang(["so"]), middleware=[on_start(lambda ctx: ctx.enter(Held()))])
    async with one.stream("Go") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
    assert log == ["in", "out"]
    assert nothing_left()
