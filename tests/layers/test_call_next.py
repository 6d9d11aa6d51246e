"""`call_next`: once by default, `again` on purpose, `then` before the tool calls, and tasks it may run in."""

import asyncio
import inspect
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, run_once, stream_once

from interpose import Middleware, NextCalledTwice, ProviderDown, RunAborted
from interpose.testing import ScriptedModel, calls, collect, event_types, fail, hang, text, text_of


async def test_a_second_call_next_is_refused_and_the_model_called_once() -> None:
    async def twice(ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)

    played = await both(lambda log: agent_of(text("a"), text("b"), middleware=[twice]))
    assert isinstance(played.error, NextCalledTwice)
    assert "call_next() was called more than once in the same middleware" in str(played.error)
    assert "await call_next.again(request)" in str(played.error)
    assert len(played.requests) == 1


async def test_a_second_call_next_in_the_tool_seam_is_refused() -> None:
    ran: list[str] = []

    async def once(x: str) -> str:
        """Once."""
        ran.append(x)
        return x

    class Twice(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            await call_next(call)
            return await call_next(call)

    played = await run_once(
        lambda log: agent_of(calls(("once", {"x": "1"})), text("b"), tools=[once], middleware=[Twice()])
    )
    assert isinstance(played.error, NextCalledTwice)
    assert ran == ["1"]


async def test_a_second_call_next_of_wrap_run_is_refused() -> None:
    class Twice(Middleware):
        async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
            await call_next()
            return await call_next()

    played = await both(lambda log: agent_of(text("a"), text("b"), middleware=[Twice()]))
    assert isinstance(played.error, NextCalledTwice)
    assert len(played.requests) == 1


async def test_the_second_call_is_refused_even_if_the_layer_swallows_the_refusal() -> None:
    async def sly(ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        try:
            return await call_next(request)
        except Exception:
            return response

    played = await both(lambda log: agent_of(text("a"), text("b"), middleware=[sly]))
    assert len(played.requests) == 1


async def test_one_call_a_step_is_no_second_call() -> None:
    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request)

    played = await both(lambda log: agent_of(calls(("echo", {"x": "1"})), text("b"), tools=[echo], middleware=[layer]))
    assert played.result.text == "b"


async def test_again_after_a_failure_gives_the_second_answer_and_counts_both() -> None:
    async def retry(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    played = await both(lambda log: agent_of(fail(ProviderDown("down")), text("ok"), middleware=[retry]))
    assert played.result.text == "ok"
    assert len(played.requests) == 2


async def test_again_may_be_the_first_and_any_number() -> None:
    async def many(ctx: Any, request: Any, call_next: Any) -> Any:
        return [await call_next.again(request) for _ in range(3)][-1]

    played = await both(lambda log: agent_of(text("1"), text("2"), text("3"), middleware=[many]))
    assert played.result.text == "3"
    assert text_of(played.events) == "3"


async def test_attempts_are_numbered_from_zero() -> None:
    async def many(ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next.again(request)
        return await call_next.again(request)

    played = await both(lambda log: agent_of(text("1"), text("2"), middleware=[many]))
    assert [request.attempt for request in played.requests] == [0, 1]


async def test_the_second_attempt_inherits_nothing_of_the_first() -> None:
    async def retry(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    async def appends(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request.with_instructions(request.instructions + " [inner]"))

    played = await both(
        lambda log: agent_of(fail(ProviderDown("x")), text("ok"), instructions="base", middleware=[retry, appends])
    )
    assert [request.instructions for request in played.requests] == ["base [inner]", "base [inner]"]
    assert played.agent.instructions == "base"


async def test_then_sees_the_response_before_its_tools_run() -> None:
    def make(log: list[Any]) -> Any:
        async def spy(ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next.then(request, lambda response: log.append(response.finish_reason))

        async def noisy() -> str:
            """Noise."""
            log.append("tool")
            return "x"

        return agent_of(calls("noisy"), text("b"), tools=[noisy], middleware=[spy])

    assert (await both(make)).log == ["tool_calls", "tool", "stop"]


async def test_then_sees_a_made_up_response_once() -> None:
    def make(log: list[Any]) -> Any:
        async def spy(ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next.then(request, lambda response: log.append(response.text))

        async def answers(ctx: Any, request: Any, call_next: Any) -> Any:
            return request.answer("made up")

        return agent_of(middleware=[spy, answers])

    assert (await both(make)).log == ["made up"]


async def test_what_then_returns_is_ignored_and_it_may_be_async() -> None:
    def make(log: list[Any]) -> Any:
        async def callback(response: Any) -> str:
            await asyncio.sleep(0)
            log.append(response.text)
            return "ignored"

        async def spy(ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next.then(request, callback)

        return agent_of(text("one ", chunks=("on", "e ")), middleware=[spy])

    played = await both(make)
    assert played.log == ["one "]
    assert played.result.text == "one "


async def test_a_then_that_raises_fails_the_run_before_the_tool() -> None:
    ran: list[int] = []

    async def noisy() -> str:
        """Noise."""
        ran.append(1)
        return "x"

    def refuse(response: Any) -> None:
        raise PermissionError("no")

    async def spy(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next.then(request, refuse)

    played = await both(lambda log: agent_of(calls("noisy"), text("b"), tools=[noisy], middleware=[spy]))
    assert isinstance(played.error, PermissionError)
    assert ran == []


async def test_call_next_gives_a_coroutine_for_tasks_and_timeouts() -> None:
    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        coroutine = call_next(request)
        assert inspect.iscoroutine(coroutine)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(coroutine)
        return task.result()

    played = await both(lambda log: agent_of(text("x"), middleware=[layer]))
    assert played.result.text == "x"


async def test_a_timeout_of_a_layer_cuts_the_call_and_another_attempt_may_follow() -> None:
    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            async with asyncio.timeout(0.02):
                return await call_next(request)
        except TimeoutError:
            return await call_next.again(request)

    played = await both(lambda log: agent_of(hang(after=["half"]), text("whole"), middleware=[layer]))
    assert played.result.text == "whole"
    assert text_of(played.events) == "whole"


async def test_a_call_next_still_running_when_its_layer_returns_is_cancelled_and_awaited() -> None:
    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        task = asyncio.get_running_loop().create_task(call_next(request))
        await asyncio.sleep(0.01)
        assert not task.done()
        tasks.append(task)
        return request.answer("meanwhile")

    tasks: list[Any] = []
    played = await both(lambda log: agent_of(hang(after=["half"]), middleware=[layer]))
    assert played.result.text == "meanwhile"
    assert all(task.cancelled() for task in tasks)
    assert text_of(played.events) == "meanwhile"


async def test_an_attempt_that_is_cancelled_in_its_task_is_no_failure_to_layers_inside() -> None:
    asked: list[str] = []

    class Hangs(ScriptedModel):
        async def generate(self, request: Any) -> Any:
            asked.append("model")
            await asyncio.sleep(30)

    async def gives_up(ctx: Any, request: Any, call_next: Any) -> Any:
        task = asyncio.create_task(call_next.again(request))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait([task])
        return request.answer("instead")

    async def retries(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except Exception:
            return await call_next.again(request)

    played = await run_once(lambda log: agent_of(model=Hangs(), middleware=[gives_up, retries]))
    assert played.result.text == "instead"
    assert asked == ["model"]


async def test_a_tool_that_is_cancelled_in_its_task_is_no_failure_to_layers_inside() -> None:
    ran: list[str] = []

    async def slow() -> str:
        """Be slow."""
        ran.append("slow")
        await asyncio.sleep(30)
        return "late"

    class GivesUp(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            task = asyncio.create_task(call_next.again(call))
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.wait([task])
            return call.answer("instead")

    class RetriesErrors(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            result = await call_next(call)
            return await call_next.again(call) if result.is_error else result

    layers = [GivesUp(), RetriesErrors()]
    played = await run_once(lambda log: agent_of(calls("slow"), text("x"), tools=[slow], middleware=layers))
    assert played.result.text == "x"
    assert ran == ["slow"]


async def test_of_two_overlapping_attempts_neither_is_shown_and_the_winner_is_narrated() -> None:
    async def race(ctx: Any, request: Any, call_next: Any) -> Any:
        loop = asyncio.get_running_loop()
        attempts = [loop.create_task(call_next.again(request)) for _ in range(2)]
        done, pending = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return done.pop().result()

    async def slow(request: Any) -> Any:
        await asyncio.sleep(0.05)
        return text("slow")

    played = await stream_once(lambda log: agent_of(slow, text("fast", chunks=("fa", "st")), middleware=[race]))
    assert played.result.text == "fast"
    assert text_of(played.events) == "fast"
    assert event_types(played.events).count("TEXT_MESSAGE_START") == 1


async def test_call_next_made_and_never_awaited_leaves_no_warning_behind() -> None:
    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        coroutine = call_next(request)
        coroutine.close()
        return request.answer("mine")

    assert (await both(lambda log: agent_of(middleware=[layer]))).result.text == "mine"


@pytest.mark.parametrize("wrong", [None, "text", 3, {}])
async def test_call_next_with_something_that_is_no_request_is_an_error_that_names_it(wrong: Any) -> None:
    class Wrong(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next(wrong)

    played = await both(lambda log: agent_of(text("x"), middleware=[Wrong()]))
    assert played.requests == []
    assert "Wrong" in str(played.error)
    assert "ModelRequest" in str(played.error)


async def test_an_abort_is_not_swallowed_by_a_layer_that_catches_exceptions() -> None:
    class Aborts(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                ctx.abort("enough")
                return await call_next(request)
            except Exception:
                return request.answer("swallowed")

    played = await both(lambda log: agent_of(text("x"), middleware=[Aborts()]))
    assert isinstance(played.error, RunAborted)
    assert played.error.reason == "enough"


async def test_a_superseded_message_is_closed_and_named() -> None:
    async def again(ctx: Any, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ProviderDown:
            return await call_next.again(request)

    model = ScriptedModel(fail(ProviderDown("x"), after=["Here is"]), text("Here is it"))
    agent = agent_of(model=model, middleware=[again])
    async with agent.stream("go") as run:
        events: list[Any] = await collect(run)
        result = await run.result()
    starts = [event.message_id for event in events if event.type == "TEXT_MESSAGE_START"]
    superseded = [event.value for event in events if event.type == "CUSTOM" and event.name == "interpose.superseded"]
    assert len(set(starts)) == 2
    assert superseded == [{"messageId": starts[0]}]
    assert text_of(events) == result.text == result.messages[-1].text == "Here is it"
    assert result.messages[-1].id == starts[1]
