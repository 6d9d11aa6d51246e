"""Commands: how they end, what they print, and that nothing of them is left."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kit import agent_in, box_in, needs_bwrap

from interpose import Limits, RunAborted
from interpose.sandbox import CommandLimits, SandboxError
from interpose.sandbox.box import Isolation
from interpose.sandbox.bubblewrap import missing

needs_prlimit = pytest.mark.skipif(missing() is not None, reason="prlimit is not installed")
BOTH = [pytest.param("bubblewrap", marks=needs_bwrap), "none"]


def processes_with(text: str) -> list[int]:
    """Return the processes of this machine whose command line has *text*."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in line and int(name) != os.getpid():
            found.append(int(name))
    return found


async def begun(text: str) -> None:
    while not processes_with(text):  # noqa: ASYNC110  # nothing tells when a process of another namespace begins
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("isolation", BOTH)
async def test_output_and_exit_code_are_told(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation) as box:
        result = await box.run("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.output, result.stopped, result.ok) == (3, "out\nerr\n", None, False)


@pytest.mark.parametrize("isolation", BOTH)
async def test_list_is_run_without_a_shell(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation) as box:
        assert (await box.run(["echo", "$HOME", "a;b"])).output == "$HOME a;b\n"


@pytest.mark.parametrize("isolation", BOTH)
async def test_command_begins_in_the_folder_asked_for(tmp_path: Path, isolation: Isolation) -> None:
    (tmp_path / "inner").mkdir()
    async with box_in(tmp_path, isolation) as box:
        assert (await box.run("basename $PWD", cwd="inner")).output == "inner\n"


@pytest.mark.parametrize("folder", ["gone", "..", "/etc", "file", "link"])
async def test_folder_that_is_none_or_outside_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/etc")
    async with box_in(tmp_path, "none") as box:
        with pytest.raises(SandboxError):
            await box.run("true", cwd=folder)


def test_commands_run_in_a_thread_that_is_not_the_main_one(tmp_path: Path) -> None:
    async def ran() -> str:
        async with box_in(tmp_path, "none") as box:
            return (await box.run("echo hello")).output

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(ran())).result() == "hello\n"


@pytest.mark.parametrize("isolation", BOTH)
async def test_environment_is_cleared(tmp_path: Path, isolation: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    async with box_in(tmp_path, isolation, env={"SHOWN": "yes"}) as box:
        result = await box.run("env; cat /proc/1/environ", env={"MORE": "too"})
    assert "hunter2" not in result.output
    assert "SHOWN=yes" in result.output
    assert "MORE=too" in result.output


@pytest.mark.parametrize("isolation", BOTH)
async def test_command_that_waits_for_input_gets_none(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation) as box:
        assert (await box.run("cat; read x; echo $?")).output == "1\n"


@pytest.mark.parametrize("isolation", BOTH)
async def test_timeout_stops_the_whole_tree(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation) as box:
        started = time.monotonic()
        result = await box.run("echo begun; sleep 30.1717 & setsid sleep 30.1717 & sleep 30.1717", timeout_s=0.5)
    assert result.stopped == "it took longer than 0.5 s"
    assert (result.exit_code, result.output) == (None, "begun\n")
    assert time.monotonic() - started < 5
    assert processes_with("30.1717") == []


@pytest.mark.parametrize("isolation", BOTH)
async def test_what_a_command_leaves_running_is_stopped(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation) as box:
        started = time.monotonic()
        result = await box.run("sleep 30.2727 & (setsid nohup sleep 30.2727 &) ; echo done")
    assert (result.exit_code, result.output) == (0, "done\n")
    assert time.monotonic() - started < 5
    assert processes_with("30.2727") == []


@needs_bwrap
async def test_process_that_drops_its_environment_is_stopped_too(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await box.run("(env -i setsid sleep 30.3737 >/dev/null 2>&1 &); echo done")
    assert processes_with("30.3737") == []


@pytest.mark.parametrize("isolation", BOTH)
async def test_cancelled_caller_stops_the_tree_at_once(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation) as box:
        task = asyncio.create_task(box.run("sleep 30.4747 & sleep 30.4747"))
        await begun("30.4747")
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert time.monotonic() - started < 2
    assert processes_with("30.4747") == []


@pytest.mark.parametrize("isolation", BOTH)
async def test_abort_of_the_run_stops_the_tree_at_once(tmp_path: Path, isolation: Isolation) -> None:
    agent = agent_in(tmp_path, "sleep 30.5757 & sleep 30.5757", isolation=isolation)
    async with agent.stream("Go.") as run:
        await begun("30.5757")
        started = time.monotonic()
        run.abort("enough")
        with pytest.raises(RunAborted):
            await run.result()
    assert time.monotonic() - started < 2
    assert processes_with("30.5757") == []


@pytest.mark.parametrize("isolation", BOTH)
async def test_long_output_keeps_its_beginning_and_end(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation, CommandLimits(max_output_bytes=1000)) as box:
        result = await box.run("echo first; seq 100000; echo last")
    assert result.output.startswith("first\n")
    assert result.output.endswith("last\n")
    assert result.cut_bytes > 500_000
    assert f"[... {result.cut_bytes} bytes left out ...]" in result.output
    assert len(result.output) < 1100


@pytest.mark.parametrize("isolation", BOTH)
async def test_output_without_end_stops_the_command(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation, CommandLimits(max_printed_bytes=1_000_000)) as box:
        result = await box.run("yes")
    assert result.stopped == "it printed more than 1000000 bytes"


@pytest.mark.parametrize("isolation", BOTH)
async def test_output_that_is_no_text_is_told_as_far_as_it_is(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation) as box:
        assert (await box.run(r"printf 'a\xffb\0c'")).output == "a\ufffdb\0c"


@pytest.mark.parametrize("isolation", BOTH)
async def test_too_many_processes_stop_the_command(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation, CommandLimits(max_processes=10, timeout_s=20)) as box:
        result = await box.run("for i in $(seq 30); do sleep 15 & done; wait")
    assert result.stopped == "it started more than 10 processes" or "Resource temporarily" in result.output


@needs_bwrap
async def test_memory_of_one_process_is_limited(tmp_path: Path) -> None:
    async with box_in(tmp_path, limits=CommandLimits(max_memory_bytes=100_000_000)) as box:
        result = await box.run("python3 -c 'x = bytearray(200_000_000)' || echo refused")
    assert result.stopped is not None or "refused" in result.output


@needs_bwrap
async def test_memory_of_all_processes_together_is_limited(tmp_path: Path) -> None:
    script = "import time; x = bytearray(60_000_000); time.sleep(15)"
    async with box_in(tmp_path, limits=CommandLimits(max_memory_bytes=100_000_000)) as box:
        result = await box.run(f"for i in 1 2 3; do python3 -c '{script}' & done; wait")
    assert result.stopped == "it used more than 100000000 bytes of memory"


@needs_prlimit
@pytest.mark.parametrize("isolation", BOTH)
async def test_size_of_a_file_is_limited(tmp_path: Path, isolation: Isolation) -> None:
    async with box_in(tmp_path, isolation, CommandLimits(max_file_bytes=10_000)) as box:
        result = await box.run("head -c 100000 /dev/zero > big")
    assert result.exit_code != 0
    assert (tmp_path / "big").stat().st_size == 10_000


@pytest.mark.parametrize(
    "command", ["echo \0", ["a", 1], [], 5, "x" * 200_000, "echo \ud800", None], ids=lambda command: repr(command)[:12]
)
async def test_command_that_is_none_is_refused(tmp_path: Path, command: Any) -> None:
    async with box_in(tmp_path, "none") as box:
        with pytest.raises((SandboxError, TypeError)):
            await box.run(command)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
async def test_time_that_is_none_is_refused(tmp_path: Path, seconds: float) -> None:
    async with box_in(tmp_path, "none") as box:
        with pytest.raises(SandboxError, match="timeout_s must be above 0"):
            await box.run("true", timeout_s=seconds)


async def test_asked_time_is_cut_to_the_limit(tmp_path: Path) -> None:
    async with box_in(tmp_path, "none", CommandLimits(timeout_s=0.2, max_timeout_s=0.3)) as box:
        result = await box.run("sleep 5", timeout_s=1000)
    assert result.stopped == "it took longer than 0.3 s"


async def test_ten_commands_at_once_keep_their_outputs(tmp_path: Path) -> None:
    async with box_in(tmp_path, "none") as box:
        results = await asyncio.gather(*[box.run(f"sleep 0.1; echo {number}") for number in range(10)])
    assert [result.output for result in results] == [f"{number}\n" for number in range(10)]


async def test_tools_timeout_stops_the_command(tmp_path: Path) -> None:
    agent = agent_in(tmp_path, ("run_command", {"command": "sleep 30.6767", "timeout_s": 0.3}), isolation="none")
    result = await agent.run("Go.")
    [told] = result.steps[0].tool_results
    assert told.data["stopped"] == "the command was stopped: it took longer than 0.3 s"
    assert not told.is_error
    assert processes_with("30.6767") == []


async def test_limit_of_the_run_stops_the_command(tmp_path: Path) -> None:
    agent = agent_in(tmp_path, "sleep 30.7878", isolation="none").copy(limits=Limits(tool_timeout_s=0.3))
    result = await agent.run("Go.")
    assert result.steps[0].tool_results[0].is_error
    assert processes_with("30.7878") == []
