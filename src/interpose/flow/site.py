"""The page and what it asks for, as an ASGI application. The one file that knows Starlette."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from interpose.flow.guard import Guard
from interpose.flow.history import Runs
from interpose.flow.runlog import RunLog
from interpose.flow.search import events_with
from interpose.flow.stream import Bell, changes
from interpose.text import to_json

JSON = "application/json"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MAX_PAGES = 64
"""How many pages may listen at once."""
SEND_S = 30.0
"""A page that takes nothing for so long is left."""
PART = 200
"""Events of a run that are encoded before others get their turn."""


def site(runs: Runs, bell: Bell, *, host: str, token: str | None = None, stored: str | None = None) -> Guard:
    """Return the application; *stored* names the folder whose reports are shown, where no app is watched."""
    answers = _Answers(runs, bell, stored)
    routes = [
        Route("/", answers.page),
        Route("/static/{name}", answers.static),
        Route("/api/info", answers.info),
        Route("/api/runs", answers.runs),
        Route("/api/runs/{run:path}", answers.run),
        Route("/api/event", answers.event),
        Route("/api/search", answers.search),
        Route("/api/events", answers.events),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _problem, Exception: _failed})
    return Guard(app, host, token)


class _Answers:
    """What each address answers."""

    def __init__(self, runs: Runs, bell: Bell, stored: str | None) -> None:
        self._runs = runs
        self._bell = bell
        self._stored = stored
        self._files = {
            one.name: (one.read_bytes(), kind)
            for one in files("interpose.flow").joinpath("static").iterdir()
            if (kind := TYPES.get("." + one.name.rpartition(".")[2]))
        }

    async def page(self, _: Request) -> Response:
        return self._file("index.html")

    async def static(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        if name not in self._files:
            raise HTTPException(404, f"there is no file {name!r}")
        content, kind = self._files[name]
        return Response(content, media_type=kind)

    async def info(self, _: Request) -> Response:
        return Response(to_json({"stored": self._stored}), media_type=JSON)

    async def runs(self, _: Request) -> Response:
        return Response(b'{"runs":' + self._runs.runs_json() + b"}", media_type=JSON)

    async def run(self, request: Request) -> Response:
        log = self._found(request.path_params["run"])
        query = request.query_params
        after = max(-1, _number(query.get("after", "-1")))
        return StreamingResponse(_parts(log, after, without_bodies="light" in query), media_type=JSON)

    async def event(self, request: Request) -> Response:
        log = self._found(request.query_params.get("run", ""))
        event = log.whole(_number(request.query_params.get("seq", "")))
        if event is None:
            raise HTTPException(404, f"run {log.id!r} has no such event")
        return Response(event, media_type=JSON)

    async def search(self, request: Request) -> Response:
        log = self._found(request.query_params.get("run", ""))
        seqs = await run_in_threadpool(events_with, request.query_params.get("q", ""), list(log.texts()))
        return Response(to_json({"seqs": seqs}), media_type=JSON)

    async def events(self, request: Request) -> Response:
        if self._bell.listeners >= MAX_PAGES:
            raise HTTPException(503, f"{MAX_PAGES} pages are listening already; close one")
        return _EventStream(partial(changes, self._runs, self._bell, request.headers.get("last-event-id")))

    def _found(self, run: str) -> RunLog:
        log = self._runs.find(run)
        if log is None:
            raise HTTPException(404, f"run {run!r} is not known here, or not any more")
        return log


class _EventStream(Response):
    """Server-sent events until there are no more, the page goes, or it takes nothing for too long."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self._make = make

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        telling = asyncio.ensure_future(self._tell(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait([telling, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            telling.cancel()
            leaving.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)

    async def _tell(self, send: Any) -> None:
        async with aclosing(self._make()) as chunks:
            async for chunk in chunks:
                async with asyncio.timeout(SEND_S):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _left(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _parts(log: RunLog, after: int, *, without_bodies: bool) -> AsyncIterator[bytes]:
    """Yield the JSON of a run in parts, so that a long one does not hold up the app."""
    yield b'{"run":' + to_json(log.summary()).encode() + b',"events":['
    count = len(log)
    for start in range(after + 1, count, PART):
        end = min(start + PART, count)
        if without_bodies:
            events = log.lights(start, end)
        else:
            events = [event for seq in range(start, end) if (event := log.whole(seq)) is not None]
        yield b"," * (start > after + 1) + b",".join(events)
        await asyncio.sleep(0)
    yield b"]}"


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise HTTPException(400, f"expected a whole number, got {text!r}") from None


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(msgspec.json.encode({"error": error.detail}), status_code=error.status_code, media_type=JSON)


async def _failed(_: Request, _error: Exception) -> Response:
    return Response(b'{"error":"the page failed; the log of the app says why"}', status_code=500, media_type=JSON)
