"""Many runs of one agent at once, from several loops, and for a long time: nothing mixes and nothing grows."""

import asyncio
import gc
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interpose import Agent, Finish, Middleware, Model, ModelChunk, RunAborted, TextDelta, ToolCallDelta, ToolContext
from interpose.testing import text_of


class Echo(Model):
    """A model that asks for the tool `mark` with the user's words, and then says them."""

    provider = "echo"
    name = "echo"
    profile = None

    async def stream(self, request: Any) -> AsyncIterator[ModelChunk]:
        words = request.messages[0].text
        if request.is_first_step:
            yield ToolCallDelta(0, f"call {words}", "mark", f'{{"words": "{words}"}}')
            await asyncio.sleep(0)
            yield Finish("tool_calls")
        else:
            await asyncio.sleep(0)
            assert all(words in message.text for message in request.messages if message.role != "assistant")
            yield TextDelta("said ")
            yield TextDelta(words)
            yield Finish("stop")


async def mark(ctx: ToolContext[str], words: str) -> str:
    """Return the words, if they are the caller's."""
    await asyncio.sleep(0)
    assert ctx.context == words
    return f"marked {words}"


class Marks(Middleware):
    """Keeps the words of each run in its own state, and checks them at every seam."""

    def __init__(self) -> None:
        self.finished: list[str] = []

    def on_start(self, ctx: Any) -> None:
        ctx.private(self)["words"] = ctx.state["words"] = ctx.context

    def check(self, ctx: Any, said: str) -> None:
        words = ctx.context
        assert ctx.private(self)["words"] == ctx.state["words"] == words
        assert words in said

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        self.check(ctx, request.messages[0].text)
        response = await call_next(request)
        self.check(ctx, response.text if response.text else response.tool_calls[0].args["words"])
        return response

    def on_chunk(self, ctx: Any, event: Any) -> Any:
        if event.type == "TEXT_MESSAGE_CONTENT" and event.delta != "said ":
            self.check(ctx, event.delta)
            return event.replace(delta=event.delta + "!")
        return None

    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
        self.check(ctx, result.data)

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.check(ctx, info.text)
        self.finished.append(ctx.context)


async def one_of_many(agent: Agent[Any], number: int) -> None:
    words = f"w{number}w"
    if number % 2:
        result = await agent.run(words, context=words)
    else:
        async with agent.stream(words, context=words) as run:
            events = [event async for event in run]
            result = await run.result()
        assert text_of(events) == f"said {words}!"
    assert result.text == f"said {words}!"
    assert [message.text for message in result.messages] == [words, "", f"marked {words}", f"said {words}!"]


def marked_agent() -> tuple[Agent[Any], Marks]:
    marks = Marks()
    return Agent(Echo(), tools=[mark], middleware=[marks], post_model_hooks=()), marks


async def test_a_thousand_runs_at_once_do_not_mix() -> None:
    agent, marks = marked_agent()
    await asyncio.gather(*[one_of_many(agent, number) for number in range(1000)])
    assert sorted(marks.finished) == sorted(f"w{number}w" for number in range(1000))
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_runs_from_four_threads_with_loops_of_their_own_do_not_mix() -> None:
    agent, marks = marked_agent()
    failures: list[BaseException] = []

    async def many(first: int) -> None:
        for start in range(first, first + 250, 50):
            await asyncio.gather(*[one_of_many(agent, number) for number in range(start, start + 50)])

    def work(first: int) -> None:
        try:
            asyncio.run(many(first))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 1000, 250)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(marks.finished)) == len(marks.finished) == 1000


class Short(Model):
    """A model that says one word, fails, or waits, as the user says."""

    provider = "short"
    name = "short"
    profile = None

    async def stream(self, request: Any) -> AsyncIterator[ModelChunk]:
        yield TextDelta("word")
        match request.messages[0].text:
            case "fail":
                raise ValueError("wanted")
            case "wait":
                await asyncio.get_running_loop().create_future()
        yield Finish("stop")


class Stops(Middleware):
    def on_chunk(self, ctx: Any, event: Any) -> None:
        if ctx.context == "abort" and event.type == "TEXT_MESSAGE_CONTENT":
            ctx.abort("wanted")


async def ends_somehow(agent: Agent[Any], number: int) -> None:
    """Run to one of the ways in which a run can end."""
    match number % 20:
        case 0:
            try:
                await agent.run("fail")
            except ValueError:
                return
            raise AssertionError("the run did not fail")
        case 1:
            try:
                await agent.run("Go", context="abort")
            except RunAborted:
                return
            raise AssertionError("the run was not aborted")
        case 2:
            async with agent.stream("wait") as run:
                async for event in run:
                    if event.type == "TEXT_MESSAGE_CONTENT":
                        break
        case 3:
            async with agent.stream("Go", thread_id=f"thread {number}") as run:
                async for _ in run:
                    pass
        case 4:
            await agent.run("Go", middleware=[Middleware()])
        case _:
            await agent.run("Go")


WARM, ALL, TRACED = 5_000, 20_000, 2_000
GROWTH_BLOCKS = 1_500
"""A tenth of a block of memory for each of 15,000 runs; what is kept of a run is at least one."""
GROWTH_BYTES = 60_000
"""30 bytes for each of 2,000 runs; what is kept of a run is more."""


@pytest.mark.timeout(120)
async def test_nothing_grows_with_the_number_of_runs() -> None:
    agent = Agent(Short(), middleware=[Stops()], post_model_hooks=())
    for number in range(WARM):
        await ends_somehow(agent, number)
    gc.collect()
    blocks = sys.getallocatedblocks()
    for number in range(WARM, ALL):
        await ends_somehow(agent, number)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < GROWTH_BLOCKS
    tracemalloc.start()
    try:
        for number in range(ALL, ALL + TRACED):
            await ends_somehow(agent, number)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < GROWTH_BYTES
    assert asyncio.all_tasks() == {asyncio.current_task()}
