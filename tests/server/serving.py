"""An app that listens on a free port, as `interpose serve` would have it, and what a client makes of its events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2

from interpose import Agent
from interpose.events import AnyEvent, event_from_dict
from interpose.server import create_app
from interpose.server.serving import RunServer, bind


class Frame(NamedTuple):
    """One server-sent event."""

    id: int
    event: AnyEvent

    @property
    def type(self) -> str:
        return self.event.type


class Site(httpx2.AsyncClient):
    """A client of a server that listens."""

    def __init__(self, url: str, server: RunServer) -> None:
        super().__init__(base_url=url, timeout=20.0)
        self.server = server

    @property
    def port(self) -> int:
        return self.base_url.port or 0

    @property
    def runs(self) -> Any:
        return self.server._runs

    async def ask(self, prompt: str | None = "Hi", name: str = "a", **fields: Any) -> list[Frame]:
        """Run an agent to the end and return its events."""
        headers = fields.pop("headers", {})
        async with self.stream("POST", f"/ag-ui/{name}", json=run_input(prompt, **fields), headers=headers) as answer:
            assert answer.status_code == 200, (await answer.aread()).decode()
            return [frame async for frame in frames(answer)]

    async def post(self, url: Any, **options: Any) -> httpx2.Response:
        return await super().post(url, **options)


def run_input(prompt: str | None = "Hi", **fields: Any) -> dict[str, Any]:
    """What an AG-UI client sends; with *token*, nothing of it is in here."""
    said = [] if prompt is None else [{"id": f"u-{prompt[:20]}", "role": "user", "content": prompt}]
    return {"threadId": "t1", "runId": "r1", "messages": said, "tools": [], "context": [], "state": {}} | fields


async def frames(answer: httpx2.Response) -> AsyncIterator[Frame]:
    """Yield the events of an answer as they come."""
    id = -1
    async for line in answer.aiter_lines():
        if line.startswith("id: "):
            id = int(line[4:])
        elif line.startswith("data: "):
            yield Frame(id, event_from_dict(json.loads(line[6:])))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@asynccontextmanager
async def served(agents: Agent[Any] | dict[str, Agent[Any]], **options: Any) -> AsyncIterator[Site]:
    """Serve agents until the block is left."""
    app = create_app(agents if isinstance(agents, dict) else {"a": agents}, **{"shutdown_s": 0.2, **options})
    sock = bind("127.0.0.1", 0)
    server = RunServer(app, log_level="critical")
    serving = asyncio.ensure_future(server.serve(sockets=[sock]))
    try:
        while not server.started:  # noqa: ASYNC110  # uvicorn tells nobody when it has begun
            await asyncio.sleep(0.005)
        async with Site(f"http://127.0.0.1:{sock.getsockname()[1]}", server) as site:
            yield site
    finally:
        server.should_exit = True
        await serving
        await asyncio.sleep(0.01)  # for the transports that were closed last
        sock.close()


def text_of(found: list[Frame]) -> str:
    return "".join(getattr(one.event, "delta", "") for one in found if one.type == "TEXT_MESSAGE_CONTENT")


def types_of(found: list[Frame]) -> list[str]:
    return [one.type for one in found]
