"""`Report`: each run as files, `report.json` and a page that needs nothing else, and an index of all runs."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from interpose.context import RunContext
from interpose.errors import ConfigurationError
from interpose.info import Node
from interpose.middleware import Middleware
from interpose.report.collected import Collected
from interpose.report.files import folder_name, write_whole
from interpose.report.index import MAX_RUNS, add_to_index
from interpose.report.page import run_page

logger = logging.getLogger("interpose")
WAIT_S = 10.0
"""How long the end of a run waits for its files, on a disk that hangs; they are written all the same."""
INDEX_S = 1.0
"""How long the index may lag behind while runs end faster than it is written."""


class Report(Middleware[Any]):
    """Writes each run to `directory/<run id>/`, and lists all in `directory/index.html`.

    Nested runs are part of the outermost one's report. Files are written when the run has ended, in a thread. With
    *content* false they tell the structure alone: names, times, outcomes, tokens, kinds of errors, who changed which
    field. A folder that cannot be written is told once to the log `interpose`; runs go on.

    Raises:
        ConfigurationError: *directory* is no path.
    """

    def __init__(self, directory: str | os.PathLike[str], *, content: bool = True) -> None:
        given: Any = directory
        if not isinstance(given, str | os.PathLike) or not str(given):
            raise ConfigurationError(f"Report takes the folder to write to, got {directory!r}: Report('reports/')")
        self.directory = Path(directory)
        self.content = content
        self.reads_content = content
        self._runs: dict[str | None, Collected] = {}
        self._writer: ThreadPoolExecutor | None = None
        self._process = 0
        self._lock = threading.Lock()
        self._unlisted: list[dict[str, Any]] = []
        self._queued = 0
        self._listed_at = 0.0
        self._told = False

    def __repr__(self) -> str:
        return f"Report({str(self.directory)!r})"

    def open(self, agent: Any) -> None:  # noqa: ARG002  # the hook's arguments
        """Say at once where the folder cannot be written; start the writer's thread, which a run need not wait for."""
        self._submit(int)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not os.access(self.directory, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied", str(self.directory))
        except OSError as error:
            self._tell(error)

    def close(self) -> None:
        """Wait until everything is written."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()

    def on_node(self, ctx: RunContext[Any], node: Node) -> Awaitable[None] | None:  # noqa: ARG002  # as above
        """Keep *node*; with the end of the outermost run, write."""
        node_id = node.id
        if node.phase == "start":
            run = self._runs.get(node.parent_id)
            if run is None:
                run = Collected(self.content, node_id)
            self._runs[node_id] = run
            run.nodes[node_id] = node
            return None
        run = self._runs.get(node_id)
        if run is None:  # a tool that did not let itself be cancelled, and outlived its run
            return None
        run.nodes[node_id] = node
        return self._written(run) if node_id == run.root else None

    def _submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        """Let *work* be done in the writer's thread."""
        with self._lock:
            if self._writer is None or self._process != os.getpid():  # a forked process has no threads of its parent
                self._writer, self._process, self._queued = ThreadPoolExecutor(1, "interpose-report"), os.getpid(), 0
            self._queued += len(args)
            return self._writer.submit(work, *args)

    async def _written(self, run: Collected) -> None:
        """Write *run* in the writer's thread and wait for it, but not for ever."""
        writing = asyncio.wrap_future(self._submit(self._write, run))
        done, _ = await asyncio.wait([writing], timeout=WAIT_S)
        if not done:
            logger.warning("%r: writing takes over %s s; the run goes on without waiting", self, WAIT_S)

    def _write(self, run: Collected) -> None:
        """Write the files of one run, and the index if no other run waits to be written; never raises."""
        for node_id in run.nodes:
            self._runs.pop(node_id, None)
        try:
            summary, data = run.document()
            folder = self.directory / folder_name(summary["id"])
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / "report.json", data)
            write_whole(folder / "index.html", run_page(summary, data))
            self._unlisted.append(summary)
        except Exception as error:
            self._tell(error)
        with self._lock:
            self._queued -= 1
        if self._unlisted and (not self._queued or time.monotonic() - self._listed_at > INDEX_S):
            try:
                add_to_index(self.directory, self._unlisted)
                self._unlisted.clear()
                self._listed_at = time.monotonic()
            except Exception as error:
                del self._unlisted[:-MAX_RUNS]
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Say, once, what is wrong."""
        if self._told:
            return
        self._told = True
        logger.error(
            "%r cannot write: %s. Runs go on without reports; make the folder writable, or give Report another one.",
            self, error, exc_info=None if isinstance(error, OSError) else error,
        )  # fmt: skip
