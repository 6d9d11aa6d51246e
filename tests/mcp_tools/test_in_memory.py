"""Server objects of the SDK in this process, and what servers ask of us: model calls, people, folders."""

import asyncio
import json
from typing import Any

import pytest
from mcp.client.stdio import stdio_client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from tests.mcp_tools.stage import faulty, offered, outcome, playing, results, until

from interpose import Agent, ImagePart, Limits, RunAborted
from interpose.mcp import MCPTools
from interpose.testing import ScriptedModel, calls, collect
from interpose.testing import text as says


def server_of(*functions: Any) -> MCPServer:
    server = MCPServer("inside")
    for function in functions:
        server.add_tool(function)
    return server


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def picture() -> Image:
    return Image(data=b"\x89PNG", format="png")


def fails() -> str:
    raise ValueError("it broke")


async def test_server_object_serves_in_memory() -> None:
    found = await outcome(
        MCPTools(server_of(add, picture, fails)), ("add", {"a": 1, "b": 2}), ("picture", {}), ("fails", {})
    )
    assert found[0].data == {"result": 3}
    assert found[1].data == (ImagePart(data="iVBORw==", media_type="image/png"),)
    assert found[2].is_error
    assert found[2].data == "Error executing tool fails"


async def test_progress_of_a_server_in_memory() -> None:
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        return "done"

    async with playing(("work", {}), tools=MCPTools(server_of(work))) as agent, agent.stream("go") as run:
        events = await collect(run)
    assert [event.value["message"] for event in events if event.type == "CUSTOM"] == ["half"]  # type: ignore[attr-defined]


async def test_abort_cancels_the_tool_in_memory() -> None:
    ends: list[str] = []
    begun = asyncio.Event()

    async def hang() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return "never"

    async with playing(("hang", {}), tools=MCPTools(server_of(hang))) as agent:
        task = asyncio.create_task(agent.run("go"))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: ends == ["cancelled"])
    assert task.cancelled()


async def test_new_tool_in_memory_is_offered_in_the_next_step() -> None:
    server = MCPServer("inside")

    @server.tool()
    async def grow(ctx: Context) -> str:
        server.add_tool(add)
        await ctx.notify_tools_changed()
        return "grown"

    async with Agent(ScriptedModel(calls(("grow", {})), says("done")), middleware=[MCPTools(server)]) as agent:
        await agent.run("go")
    assert [offered(agent, 0), offered(agent, 1)] == [["grow"], ["grow", "add"]]


async def test_function_that_returns_a_transport_is_called_at_each_connection() -> None:
    made: list[Any] = []

    def transport() -> Any:
        from mcp import StdioServerParameters

        command, *arguments = faulty()
        made.append(stdio_client(StdioServerParameters(command=command, args=arguments)))
        return made[-1]

    tools = MCPTools(transport)
    for _ in range(2):
        assert (await outcome(tools, ("echo", {"text": "hi"})))[0].data == "hi"
    assert len(made) == 2


SAMPLE = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Which city?"}}],
        "systemPrompt": "Be brief.",
        "maxTokens": 7,
    },
}


async def test_server_may_call_the_model_where_it_is_allowed() -> None:
    model = ScriptedModel(calls(("ask", SAMPLE)), says("Lyon"), "done")
    async with Agent(model, middleware=[MCPTools(faulty(), sampling=True)]) as agent:
        run = await agent.run("go")
    answer = json.loads(run.steps[0].tool_results[0].data)
    assert (answer["content"]["text"], answer["role"], answer["stopReason"]) == ("Lyon", "assistant", "endTurn")
    asked = model.requests[1]
    assert (asked.messages[0].text, asked.instructions, asked.settings.max_tokens) == ("Which city?", "Be brief.", 7)
    assert asked.call_class == "mcp_sampling"


async def test_abort_ends_the_model_call_of_a_server_too() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    model = ScriptedModel(calls(("ask", SAMPLE)), slow, "done")
    async with (
        Agent(model, middleware=[MCPTools(faulty(), sampling=True)]) as agent,
        agent.stream("go") as run,
    ):
        await began.wait()
        run.abort("enough")
        with pytest.raises(RunAborted):
            await run.result()
        async with asyncio.timeout(20):
            await ended.wait()


async def test_limit_of_the_run_holds_for_the_model_calls_of_a_server() -> None:
    model = ScriptedModel(calls(("ask", SAMPLE)), "never", "never")
    tools = MCPTools(faulty(), sampling=True)
    async with Agent(model, middleware=[tools], limits=Limits(max_model_calls=1)) as agent:
        run = await agent.run("go")
    assert (run.finish_reason, len(model.requests)) == ("limit", 1)


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("sampling/createMessage", SAMPLE["params"], "Sampling not supported"),
        (
            "elicitation/create",
            {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
            "Elicitation not",
        ),
        ("roots/list", {}, "List roots not supported"),
        ("no/such", {}, "Method not found"),
    ],
)
async def test_what_is_not_offered_to_a_server_is_declined(method: str, params: Any, said: str) -> None:
    (result,) = await outcome(MCPTools(faulty()), ("ask", {"method": method, "params": params}))
    assert said in result.data


async def test_two_calls_at_once_leave_the_request_of_a_server_open_to_neither() -> None:
    model = ScriptedModel(calls(("ask", SAMPLE), ("hang", {})), "done")
    async with Agent(model, middleware=[MCPTools(faulty(), sampling=True, timeout_s=1)]) as agent:
        run = await agent.run("go")
    assert "2 calls are under way" in run.steps[0].tool_results[0].data


async def test_several_loops_each_have_a_server_in_memory() -> None:
    tools = MCPTools(server_of(add))
    assert results(await playing(("add", {"a": 1, "b": 1}), tools=tools).run("go")) == [{"result": 2}]
    other = playing(("add", {"a": 2, "b": 2}), tools=tools)
    assert await asyncio.to_thread(lambda: results(asyncio.run(other.run("go")))) == [{"result": 4}]
    await other.aclose()
    await tools.close()
