"""Running one process to its end: what it prints, how long it may take, what it may use, and the end of its tree."""

import asyncio
import json
import os
import re
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
_END_S = 10.0
LEFT_OUT = re.compile(r"\n\[\.\.\. \d+ bytes left out \.\.\.\]\n")
"""What stands in an output where its middle was."""
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


class Inside:
    """The first process inside a sandbox: once it has ended, so has everything else in there.

    The sandbox's own process, which is the one that is started, ends a moment before. *option* is the one by which it
    says, as JSON on a descriptor, which process that is; without it there is none.
    """

    def __init__(self, option: str | None) -> None:
        self.option = option
        self.loop = asyncio.get_running_loop()
        self.said = b""
        self.pidfd: int | None = None
        if option is not None:
            self.outlet, self.inlet = os.pipe()
            os.set_blocking(self.outlet, False)
            self.loop.add_reader(self.outlet, self._read)

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return *argv* with that option."""
        return list(argv) if self.option is None else [argv[0], self.option, str(self.inlet), *argv[1:]]

    def passed(self) -> tuple[int, ...]:
        """Return the descriptors that the process is to have."""
        return () if self.option is None else (self.inlet,)

    def started(self) -> None:
        """Close what only the process is to have."""
        if self.option is not None:
            os.close(self.inlet)

    def _read(self) -> None:
        try:
            data = os.read(self.outlet, 4096)
        except BlockingIOError:
            return
        self.said += data
        if data and b"}" not in data:
            return
        self.loop.remove_reader(self.outlet)
        with suppress(OSError, ValueError, KeyError):
            self.pidfd = os.pidfd_open(json.loads(self.said)["child-pid"])

    async def end(self) -> bool:
        """Kill it, and wait until all is over; False where it is not known."""
        if self.option is not None and self.pidfd is None:
            self._read()
        if self.pidfd is None:
            return False
        with suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        over: asyncio.Future[None] = self.loop.create_future()
        self.loop.add_reader(self.pidfd, over.cancel)
        await asyncio.wait([over], timeout=_END_S)
        self.loop.remove_reader(self.pidfd)
        return True

    def close(self) -> None:
        """Give back the descriptors."""
        if self.option is not None:
            self.loop.remove_reader(self.outlet)
            os.close(self.outlet)
        if self.pidfd is not None:
            os.close(self.pidfd)


class Processes:
    """The processes of one box: each is lived through by a task of its own, which nobody can cut off."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[CommandResult]] = set()

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        limits: CommandLimits,
        timeout_s: float,
        tells_inside: str | None = None,
    ) -> CommandResult:
        """Run *argv* and return how it ended; its tree is killed at the end, when its time is up, on a cancellation.

        *tells_inside* is the option of a sandbox for `Inside`.

        Raises:
            SandboxError: it could not be started.
        """
        stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        living = asyncio.get_running_loop().create_task(
            _live(argv, env, cwd, limits, timeout_s, stop, tells_inside), name="interpose sandbox command"
        )
        self.tasks.add(living)
        living.add_done_callback(self.tasks.discard)
        try:
            return await asyncio.shield(living)
        except asyncio.CancelledError:
            if not stop.done():
                stop.set_result("cancelled")
            await asyncio.wait([living])  # not for ever: it is being killed
            if not living.cancelled():
                living.exception()
            raise

    async def over(self) -> None:
        """Wait for those that are being killed."""
        if self.tasks:
            await asyncio.wait([*self.tasks])


async def _live(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    limits: CommandLimits,
    timeout_s: float,
    stop: "asyncio.Future[str]",
    tells_inside: str | None,
) -> CommandResult:
    """Live through one process, until it ends or there is a reason to stop it; *stop* gives one from outside."""
    started = time.monotonic()
    output = Output(limits.max_output_bytes)
    printed, inside = Printed(output, limits.max_printed_bytes), Inside(tells_inside)
    try:
        process = await _start(argv, env, cwd, printed.inlet, inside)
        guard = asyncio.ensure_future(_guard(process.pid, limits))
        ended = asyncio.ensure_future(process.wait())
        try:
            reasons = (guard, printed.too_much, stop)
            done, _ = await asyncio.wait((ended, *reasons), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            stopped = None if ended in done else f"it took longer than {timeout_s:g} s"
            for reason in reasons:
                stopped = reason.result() if reason in done else stopped
        finally:
            guard.cancel()
            kill_tree(process.pid, env.get(MARK))
            await _over(process.pid, ended, inside)
    finally:
        printed.close()
        inside.close()
    text, cut = output.text()
    return CommandResult(
        exit_code=process.returncode if stopped is None else None,
        output=text,
        stopped=stopped,
        cut_bytes=cut,
        duration_s=time.monotonic() - started,
    )


async def _over(pid: int, ended: "asyncio.Future[int]", inside: Inside) -> None:
    """Wait until nothing is left of a tree that was killed."""
    await asyncio.wait([ended], timeout=_END_S)
    if await inside.end():
        return
    for _ in range(100):  # killed before it could say who is inside: all are still of its group
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        await asyncio.sleep(0.01)


async def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, inlet: int, inside: Inside
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *inside.argv(argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=inlet,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
            pass_fds=inside.passed(),
        )
    except (OSError, ValueError) as error:
        raise SandboxError(f"the command could not be started: {error}") from error
    finally:
        os.close(inlet)
        inside.started()


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
