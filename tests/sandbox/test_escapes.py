"""Attempts to get out of an isolated command, each refused.

None of them could do harm if it were not: they look, or write to names that are not there.
"""

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest
from tests.sandbox.kit import box_in, needs_bwrap

from interpose.sandbox import SandboxError

pytestmark = needs_bwrap
REFUSED = "REFUSED"


async def tried(folder: Path, attempt: str) -> str:
    """Return what an attempt printed, and `REFUSED` at its end where it failed."""
    async with box_in(folder) as box:
        return (await box.run(f"{{ {attempt}\n}} 2>&1 || echo {REFUSED}")).output


@pytest.mark.parametrize(
    "path", ["/usr/interpose_x", "/etc/interpose_x", "/interpose_x", "/dev/interpose_x", "/bin/interpose_x", "/proc/x"]
)
async def test_system_is_not_written(tmp_path: Path, path: str) -> None:
    assert REFUSED in await tried(tmp_path, f"test -w $(dirname {path}) && touch {path}")


@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"])
async def test_kernel_is_not_set_up(tmp_path: Path, path: str) -> None:
    assert "writable" not in await tried(tmp_path, f"test -w {path} && echo writable")


async def test_nothing_in_proc_is_writable(tmp_path: Path) -> None:
    assert await tried(tmp_path, "find /proc -type f -writable 2>/dev/null; true") == ""


@pytest.mark.parametrize(
    "path", ["/root", "/home", "/var", "/run", "/sys", "/etc/passwd", "/etc/shadow", "/mnt", "/opt"]
)
async def test_rest_of_the_machine_is_not_seen(tmp_path: Path, path: str) -> None:
    assert REFUSED in await tried(tmp_path, f"ls {path}")


async def test_files_beside_the_workspace_are_not_seen(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path / "secret.txt")
    (workspace / "up").symlink_to("../secret.txt")
    for path in ("link", "up", "../secret.txt", str(tmp_path / "secret.txt"), f"/proc/1/root{tmp_path}/secret.txt"):
        assert "the secret" not in await tried(workspace, f"cat {path}")


async def test_other_processes_are_not_seen(tmp_path: Path) -> None:
    seen = await tried(tmp_path, "ls /proc | grep -c '^[0-9]'; ps aux 2>/dev/null | wc -l")
    assert int(seen.split()[0]) < 10
    assert REFUSED in await tried(tmp_path, f"kill -0 {os.getpid()}")


async def test_there_is_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert REFUSED in await tried(tmp_path, f"echo x > /dev/tcp/127.0.0.1/{port}")
    interfaces = await tried(tmp_path, "tail -n +3 /proc/net/dev | cut -d: -f1")
    assert interfaces.split() == ["lo"]


async def test_abstract_sockets_of_the_machine_are_not_reached(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0interpose_abstract")
        server.listen()
        script = 'import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + "interpose_abstract")'
        assert REFUSED in await tried(tmp_path, f"python3 -c '{script}'")


async def test_there_are_no_rights_and_none_to_be_got(tmp_path: Path) -> None:
    status = await tried(tmp_path, "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status")
    found = dict(line.split() for line in status.splitlines())
    assert found.pop("NoNewPrivs:") == "1"
    assert {int(value, 16) for value in found.values()} == {0}


@pytest.mark.parametrize(
    "attempt",
    [
        "unshare -U true",
        "unshare -m true",
        "mount -t tmpfs none /tmp",
        "mount -o remount,rw /usr",
        "mknod device c 1 3",
        "nsenter -t 1 -m true",
        "ln /usr/bin/env hard",
        "mv /workspace /tmp/moved",
        "hostname other",
        "cat /dev/mem",
        "cat /dev/kmsg",
        "ls /dev/sda /dev/vda /dev/nvme0",
        "setpriv --reuid 0 true",
    ],
    ids=lambda attempt: attempt.split()[0] + attempt.split()[1].strip("-/"),
)
async def test_attempt_is_refused(tmp_path: Path, attempt: str) -> None:
    assert REFUSED in await tried(tmp_path, attempt)


async def test_no_descriptor_of_the_process_outside_is_inherited(tmp_path: Path) -> None:
    kept = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(kept, True)
    try:
        assert await tried(tmp_path, "ls /proc/self/fd | tr '\\n' ' '") == "0 1 2 3 "
    finally:
        os.close(kept)


async def test_terminal_cannot_be_typed_into(tmp_path: Path) -> None:
    assert REFUSED in await tried(tmp_path, "echo x > /dev/tty")


async def test_setuid_file_gives_no_rights(tmp_path: Path) -> None:
    assert (await tried(tmp_path, "cp /usr/bin/id own; chmod 4755 own; ./own -u")).strip() == "65534"


async def test_what_a_command_links_outside_is_not_read_by_tools(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with box_in(workspace) as box:
        await box.run(f"ln -s {tmp_path}/secret.txt a; ln -s ../secret.txt b; ln -s /proc/self/root c; ln -s .. d")
        for path in ("a", "b", f"c{tmp_path}/secret.txt", "d/secret.txt"):
            with pytest.raises(SandboxError):
                await box.read(path)
            with pytest.raises(SandboxError):
                await box.write(path, "changed")
    assert (tmp_path / "secret.txt").read_text() == "the secret"


async def test_command_that_swaps_links_never_leads_a_tool_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("the secret")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    swap = "mkdir d; echo in > d/f; for i in $(seq 400); do mv d e; ln -s ../outside d; rm d; mv e d; done; touch over"
    found: set[str] = set()
    async with box_in(workspace) as box:
        stop = threading.Event()

        async def read() -> None:
            while not stop.is_set():
                try:
                    found.add(await box.read("d/f"))
                except SandboxError:
                    continue

        reading = asyncio.create_task(read())
        await box.run(swap)
        stop.set()
        await reading
    assert (workspace / "over").exists()
    assert found <= {"in\n"}


async def test_folder_that_may_be_read_is_not_written(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "data.txt").write_text("data")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with box_in(workspace, readable=(shared,)) as box:
        result = await box.run(f"cat {shared}/data.txt; echo x > {shared}/new || echo {REFUSED}")
    assert result.output.startswith("data")
    assert REFUSED in result.output
    assert not (shared / "new").exists()
