"""Server-sent events: a run for an app of one's own, and the answer of this server that hands them to one reader."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from interpose.errors import InterposeError
from interpose.result import RunStream
from interpose.server.failures import ShowError, error_id, logger
from interpose.server.frames import HEARTBEAT, Failed, Shown
from interpose.server.http import Response

SSE_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
BURST = 64
"""After so many events in a row, others get their turn."""
TICK_S = 1.0


async def sse(
    run: RunStream, *, show_error: ShowError | None = None, heartbeat_s: float = 15.0
) -> AsyncGenerator[bytes, None]:
    """Yield the events of *run* as server-sent events, with their place in the run as `id:`.

    *run* is that of `agent.stream`, `agent.start` or `agent.attach`, entered or not; it is left when this is closed.
    What failed the run is logged, and told as a general text with an error id, or as *show_error* says. A comment is
    sent where there was nothing to say for *heartbeat_s* seconds.
    """
    shown = Shown("", run.run_id, run.thread_id, Failed(run), show_error)
    async with _entered(run):
        waiting: asyncio.Task[Any] | None = None
        events = run.__aiter__()
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait([waiting], timeout=heartbeat_s)
                if not done:
                    yield HEARTBEAT
                    continue
                try:
                    event = waiting.result()
                except StopAsyncIteration:
                    return
                except Exception as error:
                    logger.error("run %s failed (%s)", run.run_id, error_id(run.run_id, "run"), exc_info=error)
                    return
                waiting = None
                yield shown.frame(event)
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.wait([waiting])


class _entered:  # noqa: N801  # stands for a `with` block
    """Enters a run that is not entered yet, and leaves it; what failed it has been told by then."""

    def __init__(self, run: RunStream) -> None:
        self._run = run

    async def __aenter__(self) -> RunStream:
        return await self._run.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._run.__aexit__(None, None, None)
        except (Exception, InterposeError):
            logger.exception("run %s failed at its end", self._run.run_id)


class EventStream(Response):
    """The answer: frames until there are no more, the reader goes, or takes nothing for too long.

    *make* gives the frames, in a block that is entered before the answer begins and left when the reader has gone.
    """

    def __init__(
        self,
        make: Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]],
        *,
        heartbeat_s: float,
        send_timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._make = make
        self._heartbeat_s = heartbeat_s
        self._send_timeout_s = send_timeout_s
        self._more = [(name.encode(), value.encode("latin-1", "replace")) for name, value in (headers or {}).items()]
        self._last = 0.0
        self._sending = False

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        """Send the frames."""
        async with self._make() as frames:
            self._last = asyncio.get_running_loop().time()
            telling = asyncio.ensure_future(self._tell(frames, send))
            leaving = asyncio.ensure_future(_left(receive))
            try:
                while not telling.done() and not leaving.done():
                    tick = min(TICK_S, self._heartbeat_s, self._send_timeout_s)
                    await asyncio.wait([telling, leaving], timeout=tick, return_when=asyncio.FIRST_COMPLETED)
                    if not telling.done() and not await self._look(send):
                        break
            finally:
                telling.cancel()
                leaving.cancel()
                await asyncio.wait([telling, leaving])
        if not telling.cancelled() and (error := telling.exception()) is not None:
            raise error

    async def _tell(self, frames: AsyncIterator[bytes], send: Any) -> None:
        loop = asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS, *self._more]})
        count = 0
        async with aclosing(frames):  # type: ignore[type-var]  # generators all
            async for frame in frames:
                self._last = loop.time()
                self._sending = True
                await send({"type": "http.response.body", "body": frame, "more_body": True})
                self._sending = False
                self._last = loop.time()
                count += 1
                if count % BURST == 0:
                    await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})

    async def _look(self, send: Any) -> bool:
        """Send a heartbeat where it is time; False where the reader has taken nothing for too long."""
        quiet_s = asyncio.get_running_loop().time() - self._last
        if self._sending:
            return quiet_s < self._send_timeout_s
        if quiet_s >= self._heartbeat_s:
            self._last = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(self._send_timeout_s):
                    await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})
            except TimeoutError:
                return False
        return True


async def _left(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
