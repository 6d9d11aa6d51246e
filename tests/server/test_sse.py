"""`sse(run)`, for apps of one's own."""

import asyncio
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from tests.server.test_reconnect import Gate, waiting

from interpose import Agent, on_abort, tool
from interpose.server import ShownError, sse
from interpose.server.http import Route, Starlette
from interpose.testing import ScriptedModel, calls, fail, text


async def test_streamed_run_becomes_frames() -> None:
    found = [one async for one in sse(Agent(ScriptedModel(text(chunks=["a", "b"]))).stream("Hi"))]
    assert [one.partition(b"\n")[0] for one in found] == [b"id: %d" % n for n in range(len(found))]
    assert found[-1].startswith(b'id: 7\ndata: {"type":"RUN_FINISHED"')
    assert all(one.endswith(b"\n\n") for one in found)


async def test_started_run_is_read_and_goes_on_without_its_reader() -> None:
    gate = Gate()
    async with waiting(gate) as agent:
        run = await agent.start("Hi")
        async with aclosing(sse(run)) as frames:
            async for one in frames:
                if b"TOOL_CALL_END" in one:
                    break
        gate.opened.set()
        assert (await run.result()).text == "Done at last."
        again = [one async for one in sse(agent.attach(run.run_id, after=3))]
    assert again[0].startswith(b"id: 4\n")


async def test_leaving_ends_a_streamed_run() -> None:
    gate, ended = Gate(), asyncio.Event()

    @on_abort
    def note(ctx: Any, info: Any) -> None:
        ended.set()

    agent = waiting(gate).copy(middleware=[note])
    async with aclosing(sse(agent.stream("Hi"))) as frames:
        async for one in frames:
            if b"TOOL_CALL_END" in one:
                break
    assert ended.is_set()


async def test_failure_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(ScriptedModel(fail(RuntimeError("key sk-1"), after=["Half"])))
    found = [one async for one in sse(agent.stream("Hi"))]
    assert b"RUN_ERROR" in found[-1]
    assert b"sk-1" not in b"".join(found)
    assert "sk-1" in caplog.text


async def test_what_a_failed_tool_says_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def break_in() -> str:
        """Fail."""
        raise RuntimeError("key sk-1")

    agent = Agent(ScriptedModel(calls(("break_in", {})), "It failed."), tools=[break_in])
    run = await agent.start("Hi", run_id="r1")
    found = b"".join([one async for one in sse(run)])
    assert b"the tool failed (error id err_" in found
    assert b"sk-1" not in found
    assert "sk-1" in caplog.text
    assert b"".join([one async for one in sse(agent.attach("r1"))]) == found


async def test_text_of_a_failure_can_be_made() -> None:
    def show(error: ShownError) -> str:
        return f"{error.kind} {error.text}"

    found = [one async for one in sse(Agent(ScriptedModel(fail(RuntimeError("oh")))).stream("Hi"), show_error=show)]
    assert b'"message":"run oh"' in found[-1]


async def test_text_of_a_failure_that_cannot_be_made_is_the_general_one() -> None:
    def show(error: ShownError) -> str:
        raise KeyError("sk-1")

    found = [one async for one in sse(Agent(ScriptedModel(fail(RuntimeError("oh")))).stream("Hi"), show_error=show)]
    assert b"the run failed (error id err_" in found[-1]


async def test_quiet_run_has_heartbeats() -> None:
    gate = Gate()
    async with aclosing(sse(waiting(gate).stream("Hi"), heartbeat_s=0.02)) as frames:
        beats = 0
        async for one in frames:
            beats += one.startswith(b":")
            if beats == 3:
                gate.opened.set()
    assert beats >= 3


async def test_starlette_streams_it() -> None:
    from starlette.responses import StreamingResponse

    agent = Agent(ScriptedModel("Hello."))

    async def chat(_: Any) -> Any:
        return StreamingResponse(sse(agent.stream("Hi")), media_type="text/event-stream")

    app = Starlette(routes=[Route("/chat", chat)])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as client:
        answer = await client.get("/chat")
    assert "Hello." in answer.text
