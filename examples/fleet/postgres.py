"""A Postgres of our own, from Debian's package, in a folder that goes with it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def own_postgres() -> Iterator[str]:
    """Start a server that listens on a socket in its folder, and yield its URL.

    Raises:
        FileNotFoundError: Postgres is not installed.
    """
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not places:
        raise FileNotFoundError("this needs Postgres: apt-get install postgresql, or give --url")
    folder = Path(tempfile.mkdtemp(prefix="fleet-pg-"))
    # Postgres refuses to be run by root, so there it runs as the user that Debian's package makes.
    user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(folder, **user)

    def run(program: str, *arguments: str) -> None:
        environment = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
        command = [str(places[-1] / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environment, **user)

    try:
        run("initdb", "-U", "fleet", "--auth=trust", "--encoding=UTF8")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", options)
        try:
            yield f"postgresql://fleet@/postgres?host={folder}"
        finally:
            run("pg_ctl", "stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder)
