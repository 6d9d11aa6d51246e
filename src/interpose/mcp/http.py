"""A tool server behind a URL: the client for its requests, with headers, limits, and a memory for errors."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import httpx2

from interpose.mcp.halves import mended_line
from interpose.mcp.sdk import streamable_http_client

logger = logging.getLogger("interpose.mcp")

CONNECT_S = 30.0
SILENCE_S = 300.0
"""How long an event stream may be silent, as in the SDK."""
MAX_ERROR_BYTES = 65536
_HINTS = {
    401: "give headers={'Authorization': 'Bearer …'}",
    403: "the headers are not enough for this server, or it does not admit this host",
    404: "is the path right? It often ends in /mcp",
    405: "is the path right? It often ends in /mcp",
}


class Endpoint:
    """The transport to one URL: entering opens a client for it, leaving closes the session and the client.

    *headers* are asked for when it is entered, and again where the server takes them no longer.

    Raises:
        TypeError: they are no mapping of strings.
    """

    def __init__(self, url: str, *, headers: Headers | None, silence_s: float, max_bytes: int) -> None:
        self._url = url
        self._headers = headers
        self._silence_s = max(silence_s, SILENCE_S)
        self._max_bytes = max_bytes
        self._stack = AsyncExitStack()
        self.problem = ""
        """The last answer with an error status, which the SDK does not tell."""

    async def __aenter__(self) -> Any:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                httpx2.AsyncClient(
                    auth=_Headers(self._headers),
                    timeout=httpx2.Timeout(CONNECT_S, read=self._silence_s),
                    event_hooks={"response": [self._look]},
                )
            )
            transport = streamable_http_client(self._url, http_client=client, max_sse_event_size=self._max_bytes)
            streams = await stack.enter_async_context(transport)
            self._stack = stack.pop_all()
        return streams

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def _look(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status >= 400:
            hint = await _error_in(response) or _HINTS.get(status)
            said = f"it answered HTTP {status} {response.reason_phrase}".rstrip()
            self.problem = f"{said}: {hint}" if hint else said
        elif response.headers.get("content-type", "").startswith("application/json"):
            response.stream = _Mended(_Capped(response.stream, self._max_bytes), self._max_bytes)
        elif response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Mended(response.stream, self._max_bytes)


async def _error_in(response: httpx2.Response) -> str:
    """Return the error of the protocol in an answer, where there is one; the SDK tells it only where its id fits."""
    if not response.headers.get("content-type", "").startswith("application/json"):
        return ""
    response.stream = _Capped(response.stream, MAX_ERROR_BYTES)
    try:
        message = json.loads(await response.aread())["error"]["message"]
    except (httpx2.HTTPError, httpx2.StreamError, ValueError, LookupError, TypeError):
        return ""
    return " ".join(message.split())[:300] if isinstance(message, str) else ""


class _Headers(httpx2.Auth):
    """Puts headers on each request. A function that gives them is asked anew where the server answers 401.

    A token that has run out is so replaced within the connection, whose other calls go on.
    """

    def __init__(self, given: Headers | None) -> None:
        self._given = given
        self._now = headers_of(given)

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        sent = self._now
        request.headers.update(sent)
        response = yield request
        if response.status_code != 401 or not callable(self._given):
            return
        if self._now is sent:  # nobody has asked meanwhile
            try:
                self._now = headers_of(self._given)
            except Exception:
                logger.exception("the function that gives the headers failed; the answer 401 stands")
                return
        if self._now != sent:
            request.headers.update(self._now)
            yield request


class TooLarge(httpx2.StreamError):
    """A body is larger than what is taken."""


class _Capped(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, max_bytes: int) -> None:
        self._stream = stream
        self._left = max_bytes
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise TooLarge(f"the message is larger than {self._max_bytes:,} bytes (max_message_bytes)")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Mended(httpx2.AsyncByteStream):
    """A body whose lines are mended one by one; one longer than *max_bytes* is left alone."""

    def __init__(self, stream: Any, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        async for chunk in self._stream:
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join([*parts, lines[0]])
                parts, size = [], 0
                yield b"".join([mended_line(line) + b"\n" for line in lines])
            parts.append(rest)
            size += len(rest)
            if size > self._max_bytes:
                yield b"".join(parts)
                parts, size = [], 0
        yield mended_line(b"".join(parts))

    async def aclose(self) -> None:
        await self._stream.aclose()


Headers = Mapping[str, str] | Callable[[], Mapping[str, str]]


def headers_of(given: Headers | None) -> Mapping[str, str]:
    """Return the headers, asked for anew where *given* is a function.

    Raises:
        TypeError: they are no mapping of strings.
    """
    made: Any = given() if callable(given) else given
    if made is None:
        return {}
    if not isinstance(made, Mapping) or not all(isinstance(one, str) for pair in made.items() for one in pair):
        raise TypeError(f"headers must map names to strings; got {type(made).__name__} with something else in it")
    for name, value in made.items():  # an error of the HTTP library would show the value, which may be a secret
        if not f"{name}{value}".isascii() or not f"{name}{value}".isprintable() or value != value.strip():
            raise TypeError(f"headers: {name!r:.80} must be ASCII text without line breaks and blanks at its ends")
    return made
