"""A wire between the tests and a Postgres, which can be cut, made to hang, or to lose an answer."""

import asyncio
import tempfile
from pathlib import Path
from typing import Self

SOCKET = ".s.PGSQL.5432"
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """Listens in a folder of its own for what is meant for the server in *folder*."""

    def __init__(self, folder: Path) -> None:
        self._server_folder = folder
        self._place = tempfile.TemporaryDirectory(prefix="interpose-wire-")
        self._open: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self._listens: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self.loses_answer = False
        """Whether the next answer is lost, and the connection with it: what was asked is done, and nobody knows."""
        self.lost = 0

    @property
    def folder(self) -> str:
        return self._place.name

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.cut()
        self._flows.set()
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)
        self._place.cleanup()

    async def mend(self) -> None:
        """Let everything through, again."""
        self._flows.set()
        if self._listens is None:
            self._listens = await asyncio.start_unix_server(self._meet, f"{self.folder}/{SOCKET}")

    def cut(self) -> None:
        """Break all connections, and take no new ones."""
        if self._listens is not None:
            self._listens.close()
            self._listens = None
            Path(self.folder, SOCKET).unlink(missing_ok=True)
        self._break_all()

    def hang(self) -> None:
        """Let nothing through, and say nothing."""
        self._flows.clear()

    def _break_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await asyncio.open_unix_connection(f"{self._server_folder}/{SOCKET}")
        self._open |= {writer, server[1]}
        for source, drain, answers in ((reader, server[1], False), (server[0], writer, True)):
            pipe = asyncio.create_task(self._carry(source, drain, answers=answers))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _carry(self, source: asyncio.StreamReader, drain: asyncio.StreamWriter, *, answers: bool) -> None:
        try:
            while data := await source.read(65536):
                await self._flows.wait()
                if answers and self.loses_answer:
                    self.loses_answer = False
                    self.lost += 1
                    self._break_all()
                    return
                drain.write(data)
                await drain.drain()
        except ConnectionError:
            pass
        finally:
            drain.transport.abort()
