"""The command line of bubblewrap: a command sees the system read-only, one folder to write in, and no network.

Source: bwrap(1) of bubblewrap 0.8.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from interpose.errors import ConfigurationError
from interpose.sandbox.limits import CommandLimits

MOUNT = "/workspace"
PATH = "/usr/local/bin:/usr/bin:/bin"
TELLS_INSIDE = "--info-fd"
"""The option by which it says, as JSON on a descriptor, which process is the first one inside."""
_NOBODY = "65534"
_LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
_ETC_OF_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates")
_MEND = (
    "Install bubblewrap (and util-linux), allow it to make user namespaces, or give isolation='none', with which "
    "commands run with all the rights of this process."
)
_SHM_BYTES = "67108864"


def missing() -> str | None:
    """Return why commands cannot be isolated here, or None: what is needed is not installed."""
    for name in ("bwrap", "prlimit"):
        if shutil.which(name) is None:
            return f"{name!r} is not installed. {_MEND}"
    return None


@cache
def failing() -> str | None:
    """Return why bubblewrap, which is installed, does not work here, or None; it is tried once, in some 50 ms."""
    why = ""
    for locked in (True, False):
        argv = [*_base(locked), "--", "/bin/sh", "-c", "exit 0"]
        try:
            tried = subprocess.run(argv, capture_output=True, text=True, timeout=20, env={"PATH": PATH}, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return f"bubblewrap could not be run: {error}. {_MEND}"
        if tried.returncode == 0:
            _locks.append(locked)
            return None
        why = tried.stderr.strip()[-300:]
    return f"bubblewrap does not work here: {why}. {_MEND}"


_locks: list[bool] = []
"""Whether bubblewrap can forbid user namespaces inside, once that is known."""


def _base(locked: bool) -> list[str]:
    argv = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    if locked:
        argv.append("--disable-userns")
    argv += ["--cap-drop", "ALL", "--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "sandbox"]
    argv += ["--ro-bind", "/usr", "/usr"]
    for name in _LINKED:
        if os.path.islink(name):
            argv += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            argv += ["--ro-bind", name, name]
    for name in _ETC:
        argv += ["--ro-bind-try", name, name]
    return [*argv, "--proc", "/proc", "--dev", "/dev", "--size", _SHM_BYTES, "--tmpfs", "/dev/shm"]


def isolated(
    command: Sequence[str],
    *,
    workspace: Path,
    folder: str,
    limits: CommandLimits,
    readable: Sequence[Path],
    network: bool,
) -> list[str]:
    """Return the command line that runs *command* in the *folder* of *workspace*, isolated and limited.

    Raises:
        ConfigurationError: bubblewrap does not work here.
    """
    why = missing() or failing()
    if why is not None:
        raise ConfigurationError(f"commands cannot be isolated: {why}")
    argv = [*_base(_locks[0]), "--size", str(limits.max_temp_bytes), "--perms", "1777", "--tmpfs", "/tmp"]
    if network:
        argv.append("--share-net")
        for name in _ETC_OF_NETWORK:
            argv += ["--ro-bind-try", os.path.realpath(name), name]
    for one in readable:
        argv += ["--ro-bind", str(one), str(one)]
    argv += ["--bind", str(workspace), MOUNT]
    for name in ("/proc", "/dev", "/"):  # root outside may write to /proc/sys, also from inside and without rights
        argv += ["--remount-ro", name]
    return [*argv, "--chdir", f"{MOUNT}/{folder}".rstrip("/"), "--", *limited(command, limits, isolated=True)]


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a command, with *env* of the user; nothing of this process is in it.

    It is that of bubblewrap too: on its command line others of the machine could read it.
    """
    return {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb", **env}


def limited(command: Sequence[str], limits: CommandLimits, *, isolated: bool) -> list[str]:
    """Return *command* with its limits, by prlimit; as it is where that is missing."""
    prlimit = shutil.which("prlimit", path=PATH)
    if prlimit is None:
        return list(command)
    argv = [prlimit, f"--data={limits.max_memory_bytes}", f"--fsize={limits.max_file_bytes}"]
    argv += [f"--nofile={limits.max_open_files}", "--core=0"]
    if isolated:  # outside, all processes of the user count, also those of others
        argv.append(f"--nproc={limits.max_processes + 4}")
    return [*argv, "--", *command]
