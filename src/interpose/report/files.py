"""Files that are whole or not there: written beside their place and put in it at once, also with several processes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

try:
    import fcntl
except ImportError:  # Windows has no such locks: there the index is made anew by whoever writes last
    fcntl = None  # type: ignore[assignment]

LOCK_S = 5.0
"""How long to wait for another process that writes the index."""
MAX_NAME = 100
RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|\Z)", re.IGNORECASE)
"""What Windows takes for devices.

Source: "Naming Files, Paths, and Namespaces" of Microsoft's documentation of Win32, read 2026-11.
"""


def write_whole(path: Path, data: bytes) -> None:
    """Put *data* in the place of *path*; a reader sees all of the old or all of the new.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns():x}")
    try:
        with open(beside, "xb") as file:
            file.write(data)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def folder_name(run_id: str) -> str:
    """Return the name of the folder of a run: its id, with whatever a file name cannot hold written as %XX."""
    name = quote(run_id, safe="", errors="replace")
    name = re.sub(r"^\.|\.$|~", lambda match: f"%{ord(match[0]):02X}", name)
    if name.lower() == "index.html" or not name or RESERVED.match(name):
        name = f"%{name}"
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 17]}~{sha256(name.encode()).hexdigest()[:16]}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at *path*; where another process keeps it for too long, go on without.

    Raises:
        OSError: the file cannot be made.
    """
    with open(path, "ab") as file:
        if fcntl is not None:
            until = time.monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > until:
                        break
                    time.sleep(0.005)
        yield
