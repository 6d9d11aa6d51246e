"""A real HTTP server on the loopback interface that sends bytes just as it is told, and keeps what it was asked."""

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from msgspec import Struct


class Reply(Struct, frozen=True, kw_only=True):
    """What one request is answered with: *payload* as it is, cut where *cuts* or *piece_bytes* say, then the *end*.

    "close" ends the answer in good order, "cut" closes the connection in the middle of it, "reset" breaks it, "hang"
    waits for the client to go. Between two pieces pass *delay_s* seconds.
    """

    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}
    payload: bytes = b""
    piece_bytes: int | None = None
    cuts: tuple[int, ...] = ()
    delay_s: float = 0.0
    end: Literal["close", "cut", "reset", "hang"] = "close"

    def pieces(self) -> list[bytes]:
        places = self.cuts or tuple(range(0, len(self.payload), self.piece_bytes or len(self.payload) or 1))
        bounds = [0, *[place for place in places if 0 < place < len(self.payload)], len(self.payload)]
        return [self.payload[start:stop] for start, stop in itertools.pairwise(bounds) if start < stop]


class Asked(Struct, frozen=True, kw_only=True):
    """One request: *path* with its query, *headers* by their names in lower case, *body* read from JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None


def json_reply(body: Any, status: int = 200, **options: Any) -> Reply:
    return Reply(status=status, payload=json.dumps(body).encode(), **options)


def event(data: Any, name: str = "") -> bytes:
    """Return one server-sent event; half characters, which UTF-8 cannot hold, are sent as JSON escapes."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    try:
        line = text.encode()
    except UnicodeEncodeError:
        line = json.dumps(data).encode()
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + line + b"\n\n"


class WireServer:
    """Answers each request with what *respond* makes of it. `left` is set when a client goes before the end."""

    def __init__(self, respond: Callable[[Asked], Reply]) -> None:
        self._respond = respond
        self._serving: set[asyncio.Task[None]] = set()
        self.asked: list[Asked] = []
        self.left = asyncio.Event()
        self.origin = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 24)
        self.origin = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await _read(reader)
            self.asked.append(asked)
            await self._send(self._respond(asked), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()

    async def _send(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = asyncio.ensure_future(reader.read())  # ends when the client closes
        try:
            lines = [f"HTTP/1.1 {reply.status} Said", f"content-type: {reply.content_type}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in reply.headers.items()]
            writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
            for piece in reply.pieces():
                if gone.done():
                    raise ConnectionResetError
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                if reply.delay_s:
                    await asyncio.sleep(reply.delay_s)
            if reply.end == "hang":
                await gone
                self.left.set()
            elif reply.end == "reset":
                writer.transport.abort()
            elif reply.end == "close":
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        finally:
            gone.cancel()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    start, *lines = head.strip().split("\r\n")
    method, path, _ = start.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method=method, path=path, headers=headers, body=json.loads(raw) if raw else None)
