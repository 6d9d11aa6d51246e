"""Real servers of others, from npm: server-everything over stdio and HTTP, and server-filesystem."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_tools.stage import npm_server, offered, outcome, playing, results

from interpose import Agent, ImagePart, RunAborted, TextPart
from interpose.mcp import MCPTools
from interpose.testing import ScriptedModel, calls, collect

EVERYTHING = "mcp-server-everything"


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@asynccontextmanager
async def over_http() -> AsyncIterator[tuple[str, Any]]:
    """server-everything over HTTP: its URL, and a function that restarts it."""
    command = npm_server(EVERYTHING, "streamableHttp")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    held: list[asyncio.subprocess.Process] = []

    async def start() -> None:
        quiet = asyncio.subprocess.DEVNULL
        env = {**os.environ, "PORT": str(port)}
        held.append(await asyncio.create_subprocess_exec(*command, env=env, stdout=quiet, stderr=quiet))
        async with asyncio.timeout(30):
            while not await listens(port):  # noqa: ASYNC110  # what is waited for is another process
                await asyncio.sleep(0.05)

    async def stop() -> None:
        if held[-1].returncode is None:
            held[-1].kill()
        await held[-1].wait()

    async def restart() -> None:
        await stop()
        await start()

    await start()
    try:
        yield f"http://127.0.0.1:{port}/mcp", restart
    finally:
        await stop()


@pytest.fixture(params=["stdio", "http"])
async def everything(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """What `MCPTools` takes for server-everything, one way and the other."""
    if request.param == "stdio":
        yield npm_server(EVERYTHING)
    else:
        async with over_http() as (url, _):
            yield url


async def test_text_sum_structure_and_picture(everything: Any) -> None:
    asked = [
        ("echo", {"message": "hi"}),
        ("get-sum", {"a": 1, "b": 2}),
        ("get-structured-content", {"location": "New York"}),
        ("get-tiny-image", {}),
    ]
    found = await outcome(MCPTools(everything), *asked)
    assert [one.is_error for one in found] == [False] * 4
    assert [found[0].data, found[1].data] == ["Echo: hi", "The sum of 1 and 2 is 3."]
    assert found[2].data.keys() == {"temperature", "conditions", "humidity"}
    picture = [part for part in found[3].data if isinstance(part, ImagePart)]
    assert picture[0].media_type == "image/png"
    assert isinstance(found[3].data[0], TextPart)


async def test_resources_and_links(everything: Any) -> None:
    asked = [
        ("get-resource-links", {"count": 2}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
    ]
    links, as_text, blob = await outcome(MCPTools(everything), *asked)
    assert "[resource demo://resource/dynamic/" in links.data
    assert "This is a plaintext resource" in as_text.data
    assert blob.data[1].data


async def test_progress(everything: Any) -> None:
    asked = ("trigger-long-running-operation", {"duration": 0.4, "steps": 4})
    async with playing(asked, tools=MCPTools(everything)) as agent, agent.stream("go") as run:
        events = await collect(run)
    told = [event.value for event in events if event.type == "CUSTOM"]  # type: ignore[attr-defined]  # of a CUSTOM one
    assert [one["progress"] for one in told] == [1, 2, 3, 4]
    assert told[0]["total"] == 4


async def test_abort_ends_at_once_and_the_server_goes_on(everything: Any) -> None:
    tools = MCPTools(everything)
    asked = ("trigger-long-running-operation", {"duration": 30, "steps": 300})
    async with playing(asked, tools=tools) as agent:
        async with agent.stream("go") as run:
            async for event in run:
                if event.type == "CUSTOM":
                    break
            began = time.monotonic()
            run.abort("enough")
            with pytest.raises(RunAborted):
                await run.result()
            assert time.monotonic() - began < 0.5
        other = playing(("echo", {"message": "still"}), tools=tools)
        assert results(await other.run("go")) == ["Echo: still"]
        await other.aclose()


async def test_bad_arguments_are_refused_here(everything: Any) -> None:
    (result,) = await outcome(MCPTools(everything), ("get-sum", {"a": "one"}))
    assert result.is_error
    assert "missing argument 'b'" in result.data


async def test_environment_is_not_handed_on_but_what_is_given_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "s3cret")
    (result,) = await outcome(MCPTools(npm_server(EVERYTHING), env={"GIVEN": "this"}), ("get-env", {}))
    assert '"GIVEN": "this"' in result.data
    assert "s3cret" not in result.data


async def test_server_over_http_restarted_between_runs() -> None:
    asked = ("echo", {"message": "hi"})
    async with over_http() as (url, restart), playing(asked, tools=MCPTools(url)) as agent:
        assert results(await agent.run("go")) == ["Echo: hi"]
        await restart()
        assert results(await agent.run("go")) == ["Echo: hi"]


async def test_server_over_http_killed_within_a_call_is_told_and_found_again() -> None:
    asked = ("trigger-long-running-operation", {"duration": 30, "steps": 300})
    async with over_http() as (url, restart):
        tools = MCPTools(url, effect={"trigger-*": "write"})
        async with playing(asked, tools=tools) as agent, agent.stream("go") as run:
            async for event in run:
                if event.type == "CUSTOM":
                    await restart()
                    break
            (result,) = (await run.result()).steps[0].tool_results
        assert result.is_error
        assert "was lost while trigger-long-running-operation ran" in result.data
        assert (await outcome(tools, ("echo", {"message": "hi"})))[0].data == "Echo: hi"


async def test_process_killed_within_a_call_is_told_and_started_anew() -> None:
    tools = MCPTools(npm_server(EVERYTHING), effect={"trigger-*": "write"})

    def pid() -> int:
        return int(tools._connections.here().transport._process.pid)  # type: ignore[union-attr]  # it is open

    asked = ("trigger-long-running-operation", {"duration": 30, "steps": 300})
    async with playing(asked, tools=tools) as agent:
        async with agent.stream("go") as run:
            async for event in run:
                if event.type == "CUSTOM":
                    os.kill(pid(), signal.SIGKILL)
                    break
            (result,) = (await run.result()).steps[0].tool_results
        assert result.is_error
        assert "(was killed by signal 9): it may have taken effect" in result.data
    assert (await outcome(tools, ("echo", {"message": "hi"})))[0].data == "Echo: hi"


async def test_files_are_written_and_read_and_others_refused(tmp_path: Path) -> None:
    tools = MCPTools(npm_server("mcp-server-filesystem", str(tmp_path)), prefix="fs_", approval="destructive")
    path = str(tmp_path / "a.txt")
    model = ScriptedModel(
        calls(("fs_list_directory", {"path": str(tmp_path)}), ("fs_create_directory", {"path": str(tmp_path / "d")})),
        calls(("fs_read_text_file", {"path": "/etc/passwd"})),
        calls(("fs_write_file", {"path": path, "content": "hello"})),
    )
    async with Agent(model, middleware=[tools]) as agent:
        run = await agent.run("go")
    assert await asyncio.to_thread((tmp_path / "d").is_dir)
    assert run.steps[1].tool_results[0].is_error
    assert "outside allowed directories" in str(run.steps[1].tool_results[0].data)
    assert run.status == "interrupted"  # writing a file is marked as destructive, so a person is asked
    assert run.interrupts[0].tool_call is not None
    assert run.interrupts[0].tool_call.name == "fs_write_file"
    assert len(offered(agent)) == 14


async def test_marks_of_the_filesystem_become_effects(tmp_path: Path) -> None:
    tools = MCPTools(npm_server("mcp-server-filesystem", str(tmp_path)))
    async with Agent(ScriptedModel("hi"), middleware=[tools]) as agent:
        await agent.run("go")
    effects = {one.name: one.effect for one in agent.model.requests[0].tools}  # type: ignore[attr-defined]
    assert [effects[name] for name in ("read_text_file", "write_file", "edit_file")] == ["read", "idempotent", "write"]


async def test_two_servers_in_one_agent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from a file")
    files = MCPTools(npm_server("mcp-server-filesystem", str(tmp_path)), prefix="fs_")
    both = [MCPTools(npm_server(EVERYTHING), prefix="every_"), files]
    model = ScriptedModel(
        calls(("every_echo", {"message": "hi"}), ("fs_read_text_file", {"path": str(tmp_path / "a.txt")})), "done"
    )
    async with Agent(model, middleware=both) as agent:
        run = await agent.run("go")
    echoed, read = results(run)
    assert echoed == "Echo: hi"
    assert read == {"content": "from a file"}
