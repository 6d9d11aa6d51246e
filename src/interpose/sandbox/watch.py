"""Watching one workspace for the length of a run, and telling what changes in it, in order, with nothing left out."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from interpose.info import FileEvent
from interpose.sandbox import inotify
from interpose.sandbox.changes import MAX_FILES, Change, Known, TooManyFiles, unfinished
from interpose.sandbox.inotify import Inotify, Seen
from interpose.sandbox.tree import Ignored
from interpose.text import clean

logger = logging.getLogger("interpose")
SETTLE_S = 0.05
"""How long after a change it is told while something still runs: so that a file is there whole."""
WAIT_S = 1.0
FRESH_S = 0.3
"""How long a new file that nobody has closed is waited for; not at all if nothing was written to it for so long."""
FINISH_S = 10.0
"""How long the hooks may take over what is told last."""
_telling: ContextVar[object] = ContextVar("interpose_sandbox_telling", default=None)


class Watch:
    """The changes of a workspace, told one after the other; *tell* calls the hooks.

    The kernel's own account gives the order, and what was made and removed at once; a walk over all files says what
    there is in truth, when a command has ended and when the run ends. Where there is no such account, walks are all.
    """

    def __init__(
        self,
        root: int,
        ignored: Ignored,
        tell: Callable[[FileEvent], Awaitable[None]],
        *,
        keeps_contents: bool,
        account: Callable[[int, Ignored], Inotify | None] = inotify.start,
    ) -> None:
        self._account = account
        self._known = Known(root, ignored, keeps_contents=keeps_contents)
        self._tell = tell
        self._lock = asyncio.Lock()
        self._kernel: Inotify | None = None
        self._seen: list[Seen] = []
        self._waiting_since: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._finishing: asyncio.Task[None] | None = None
        self._state = "new"

    async def begin(self) -> None:
        """Look at what is there; what changes from now on is told."""
        if self._state != "new" or _telling.get() is self:
            return
        async with self._lock:
            if self._state == "new":
                await self._begin()

    async def _begin(self) -> None:
        root, ignored = self._known.root, self._known.ignored
        self._kernel = self._account(root, ignored)
        try:
            await asyncio.to_thread(self._look_first)
        except TooManyFiles:
            self._give_up()
            return
        except BaseException:
            self._close_kernel()
            raise
        self._state = "on"
        self._listen(True)

    def _look_first(self) -> None:
        """Watch first and look afterwards, so that nothing falls between the two."""
        _, folders = self._known.scan()
        if self._kernel is not None:
            self._kernel.whole_again(folders)
        stamps, folders = self._known.scan()
        if self._kernel is not None:
            self._kernel.whole_again(folders)
        self._known.take(stamps)

    def _listen(self, wanted: bool) -> None:
        if self._kernel is None:
            return
        loop = asyncio.get_running_loop()
        if wanted:
            loop.add_reader(self._kernel.fd, self._readable)
        else:
            loop.remove_reader(self._kernel.fd)

    def _readable(self) -> None:
        if self._kernel is None:
            return
        self._seen += self._kernel.read()
        self._look_soon()

    def _look_soon(self) -> None:
        kernel = self._kernel
        if kernel is not None and self._timer is None and (self._seen or not (kernel.whole or kernel.limited)):
            self._timer = asyncio.get_running_loop().call_later(SETTLE_S, self._settle_soon)

    def _settle_soon(self) -> None:
        self._timer = None
        self._spawn(self._settle(whole=False, waits=True))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self, *, whole: bool) -> None:
        """Tell what has changed until now, and return when the hooks have been called.

        With *whole*, all files are looked at, and not only those that the kernel told of. Called from a hook that is
        told of a file it returns at once: what the hook changes is told after it.
        """
        if self._state != "on":
            return
        if _telling.get() is self:
            self._spawn(self._settle(whole=whole))
            return
        await asyncio.shield(self._spawn(self._settle(whole=whole)))

    async def _settle(self, *, whole: bool, waits: bool = False) -> None:
        async with self._lock:
            if self._state != "on":
                return
            self._listen(False)  # the thread reads
            try:
                changes = await asyncio.to_thread(self._differences, whole, waits)
            except TooManyFiles:
                self._give_up()
                return
            finally:
                self._listen(True)
                self._look_soon()
            _telling.set(self)
            for index, change in enumerate(changes):
                await self._tell(_event(change))
                if index % 100 == 99:
                    await asyncio.sleep(0)  # hooks may all be plain functions, and others want to go on

    def _differences(self, whole: bool, waits: bool) -> list[Change]:
        kernel, known = self._kernel, self._known
        if kernel is None:
            return known.differences([], known.scan()[0])
        stamps = None
        if whole or not kernel.whole or kernel.limited:
            self._seen += kernel.read()
            stamps, folders = known.scan()
            kernel.whole_again(folders)
        self._seen += kernel.read()
        seen, self._seen = self._seen, []
        if waits and stamps is None:
            seen = self._finished(seen)
        return known.differences(seen, stamps)

    def _finished(self, seen: list[Seen]) -> list[Seen]:
        """Return what of *seen* is to be told now: what comes before a file that is still being written.

        It is waited for so that it is told once, and whole; but not for long.
        """
        now = time.monotonic()
        since = self._waiting_since
        waiting = {path: since.get(path, now) for path in unfinished(self._known.root, seen, FRESH_S)}
        self._waiting_since = waiting
        for index, one in enumerate(seen):
            if one.path in waiting and now - waiting[one.path] < WAIT_S:
                self._seen = seen[index:]
                return seen[:index]
        return seen

    async def finish(self) -> None:
        """Tell what is left, and watch no more; a cancelled caller does not end it, and a second one waits for it."""
        if self._finishing is None:
            self._finishing = asyncio.get_running_loop().create_task(self._finish())
        await asyncio.shield(self._finishing)

    async def _finish(self) -> None:
        if self._state == "on":
            try:
                async with asyncio.timeout(FINISH_S):
                    await asyncio.wait([self._spawn(self._settle(whole=True))])
                    while self._tasks:  # what hooks changed while they were told
                        await asyncio.wait([*self._tasks])
            except TimeoutError:
                logger.error("on_file hooks took over %s s at the end of a run and were cut", FINISH_S)
            for task in [*self._tasks]:
                task.cancel()
            if self._tasks:
                await asyncio.wait([*self._tasks], timeout=1)
        self._stop()

    def _give_up(self) -> None:
        logger.warning(
            "the workspace has over %d files: their changes are not told; ignore some with ignore=[...]", MAX_FILES
        )
        self._stop()

    def _stop(self) -> None:
        self._state = "off"
        if self._timer is not None:
            self._timer.cancel()
        self._close_kernel()

    def _close_kernel(self) -> None:
        self._listen(False)
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.close()


def _event(change: Change) -> FileEvent:
    return FileEvent(kind=change.kind, path=clean(change.path), old=change.old, new=change.new)
