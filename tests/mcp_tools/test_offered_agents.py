"""Agents offered as a tool server: to the SDK's own client, to that of the TypeScript SDK, and to other agents."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from tests.mcp_tools.offered import agent, second, typed
from tests.mcp_tools.stage import NODE_MODULES, outcome, until

from interpose import Agent, ConfigurationError
from interpose.mcp import MCPTools, agent_server, serve_http
from interpose.testing import ScriptedModel

FILE = Path(__file__).with_name("offered.py")
COMMAND = [sys.executable, "-m", "interpose.cli", "mcp", f"{FILE}:agent"]
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


# In memory.


async def ask(prompt: Any, offered: Any = agent, name: str = "helper", mode: str = "auto", **options: Any) -> Any:
    async with Client(agent_server(offered), mode=mode) as client:
        return await client.call_tool(name, {"prompt": prompt}, **options)


async def test_each_agent_is_a_tool_with_a_prompt() -> None:
    async with Client(agent_server([agent, second], descriptions={"helper": "Helps."})) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["helper", "the_second"]
    assert tools[0].description == "Helps."
    assert tools[0].input_schema["required"] == ["prompt"]


@MODES
async def test_answer_is_the_text(mode: str) -> None:
    result = await ask("hello", mode=mode)
    assert (text_of(result), result.is_error) == ("you said: hello", False)


@MODES
async def test_progress_tells_what_the_run_does(mode: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, message))

    await ask("wait", mode=mode, progress_callback=progress)
    lines = ["step 1", "calls wait", "has the result of wait", "step 2", "writes (10 characters)"]
    assert told == [(number + 1.0, line) for number, line in enumerate(lines)]


async def test_structured_output_is_structured_content() -> None:
    result = await ask("which?", typed, "typed")
    assert result.structured_content == {"city": "Lyon"}
    assert json.loads(text_of(result)) == {"city": "Lyon"}


ERRORS = [
    ("fail", "the run failed with ValueError; the server's log has more"),
    ("pay", "the run waits for a person, who cannot be asked from here"),
    ("for ever", "the run was ended by a limit"),
    ("", "you said: "),
]


@pytest.mark.parametrize(("prompt", "said"), ERRORS, ids=["error", "pause", "limit", "empty"])
async def test_what_ends_a_run_badly_is_an_error_result(prompt: str, said: str) -> None:
    result = await ask(prompt)
    assert text_of(result).startswith(said)
    assert result.is_error == (prompt != "")
    assert "hunter2" not in text_of(result)


@pytest.mark.parametrize("arguments", [{}, {"prompt": 1}, {"prompt": "x", "more": 1}, {"prompt": None}])
async def test_wrong_arguments_are_an_error_result(arguments: Any) -> None:
    async with Client(agent_server(agent)) as client:
        result = await client.call_tool("helper", arguments)
    assert result.is_error
    assert "helper takes one argument, 'prompt', a text" in text_of(result)


async def test_unknown_tool_names_those_that_are_there() -> None:
    result = await ask("hi", [agent, second], "nobody")
    assert result.is_error
    assert "there is no tool 'nobody'; there are: helper, the_second" in text_of(result)


async def test_many_calls_at_once_are_not_mixed() -> None:
    async with Client(agent_server(agent)) as client:
        found = await asyncio.gather(*[client.call_tool("helper", {"prompt": str(n)}) for n in range(50)])
    assert [text_of(one) for one in found] == [f"you said: {n}" for n in range(50)]


WRONG: list[tuple[Any, str]] = [
    ([], "there is no agent to offer"),
    (["x"], "expected an Agent, got str"),
    ([agent, agent.copy()], "two agents are called 'helper'"),
]


@pytest.mark.parametrize(("offered", "said"), WRONG, ids=[one[1] for one in WRONG])
def test_what_cannot_be_offered_is_refused(offered: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        agent_server(offered)


async def test_agent_offered_to_another_agent() -> None:
    (result,) = await outcome(MCPTools(agent_server(second)), ("the_second", {"prompt": "who?"}))
    assert result.data == "I am the second"


# As a process.


def parameters(diary: Path | None = None, *more: str) -> StdioServerParameters:
    env = {"DIARY": str(diary)} if diary is not None else None
    return StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *more], env=env)


@MODES
async def test_process_answers_and_prints_stay_out_of_the_way(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Client(parameters(None, f"{FILE}:second"), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["helper", "the_second"]
        assert text_of(await client.call_tool("helper", {"prompt": "wait"})) == "done: wait"
        assert (await client.call_tool("helper", {"prompt": "fail"})).is_error
    assert "Failed to parse" not in caplog.text


@MODES
async def test_cancelled_call_aborts_the_run(mode: str, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    async with Client(parameters(diary), mode=mode) as client:
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("helper", {"prompt": "hang"}, read_timeout_seconds=0.5)
        await until(lambda: diary.exists() and "aborted: cancelled by the client" in diary.read_text())
        assert text_of(await client.call_tool("helper", {"prompt": "hi"})) == "you said: hi"
    assert diary.read_text().splitlines()[-1] == "closed"


async def test_half_characters_of_a_client_are_replaced() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "helper", "arguments": {"prompt": "cut \ud83d, 👍"}}},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
    assert b"\\ud83d," in lines[2]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(lines))
    async with asyncio.timeout(20):
        answers = [json.loads(await process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        await process.wait()
    assert answers[1]["result"]["content"][0]["text"] == "you said: cut \ufffd, 👍"


@pytest.mark.parametrize("how", ["eof", "interrupt", "terminate"])
async def test_process_leaves_at_once_and_closes_the_agent(how: str, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, "DIARY": str(diary)}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    call = {"name": "helper", "arguments": {"prompt": "hang"}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {**call, "_meta": {"progressToken": 2}}},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    assert b'"serverInfo"' in await process.stdout.readline()
    while b"calls wait" not in await process.stdout.readline():
        pass
    if how == "eof":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGINT if how == "interrupt" else signal.SIGTERM)
    async with asyncio.timeout(10):
        out, _ = await process.communicate()
    assert process.returncode == (130 if how == "interrupt" else 0)
    assert b"printed" not in out
    assert diary.read_text().splitlines()[-1] == "closed"
    assert diary.read_text().startswith("aborted: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--http", "127.0.0.1:99999"], "--http takes HOST:PORT, for instance 127.0.0.1:8000; got '127.0.0.1:99999'"),
        (["--http", "0.0.0.0:0"], "whoever reaches 0.0.0.0 could run the agents: give token="),
        (["--token", "x"], "--token is for --http"),
        (["--description", "a", "--description", "b"], "2 descriptions for 1 agents"),
        ([f"{FILE}:agent2"], "has no 'agent2'"),
    ],
    ids=["port", "open to all", "token", "descriptions", "no such agent"],
)
async def test_wrong_command_line_is_one_line_and_a_code(arguments: list[str], said: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1
    )
    out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert said in err.decode().splitlines()[-1]


# Over HTTP.


@asynccontextmanager
async def over_http(offered: Any = agent, **options: Any) -> AsyncIterator[str]:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve_http(offered, port=0, started=told.set_result, **options))
    either: list[asyncio.Future[Any]] = [task, told]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield await told
    finally:
        task.cancel()
        await asyncio.wait([task])


@MODES
async def test_http_serves_several_clients_at_once(mode: str) -> None:
    async def one(number: int) -> str:
        async with Client(url, mode=mode) as client:
            return text_of(await client.call_tool("helper", {"prompt": str(number)}))

    async with over_http() as url:
        assert await asyncio.gather(*[one(number) for number in range(10)]) == [f"you said: {n}" for n in range(10)]


@MODES
async def test_client_that_cancels_over_http_aborts_the_run(mode: str, tmp_path: Path, monkeypatch: Any) -> None:
    diary = tmp_path / "diary"
    monkeypatch.setenv("DIARY", str(diary))
    async with over_http() as url, Client(url, mode=mode) as client:
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("helper", {"prompt": "hang"}, read_timeout_seconds=0.5)
        await until(lambda: diary.exists() and "aborted: cancelled by the client" in diary.read_text())


async def test_token_is_asked_for() -> None:
    async with over_http(second, token="let-me-in") as url:
        found = await outcome(
            MCPTools(url, headers={"Authorization": "Bearer let-me-in"}), ("the_second", {"prompt": ""})
        )
        assert found[0].data == "I am the second"
        for headers in (None, {"Authorization": "Bearer wrong"}):
            with pytest.raises(ConfigurationError, match="HTTP 401 Unauthorized"):
                await outcome(MCPTools(url, headers=headers), ("the_second", {"prompt": ""}))


async def test_other_hosts_are_served_with_a_token_only() -> None:
    with pytest.raises(ConfigurationError, match=r"whoever reaches 0.0.0.0 could run the agents"):
        await serve_http(agent, host="0.0.0.0", port=0)


async def test_port_in_use_says_so() -> None:
    async with over_http() as url:
        port = int(url.split(":")[2].partition("/")[0])
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port} cannot be served .*in use"):
            await serve_http(agent, port=port)


# A client of another SDK.


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_typescript_client_calls_cancels_and_reads_errors(way: str, tmp_path: Path, monkeypatch: Any) -> None:
    node = shutil.which("node")
    if node is None or not (NODE_MODULES / "@modelcontextprotocol/sdk").exists():
        pytest.skip(f"needs node, and @modelcontextprotocol/sdk in {NODE_MODULES} (INTERPOSE_NODE_MODULES)")
    diary = tmp_path / "diary"
    monkeypatch.setenv("DIARY", str(diary))
    if way == "stdio":
        found = await from_typescript(node, *COMMAND)
    else:
        async with over_http() as url:
            found = await from_typescript(node, url)
    hello, waited, failed, cancelled, again = found
    assert hello["server"]["name"] == "helper"
    assert [tool["name"] for tool in hello["tools"]] == ["helper"]
    assert waited["content"] == [{"type": "text", "text": "done: wait"}]
    assert waited["progress"][:3] == ["step 1", "calls wait", "has the result of wait"]
    assert failed["isError"]
    assert "AbortError" in cancelled["failed"] or "timeout" in cancelled["failed"]
    assert again["content"][0]["text"] == "you said: again"
    assert "aborted: cancelled by the client" in diary.read_text()


async def from_typescript(node: str, *target: str) -> list[Any]:
    script = Path(__file__).with_name("client.cjs")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        node, str(script), str(NODE_MODULES), *target, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    requests: list[dict[str, Any]] = [{"prompt": "wait"}, {"prompt": "fail"}, {"prompt": "hang"}, {"prompt": "again"}]
    lines: list[dict[str, Any]] = [{"name": "helper", "arguments": one} for one in requests]
    lines[2]["cancelAfterMs"] = 500
    out, _ = await process.communicate("".join(json.dumps(line) + "\n" for line in lines).encode())
    return [json.loads(line) for line in out.splitlines()]


def test_agent_whose_name_is_no_word_still_has_a_tool() -> None:
    unnamed = Agent(ScriptedModel("hi"), name="???")
    assert agent_server(unnamed).name == "agent"
