"""Running one process to its end: what it prints, how long it may take, what it may use, and the end of its tree."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from interpose.messages import Value
from interpose.sandbox.errors import SandboxError
from interpose.sandbox.limits import CommandLimits

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_LOOK_S = 0.1
MARK = "INTERPOSE_SANDBOX_ID"
"""The variable by which processes of a command that runs without isolation are found again."""


class CommandResult(Value, frozen=True, kw_only=True):
    """How a command ended: *exit_code* 0 is success, minus a number a signal; None where it was *stopped*, and why.

    *output* is what it printed, both streams as they came; *cut_bytes* were left out of its middle.
    """

    exit_code: int | None
    output: str
    stopped: str | None = None
    cut_bytes: int = 0
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.exit_code == 0


class Output:
    """The first and the last of what a process prints, *max_bytes* in all."""

    def __init__(self, max_bytes: int) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.half = max(max_bytes // 2, 1)
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take what was printed."""
        self.total += len(data)
        room = self.half - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 4 * self.half:
            del self.tail[: -self.half]

    def text(self) -> tuple[str, int]:
        """Return it as text, and how many bytes were left out."""
        tail = self.tail[-self.half :]
        cut = self.total - len(self.head) - len(tail)
        if not cut:
            return (self.head + tail).decode(errors="replace"), 0
        note = f"\n[... {cut} bytes left out ...]\n"
        return self.head.decode(errors="replace") + note + tail.decode(errors="replace"), cut


class Printed:
    """The end of a pipe that a process prints into, read as soon as there is something.

    It is read here and not by asyncio's own process, which counts one as alive while anybody holds its pipe.
    """

    def __init__(self, output: Output, max_bytes: int) -> None:
        self.output = output
        self.max_bytes = max_bytes
        self.loop = asyncio.get_running_loop()
        self.too_much: asyncio.Future[str] = self.loop.create_future()
        self.fd, self.inlet = os.pipe()
        os.set_blocking(self.fd, False)
        self.loop.add_reader(self.fd, self.read)

    def read(self) -> bool:
        """Take one piece; return whether there may be more."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self.loop.remove_reader(self.fd)
            return False
        self.output.add(data)
        if self.output.total > self.max_bytes and not self.too_much.done():
            self.loop.remove_reader(self.fd)
            self.too_much.set_result(f"it printed more than {self.max_bytes} bytes")
        return True

    def close(self) -> None:
        """Take what is still there of a process that has ended, and close the pipe."""
        self.loop.remove_reader(self.fd)
        while self.output.total <= self.max_bytes and self.read():
            pass
        os.close(self.fd)
        self.too_much.cancel()


async def run_process(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, limits: CommandLimits, timeout_s: float
) -> CommandResult:
    """Run *argv* and return how it ended; its tree is killed at the end, when its time is up, and on a cancellation.

    Raises:
        SandboxError: it could not be started.
    """
    started = time.monotonic()
    output = Output(limits.max_output_bytes)
    printed = Printed(output, limits.max_printed_bytes)
    try:
        process = await _start(argv, env, cwd, printed.inlet)
        guard = asyncio.ensure_future(_guard(process.pid, limits))
        ended = asyncio.ensure_future(process.wait())
        try:
            done, _ = await asyncio.wait(
                (ended, guard, printed.too_much), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            stopped = None if ended in done else f"it took longer than {timeout_s:g} s"
            for reason in (guard, printed.too_much):
                stopped = reason.result() if reason in done else stopped
        finally:
            guard.cancel()
            kill_tree(process.pid, env.get(MARK))
            await asyncio.shield(asyncio.ensure_future(asyncio.wait([ended], timeout=10)))
    finally:
        printed.close()
    text, cut = output.text()
    return CommandResult(
        exit_code=process.returncode if stopped is None else None,
        output=text,
        stopped=stopped,
        cut_bytes=cut,
        duration_s=time.monotonic() - started,
    )


async def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, inlet: int
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=inlet,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SandboxError(f"the command could not be started: {error}") from error
    except BaseException:
        kill_marked(env.get(MARK))
        raise
    finally:
        os.close(inlet)


async def _guard(pid: int, limits: CommandLimits) -> str:
    """Look after what a tree uses; return the reason why it has to be stopped."""
    while True:
        await asyncio.sleep(_LOOK_S)
        tree = tree_of(pid, 4 * limits.max_processes)
        if len(tree) > limits.max_processes + 4:  # those of the sandbox itself
            return f"it started more than {limits.max_processes} processes"
        if sum([memory_of(one) for one in tree]) > limits.max_memory_bytes:
            return f"it used more than {limits.max_memory_bytes} bytes of memory"


def tree_of(pid: int, most: int) -> list[int]:
    """Return *pid* and the processes below it, *most* of them; only itself where the system does not tell."""
    tree = [pid]
    for one in tree:
        if len(tree) > most:
            break
        with suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{one}/task"):
                tree += [int(child) for child in Path(f"/proc/{one}/task/{thread}/children").read_text().split()]
    return tree


def memory_of(pid: int) -> int:
    """Return the bytes that a process holds alone; what is shared, such as code, is left out."""
    try:
        sizes = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(sizes[1]) - int(sizes[2])) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def kill_tree(pid: int, mark: str | None) -> None:
    """Kill *pid*, its group, and what stands below it or bears *mark*."""
    tree = tree_of(pid, 10_000) if mark is not None else []
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for one in tree[1:]:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)
    kill_marked(mark)


def kill_marked(mark: str | None) -> None:
    """Kill the processes whose environment bears *mark*, until there are none."""
    if mark is None or sys.platform != "linux":
        return
    wanted = f"{MARK}={mark}".encode()
    for _ in range(20):
        found = False
        for name in os.listdir("/proc"):
            with suppress(OSError):
                if name.isdigit() and wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    os.kill(int(name), signal.SIGKILL)
                    found = True
        if not found:
            return
