"""A browser's part of HTTP, as bytes on a socket, so that a test decides on every header and on when to read."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

PATIENCE_S = 10.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Frame(NamedTuple):
    """One server-sent event; one without a name only says how far it got."""

    name: str
    id: str | None
    data: Any


async def ask(port: int, path: str = "/", *, method: str = "GET", **headers: str | None) -> Answer:
    """Send one request and read the whole answer. Headers are given as `host="…"`; None leaves one out."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(_request(port, method, path, headers | {"connection": "close"}))
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            status, found = _head(head)
            body = await reader.read()
            return Answer(status, found, _dechunked(body) if "transfer-encoding" in found else body)
    finally:
        await _left(writer)


class Page:
    """A page that listens to `api/events`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._text = b""
        self.last_id: str | None = None

    async def block(self) -> bytes:
        """Return the next block of the stream, up to an empty line."""
        async with asyncio.timeout(PATIENCE_S):
            while b"\n\n" not in self._text:
                size = int(await self._reader.readline(), 16)
                if not size:
                    raise EOFError("the stream has ended")
                self._text += await self._reader.readexactly(size)
                await self._reader.readexactly(2)
        block, _, self._text = self._text.partition(b"\n\n")
        return block

    async def frame(self) -> Frame:
        """Return the next event that a browser would tell its page of."""
        while True:
            fields = dict(line.split(b": ", 1) for line in (await self.block()).split(b"\n") if line[:1] != b":")
            self.last_id = fields.get(b"id", (self.last_id or "").encode()).decode() or None
            if b"data" in fields:
                name = fields[b"event"].decode()
                return Frame(name, fields[b"id"].decode() if b"id" in fields else None, json.loads(fields[b"data"]))

    async def until(self, name: str, count: int = 1) -> list[Frame]:
        """Return the frames up to the *count*-th with this name."""
        frames: list[Frame] = []
        while sum(frame.name == name for frame in frames) < count:
            frames.append(await self.frame())
        return frames


@asynccontextmanager
async def page(port: int, last_id: str | None = None) -> AsyncIterator[Page]:
    """Listen to the events of the server at *port*, from where a page with *last_id* broke off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        more = {"last_event_id": last_id} if last_id else {}
        writer.write(_request(port, "GET", "/api/events", {**more, "accept": "text/event-stream"}))
        await writer.drain()
        status, _ = _head(await reader.readuntil(b"\r\n\r\n"))
        assert status == 200, status
        yield Page(reader, writer)
    finally:
        await _left(writer)


async def _left(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def _request(port: int, method: str, path: str, headers: dict[str, Any]) -> bytes:
    sent = {"host": f"127.0.0.1:{port}", **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in sent.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    return int(first.split()[1]), {
        name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)
    }


def _dechunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole
