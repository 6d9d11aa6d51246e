"""`interpose flow`: the page of stored reports, served until Ctrl-C."""

import asyncio
import webbrowser
from collections.abc import Callable
from pathlib import Path

from interpose.cli.problems import Problem
from interpose.cli.screen import NOTE, Screen

LOOK_S = 2.0
"""How often the folder is looked at for reports that came meanwhile."""


def show_reports(folder: Path, screen: Screen, *, host: str, port: int, token: str | None, open_page: bool) -> None:
    """Serve the reports in *folder* until the process is interrupted.

    Raises:
        Problem: the packages that serve are not installed.
        InterposeError: there is no such folder, or the port is in use.
    """
    try:
        asyncio.run(_serve(folder, screen, host=host, port=port, token=token, open_page=open_page))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise Problem(f"the page needs {error.name}; install the extra: pip install 'interpose[flow]'") from error


async def _serve(folder: Path, screen: Screen, *, host: str, port: int, token: str | None, open_page: bool) -> None:
    from interpose.flow.middleware import page_url
    from interpose.flow.server import FlowServer
    from interpose.flow.shelf import Shelf
    from interpose.report.files import folder_name
    from interpose.report.stored import read_run, stored_runs

    shelf = Shelf(
        lambda: stored_runs(folder),
        lambda run: read_run(folder / folder_name(run) / "report.json").nodes,
    )
    shelf.refresh()
    server = await FlowServer.start(shelf, host=host, port=port, token=token, stored=str(folder))
    try:
        url = page_url(host, server.port) + (f"?token={token}" if token else "")
        screen.line(f"Flow: {url}", "bold")
        screen.line(f"the reports in {folder}; Ctrl-C ends", NOTE)
        if open_page:
            await asyncio.to_thread(webbrowser.open, url)
        await _keep_fresh(folder, shelf.refresh, server.ring)
    finally:
        await server.close()


async def _keep_fresh(folder: Path, refresh: Callable[[], bool], ring: Callable[[], None]) -> None:
    """Look again whenever something in *folder* changed."""
    seen = _times(folder)
    while True:
        await asyncio.sleep(LOOK_S)
        if (now := _times(folder)) != seen:
            seen = now
            if await asyncio.to_thread(refresh):
                ring()


def _times(folder: Path) -> tuple[int, ...]:
    """Return when the folder and its index were changed; both are, by every report that is written."""
    paths = [path for path in (folder, folder / "index.html") if path.exists()]
    return tuple(path.stat().st_mtime_ns for path in paths)
