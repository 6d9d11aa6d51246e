"""One live connection to a tool server, held by a task of its own.

The SDK's client opens task groups, which have to be left by the task that entered them; an agent is opened in one
task and closed in another. So a task owns the client: it opens it, keeps the list of tools fresh, and closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import Context
from importlib.metadata import version
from typing import Any

from interpose.mcp.errors import ToolServerError, reason_of
from interpose.mcp.sdk import MODERN_PROTOCOL_VERSIONS, Client, ToolsListChanged, types
from interpose.mcp.stdio import Process
from interpose.mcp.target import Target

logger = logging.getLogger("interpose.mcp")

MAX_PAGES = 1000
MAX_TOOLS = 10_000
RELISTEN_S = 1.0
MAX_RELISTS = 5
RELIST_S = 0.1
CLOSE_S = 10.0
"""How long closing waits; a process is given up to 4 s to leave before it is killed."""


class Connection:
    """A connection of the running loop; `start` begins it, `opened` waits for it, `close` ends it.

    *listed* is called with the server's tools, when they are first known and whenever they have changed; what it
    raises refuses the connection, or keeps the list that was there.
    """

    def __init__(
        self,
        target: Target,
        *,
        listed: Callable[[Connection, list[Any]], None],
        connect_timeout_s: float,
        mode: str = "auto",
        sample: Callable[[Connection, Any], Awaitable[Any]] | None = None,
    ) -> None:
        self.target = target
        self.tools: tuple[Any, ...] = ()
        self.client: Any = None
        self.calls: list[Any] = []
        """The calls that are under way."""
        self.over = False
        self.why = self._details = ""
        self.failure: BaseException | None = None
        self._listed = listed
        self._timeout_s = connect_timeout_s
        self._mode = mode
        self._sample = sample
        self.transport: Any = None
        self._ending = self._stale = False
        self.loop = asyncio.get_running_loop()
        self._made: set[asyncio.Task[Any]] = set()
        self._wake = asyncio.Event()
        self._fresh = asyncio.Event()
        self._fresh.set()
        self._ready: asyncio.Future[None] = self.loop.create_future()
        self._timer = self.loop.call_later(connect_timeout_s, self._too_late)
        # An empty context: what is current where it is first needed, such as a span, is not what it belongs to.
        self._task = self.loop.create_task(self._live(), context=Context())

    # For those who use it.

    @property
    def is_usable(self) -> bool:
        """Whether calls may be made, or will be as soon as it is open."""
        return not self.over and not self._ending

    async def opened(self) -> Connection:
        """Wait until the tools are known and return the connection.

        Raises:
            ToolServerError: it could not be opened.
        """
        if not self._ready.done():
            await asyncio.shield(self._ready)
        if self.client is None:
            label = self.target.label
            brief = f"the tool server {label} cannot be used: {self.why}"
            raise ToolServerError(brief + self._details, label, brief=brief) from self.failure
        return self

    async def freshened(self) -> None:
        """Wait until the list of tools is that of the last notification."""
        if not self._fresh.is_set():
            await self._fresh.wait()

    async def settled(self) -> None:
        """Wait a moment for a connection that is about to end, so that it is known why."""
        if not self.over:
            await asyncio.wait([self._task], timeout=1.0)

    async def call(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Return what *call* comes to, made in a task of its own.

        A cancelled caller goes at once, while the call still tells the server; that a caller is cancelled twice, as one
        of an aborted run may be, must not cut this short.
        """
        task = self.loop.create_task(call)
        self._made.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._made.discard(task)
        if not task.cancelled():
            task.exception()

    def end(self, why: str) -> None:
        """Begin to close it; what is under way there fails."""
        self.why = self.why or why
        self._ending = True
        self._wake.set()
        if not self._ready.done():
            self._task.cancel()

    async def close(self) -> None:
        """Close it and wait, but not for ever."""
        self.end("closed")
        _, left = await asyncio.wait([self._task, *self._made], timeout=CLOSE_S)
        for task in left:
            task.cancel()
        if left:
            logger.warning("%s: the connection does not close", self.target.label)

    # The owning task.

    async def _live(self) -> None:
        try:
            self.transport = self.target.connect(self.end)
            client = Client(
                self.transport,
                mode=self._mode,
                cache=None,
                client_info=types.Implementation(name="interpose", version=version("interpose")),
                logging_callback=self._log,
                message_handler=self._hear,
                sampling_callback=self._be_asked if self._sample is not None else None,
            )
            async with client:
                self._listed(self, await list_tools(client))
                self.client = client
                self._set_ready()
                await self._serve(client)
        except asyncio.CancelledError:
            self.why = self.why or "closed"
            raise
        except BaseException as error:
            self.failure = error
            self.why = self.why or reason_of(error)
            if not isinstance(error, Exception | BaseExceptionGroup):
                raise
        finally:
            self.over = True
            if self.client is None:
                self._details = self._find_details()
            self._set_ready()
            self._fresh.set()
            for task in self._made:
                task.cancel()

    def _set_ready(self) -> None:
        self._timer.cancel()
        if not self._ready.done() and not self.loop.is_closed():
            self._ready.set_result(None)

    def _too_late(self) -> None:
        self.end(f"it did not answer within {self._timeout_s:g} s (connect_timeout_s)")

    def _find_details(self) -> str:
        """Return what else is known of a connection that could not be opened."""
        found = [getattr(self.transport, "problem", "")]
        if isinstance(self.transport, Process):
            if self.transport.babble:
                found.append(f"it wrote to stdout, which is for messages alone: {self.transport.babble!r}")
            if self.transport.said:
                found.append("it said: " + " / ".join(self.transport.said))
        return "".join(f"; {one}" for one in found if one)

    async def _serve(self, client: Any) -> None:
        """Keep the list fresh until the end."""
        listener = None
        tools = client.server_capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools is not None and tools.list_changed:
            listener = self.loop.create_task(self._listen(client))
        try:
            while not self._ending:
                await self._wake.wait()
                self._wake.clear()
                for _ in range(MAX_RELISTS):
                    if not self._stale or self._ending:
                        break
                    self._stale = False  # a notification that comes while it lists makes it list again
                    await self._refresh(client)
                else:
                    await asyncio.sleep(RELIST_S)  # a list that never rests must not keep runs waiting
                self._fresh.set()
        finally:
            if listener is not None:
                listener.cancel()
                await asyncio.wait([listener])

    async def _refresh(self, client: Any) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                self._listed(self, await list_tools(client))
        except Exception as error:
            logger.warning("%s: its tools could not be listed anew: %s", self.target.label, reason_of(error))

    async def _listen(self, client: Any) -> None:
        """Hear of changes by a subscription, as servers of 2026-07-28 on have them."""
        while not self._ending:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    async for event in subscription:
                        if isinstance(event, ToolsListChanged):
                            self._note_change()
                return  # the server has ended it in good order
            except Exception as error:
                logger.info("%s: the subscription ended: %s", self.target.label, reason_of(error))
            await asyncio.sleep(RELISTEN_S)
            self._note_change()  # what changed meanwhile is not told again

    def _note_change(self) -> None:
        self._stale = True
        self._fresh.clear()
        self._wake.set()

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()

    async def _be_asked(self, context: Any, params: Any) -> Any:  # noqa: ARG002  # as the SDK calls it
        assert self._sample is not None
        return await self._sample(self, params)

    async def _log(self, params: Any) -> None:
        level = _LEVELS.get(params.level, logging.INFO)
        logger.log(level, "%s: %.4000s", self.target.label, params.data)


class Connections:
    """The connections of one tool server, one for each event loop that uses it, made when they are first wanted."""

    def __init__(self, make: Callable[[Connections], Connection]) -> None:
        self._make = make
        self._held: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._leaving: list[Connection] = []

    def here(self) -> Connection | None:
        """Return the connection of the running loop, if it has one."""
        return self._held.get(asyncio.get_running_loop())

    def newest(self) -> tuple[Any, ...]:
        """Return the tools of the last connection that was made."""
        return next((one.tools for one in reversed(tuple(self._held.values()))), ())

    async def live(self) -> Connection:
        """Return a usable connection of the running loop, made anew where there is none or it was lost.

        Raises:
            ToolServerError: it could not be made.
        """
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None or not held.is_usable:
            self._forget_closed_loops()
            if held is not None:
                self._leaving.append(held)
            held = self._held[loop] = self._make(self)
        return await held.opened()

    def abandon(self) -> None:
        """Begin to close all, from any thread: nobody uses them any more."""
        for one in self._all():
            if one.loop.is_running():
                one.loop.call_soon_threadsafe(one.end, "nobody uses it any more")

    async def close(self) -> None:
        """Close all, also those of other loops, as far as these still run."""
        here = asyncio.get_running_loop()
        self._forget_closed_loops()
        for one in self._all():
            if one.loop is here:
                await one.close()
            elif one.loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(one.close(), one.loop)
                await asyncio.wait([asyncio.wrap_future(closing)], timeout=CLOSE_S)

    def _all(self) -> Iterator[Connection]:
        while self._held:
            yield self._held.popitem()[1]
        while self._leaving:
            yield self._leaving.pop()

    def _forget_closed_loops(self) -> None:
        """Drop what ended with its loop: `asyncio.run` cancels the owning task, which then cleans up."""
        for loop in [loop for loop in tuple(self._held) if loop.is_closed()]:
            self._held.pop(loop, None)
        self._leaving = [one for one in self._leaving if not one.over and not one.loop.is_closed()]


_LEVELS = {
    "debug": logging.DEBUG,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


async def list_tools(client: Any) -> list[Any]:
    """Return the tools of all pages.

    Raises:
        ToolServerError: the pages do not end.
    """
    found: list[Any] = []
    if client.server_capabilities.tools is None:
        return found
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
        if len(found) > MAX_TOOLS:
            break
    raise ToolServerError(f"its list of tools does not end: {len(found)} so far")
