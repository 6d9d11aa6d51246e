"""What the tests of tool servers share: the faulty server, an agent that plays calls, servers at an address."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from interpose import Agent, RunResult
from interpose.mcp import MCPTools
from interpose.mcp.serving import QuietServer
from interpose.testing import ScriptedModel, calls

FAULTY = Path(__file__).with_name("faulty.py")
NODE_MODULES = Path(os.environ.get("INTERPOSE_NODE_MODULES") or Path.home() / ".cache/interpose/npm/node_modules")


def faulty(how: str = "well", diary: Path | None = None) -> list[str]:
    """The command of the faulty server."""
    return [sys.executable, "-S", "-E", str(FAULTY), how, *([str(diary)] if diary else [])]


def npm_server(name: str, *arguments: str) -> list[str]:
    """The command of a server from npm; the test is skipped where it is not installed."""
    script = NODE_MODULES / ".bin" / name
    node = shutil.which("node")
    if node is None or not script.exists():
        pytest.skip(f"needs node, and {name} in {NODE_MODULES} (INTERPOSE_NODE_MODULES)")
    return [node, str(script), *arguments]


def playing(*asked: Any, tools: MCPTools, **options: Any) -> Agent[Any]:
    """An agent that makes the calls, all in one step, and then says "done", as often as it is run."""

    def turn(request: Any) -> Any:
        return "done" if request.messages[-1].role == "tool" else calls(*asked)

    return Agent(ScriptedModel(*[turn] * 50), middleware=[tools], post_model_hooks=(), **options)


def results(run: RunResult) -> list[Any]:
    """What the calls of the first step came to."""
    return [one.data for one in run.steps[0].tool_results]


async def outcome(tools: MCPTools, *asked: Any, **options: Any) -> list[Any]:
    """The results of calls, made by an agent that is closed again."""
    async with playing(*asked, tools=tools, **options) as agent:
        run = await agent.run("go")
        return list(run.steps[0].tool_results)


def offered(agent: Agent[Any], request: int = 0) -> list[str]:
    """The names of the tools that the model was offered."""
    model: Any = agent.model
    return [tool.name for tool in model.requests[request].tools]


def methods(diary: Path) -> list[str]:
    """The methods of the messages that a faulty server got."""
    if not diary.exists():
        return []
    return [json.loads(line).get("method", "") for line in diary.read_text().splitlines()]


async def until(condition: Any, seconds: float = 10.0) -> None:
    """Wait until *condition()* holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # what is waited for rings no bell
            await asyncio.sleep(0.01)


@asynccontextmanager
async def at_address(app: Any, port: int = 0) -> AsyncIterator[str]:
    """Serve a server object of the SDK, or another ASGI app, and give its URL."""
    app = app.streamable_http_app() if hasattr(app, "streamable_http_app") else app
    server = QuietServer(uvicorn.Config(app, port=port, log_config=None, ws="none", timeout_graceful_shutdown=1))
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or task.done())
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await asyncio.wait([task])
