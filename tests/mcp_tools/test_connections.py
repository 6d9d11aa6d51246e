"""The life of a connection: opened and closed in any task and loop, lost and made anew, cancelled at once."""

import asyncio
import gc
import logging
import os
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_tools.stage import FAULTY, faulty, methods, offered, outcome, playing, results, until

from interpose import Agent, ConfigurationError, RunAborted
from interpose.mcp import MCPTools, ToolServerError
from interpose.testing import ScriptedModel, Trace, calls

ECHO = ("echo", {"text": "hi"})


def process_of(tools: MCPTools) -> int:
    connection = tools._connections.here()
    assert connection is not None
    return int(connection.transport._process.pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Opening and closing.


async def test_tools_are_offered_in_the_first_request() -> None:
    async with playing(ECHO, tools=MCPTools(faulty())) as agent:
        await agent.run("go")
        assert {"echo", "write", "hang"} <= set(offered(agent))


async def test_closing_the_agent_ends_the_process() -> None:
    tools = MCPTools(faulty())
    async with playing(ECHO, tools=tools) as agent:
        await agent.run("go")
        pid = process_of(tools)
    assert not is_alive(pid)


async def test_agent_closed_in_another_task_than_it_was_opened_in() -> None:
    tools = MCPTools(faulty())
    agent = playing(ECHO, tools=tools)
    assert results(await asyncio.create_task(agent.run("go"))) == ["hi"]
    pid = process_of(tools)
    await asyncio.create_task(agent.aclose())
    assert not is_alive(pid)


async def test_agent_opened_and_closed_again_and_again() -> None:
    agent = playing(ECHO, tools=MCPTools(faulty()))
    for _ in range(5):
        assert results(await agent.run("go")) == ["hi"]
        await agent.aclose()


async def test_no_task_is_left_behind() -> None:
    before = asyncio.all_tasks()
    await outcome(MCPTools(faulty()), ECHO)
    assert asyncio.all_tasks() == before


async def test_two_agents_share_one_connection_until_the_last_closes() -> None:
    tools = MCPTools(faulty())
    first, second = playing(ECHO, tools=tools), playing(ECHO, tools=tools)
    found = await asyncio.gather(first.run("go"), second.run("go"))
    assert [results(run) for run in found] == [["hi"], ["hi"]]
    pid = process_of(tools)
    await first.aclose()
    assert is_alive(pid)
    assert results(await second.run("go")) == ["hi"]
    assert process_of(tools) == pid
    await second.aclose()
    assert not is_alive(pid)


async def test_middleware_of_runs_that_overlap_serves_each_to_its_end() -> None:
    tools = MCPTools(faulty())
    agent = Agent(ScriptedModel(*[lambda r: "done" if r.messages[-1].role == "tool" else calls(ECHO)] * 40))
    runs = await asyncio.gather(*[agent.run("go", middleware=[tools]) for _ in range(10)])
    assert [results(run) for run in runs] == [["hi"]] * 10


def test_loops_one_after_the_other_without_closing() -> None:
    agent = playing(ECHO, tools=MCPTools(faulty()))
    for _ in range(3):
        assert results(asyncio.run(agent.run("go"))) == ["hi"]
    gc.collect()


def test_run_sync_again_and_again() -> None:
    agent = playing(ECHO, tools=MCPTools(faulty()))
    assert [results(agent.run_sync("go")) for _ in range(3)] == [["hi"]] * 3


def test_loops_in_threads_share_it_at_once() -> None:
    agent = playing(ECHO, tools=MCPTools(faulty()))
    found: list[Any] = []

    def work() -> None:
        found.append(results(asyncio.run(agent.run("go"))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["hi"]] * 4


async def test_overlapping_runs_are_not_affected_when_one_is_cancelled(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    tools = MCPTools(faulty(diary=diary))

    def turn(request: Any) -> Any:
        if request.messages[-1].role == "tool":
            return "done"
        return calls(("hang", {})) if request.messages[0].text == "hang" else calls(ECHO)

    async with Agent(ScriptedModel(*[turn] * 20), middleware=[tools]) as agent:
        first = asyncio.create_task(agent.run("hang"))
        await until(lambda: "tools/call" in methods(diary))
        others = [asyncio.create_task(agent.run("go")) for _ in range(2)]
        first.cancel()
        assert [results(await other) for other in others] == [["hi"], ["hi"]]
        await asyncio.wait([first])
        assert methods(diary).count("initialize") == 1
    assert (await outcome(tools, ECHO))[0].data == "hi"


async def test_agent_that_is_dropped_takes_its_server_along() -> None:
    tools = MCPTools(faulty())
    agent = playing(ECHO, tools=tools)
    gc.collect()
    gc.disable()
    try:
        await agent.run("go")
        pid = process_of(tools)
        await asyncio.sleep(0.1)
        reference = weakref.ref(tools)
        del agent, tools
        assert reference() is None
    finally:
        gc.enable()
    await until(lambda: not is_alive(pid))


# Failing to open.

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("missing", {"server": ["no-such-program-anywhere"]}, "there is no 'no-such-program-anywhere': is it installed"),
    ("exits", {"server": faulty("exit")}, "ended with code 7; it said: error: GITHUB_TOKEN is not set"),
    ("silent", {"server": faulty("silent"), "connect_timeout_s": 0.5}, r"did not answer within 0.5 s \(connect_timeo"),
    ("banner", {"server": faulty("banner"), "connect_timeout_s": 0.5}, "it wrote to stdout.*Welcome to the server!"),
    ("endless list", {"server": faulty("endless")}, "its list of tools does not end"),
    ("invalid list", {"server": faulty("invalid")}, "what it sent does not fit the protocol: .*tools.1.inputSchema"),
    ("nobody there", {"server": "http://127.0.0.1:9/mcp"}, "nothing answers there.*is the server running"),
    (
        "include",
        {"server": faulty(), "include": ["ehco"]},
        "include names 'ehco', but .* has no such tool. It has: add",
    ),
    ("include pattern", {"server": faulty(), "include": ["zz*"]}, r"include names 'zz\*'"),
    ("exclude", {"server": faulty(), "exclude": ["wriet"]}, "exclude names 'wriet'"),
    ("approval", {"server": faulty(), "approval": {"wriet": True}}, "approval names 'wriet'"),
    ("no folder", {"server": faulty(), "cwd": "/no/such/folder"}, "there is no '/no/such/folder'"),
]


@pytest.mark.parametrize(("options", "text"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
async def test_failing_open_names_the_server_and_says_why(options: dict[str, Any], text: str) -> None:
    tools = MCPTools(name="the one", **options)
    agent = playing(ECHO, tools=tools)
    with pytest.raises(ConfigurationError, match=f"MCPTools.the one. could not be opened: .*{text}") as caught:
        await agent.run("go")
    assert isinstance(caught.value.__cause__, ToolServerError)
    assert caught.value.__cause__.server == "the one"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_server_that_is_not_required_is_done_without(caplog: pytest.LogCaptureFixture) -> None:
    tools = MCPTools(faulty("exit"), required=False)
    async with Agent(ScriptedModel("without"), middleware=[tools]) as agent:
        assert (await agent.run("go")).text == "without"
    assert "GITHUB_TOKEN is not set; runs go on without its tools" in caplog.text


async def test_run_cancelled_while_it_opens_leaves_nothing() -> None:
    agent = playing(ECHO, tools=MCPTools(faulty("silent")))
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.wait([task])
    await agent.aclose()
    await agent.middleware[0].close()  # type: ignore[misc]  # async
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Lost and made anew.


async def test_server_killed_between_calls_is_started_anew() -> None:
    tools = MCPTools(faulty())
    async with playing(ECHO, tools=tools) as agent:
        await agent.run("go")
        first = process_of(tools)
        os.kill(first, signal.SIGKILL)
        await until(lambda: not is_alive(first))
        assert results(await agent.run("go")) == ["hi"]
        assert process_of(tools) != first


async def test_server_killed_within_a_run_between_two_steps() -> None:
    tools = MCPTools(faulty())

    def kill(request: Any) -> Any:
        os.kill(process_of(tools), signal.SIGKILL)
        return calls(ECHO)

    async with Agent(ScriptedModel(calls(ECHO), kill, "done"), middleware=[tools]) as agent:
        run = await agent.run("go")
    assert [step.tool_results[0].data for step in run.steps[:2]] == ["hi", "hi"]


async def test_crash_within_a_call_that_writes_is_told_and_not_repeated(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    tools = MCPTools(faulty(diary=diary))
    async with playing(("crash", {}), tools=tools) as agent:
        (result,) = (await agent.run("go")).steps[0].tool_results
    assert result.is_error
    assert "was lost while crash ran (ended with code 3): it may have taken effect" in result.data
    assert methods(diary).count("tools/call") == 1


async def test_crash_within_a_call_that_reads_is_made_again(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    (result,) = await outcome(MCPTools(faulty(diary=diary)), ("crash_once", {}))
    assert (result.data, result.is_error) == ("second life", False)
    assert methods(diary).count("tools/call") == 2


async def test_crash_fails_the_siblings_and_the_next_run_works() -> None:
    tools = MCPTools(faulty(), timeout_s=5)
    async with playing(("hang", {}), ("crash", {}), tools=tools, limits=None) as agent:
        began = time.monotonic()
        hung, crashed = (await agent.run("go")).steps[0].tool_results
        assert hung.is_error
        assert crashed.is_error
        assert time.monotonic() - began < 9
    assert (await outcome(tools, ECHO))[0].data == "hi"


async def test_what_a_server_said_as_it_failed_is_not_for_the_model(tmp_path: Path) -> None:
    tools = MCPTools(faulty("once", tmp_path / "diary"), name="it")
    async with playing(("crash_once", {}), tools=tools) as agent:
        (result,) = (await agent.run("go")).steps[0].tool_results
        assert result.is_error
        assert result.data == "the tool server it cannot be used: ended with code 7"
        with pytest.raises(ToolServerError, match="ended with code 7; it said: error: the password hunter2 is wrong"):
            await agent.run("go")


# Cancelled.


async def test_aborted_run_ends_at_once_and_the_server_is_told(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    trace = Trace()
    tools = MCPTools(faulty(diary=diary))
    async with playing(("hang", {}), tools=tools) as agent:
        agent = agent.copy(middleware=[trace, tools])
        async with agent:
            async with agent.stream("go") as run:
                await until(lambda: "tools/call" in methods(diary))
                began = time.monotonic()
                run.abort("enough")
                with pytest.raises(RunAborted, match="enough"):
                    await run.result()
                assert time.monotonic() - began < 0.5
            await until(lambda: "notifications/cancelled" in methods(diary))
    assert trace.names().count("on_abort") == 1


async def test_cancelled_caller_ends_the_call_and_the_connection_stays(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    tools = MCPTools(faulty(diary=diary))
    async with playing(("hang", {}), tools=tools) as agent:
        task = asyncio.create_task(agent.run("go"))
        await until(lambda: "tools/call" in methods(diary))
        pid = process_of(tools)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: "notifications/cancelled" in methods(diary))
        other = playing(ECHO, tools=tools)
        assert results(await other.run("go")) == ["hi"]
        assert process_of(tools) == pid
        await other.aclose()


async def test_server_that_reads_nothing_more_does_not_hold_an_abort() -> None:
    tools = MCPTools(faulty())
    async with playing(("write", {"text": "x" * 3_000_000}), tools=tools) as agent:
        async with agent.stream("go") as run:
            async for event in run:
                if event.type == "STEP_STARTED":
                    os.kill(process_of(tools), signal.SIGSTOP)
                if event.type == "TOOL_CALL_END":
                    break
            await asyncio.sleep(0.2)
            began = time.monotonic()
            run.abort("enough")
            with pytest.raises(RunAborted):
                await run.result()
            assert time.monotonic() - began < 0.5
        os.kill(process_of(tools), signal.SIGCONT)


async def test_process_that_does_not_leave_is_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    script = tmp_path / "stays.py"
    script.write_text("import signal\nsignal.signal(15, signal.SIG_IGN)\n" + WELL + STAY)
    tools = MCPTools([*faulty()[:3], str(script)])
    with caplog.at_level(logging.WARNING):
        async with playing(ECHO, tools=tools) as agent:
            await agent.run("go")
            pid = process_of(tools)
        assert not is_alive(pid)


WELL = FAULTY.read_text()
STAY = "\nwhile True:\n    time.sleep(1)\n"
