"""A small strict server of Chat Completions on the loopback interface, which plays one reply a request."""

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from msgspec import Struct


class Reply(Struct, frozen=True, kw_only=True):
    """What one request is answered with: *payload* as it is, in pieces of *piece_bytes*, then the *end*.

    "close" ends the answer in good order, "cut" breaks the connection in the middle, "hang" waits for the client to go.
    """

    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}
    payload: bytes = b""
    piece_bytes: int = 1 << 20
    end: str = "close"


def answer(body: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, payload=json.dumps(body).encode(), headers=named)


def events(*items: Any, piece_bytes: int = 7, end: str = "close", is_done: bool = True, **headers: str) -> Reply:
    lines = [f"data: {item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)}\n\n" for item in items]
    if is_done and end == "close":
        lines.append("data: [DONE]\n\n")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    payload = "".join(lines).encode()
    return Reply(content_type="text/event-stream", payload=payload, piece_bytes=piece_bytes, end=end, headers=named)


class ChatServer:
    """Plays *replies*, and keeps what it was asked: `bodies`, `headers`. `left` is set when a client goes early."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.left = asyncio.Event()
        self.base_url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        if kind is None:
            assert self._replies == [], "some replies were not asked for"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            start, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            self.headers.append(headers)
            self.bodies.append(body)
            reply = self._replies.pop(0) if self._replies else answer({"error": {"message": "no reply left"}}, 500)
            if start != "POST /v1/chat/completions HTTP/1.1" or not body["messages"]:
                reply = answer({"error": {"message": f"strict server: {start}"}}, 404)
            await self._send(reply, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()

    async def _send(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {reply.status} Said", f"content-type: {reply.content_type}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        lines.append("transfer-encoding: chunked")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for start in range(0, len(reply.payload), reply.piece_bytes):
            piece = reply.payload[start : start + reply.piece_bytes]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if reply.end == "hang":
            await reader.read()
            self.left.set()
        elif reply.end == "close":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
