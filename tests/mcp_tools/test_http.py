"""Servers behind a URL: headers, limits, restarts, errors of HTTP, cancellation in both protocols."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from tests.mcp_tools.stage import at_address, offered, outcome, playing, results

from interpose import Agent, ConfigurationError, RunAborted
from interpose.mcp import MCPTools, ToolServerError
from interpose.testing import ScriptedModel, calls, collect
from interpose.testing import text as says

ADD = ("add", {"a": 1, "b": 2})
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Place:
    """A server with a few tools, and what became of them."""

    def __init__(self) -> None:
        self.server = MCPServer("place")
        self.ran = 0
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        for function in (self.add, self.hang, self.tell, self.huge, self.grow):
            self.server.add_tool(function)
        self.server.add_tool(self.look, annotations=ToolAnnotations(read_only_hint=True))

    def add(self, a: int, b: int) -> int:
        self.ran += 1
        return a + b

    def look(self) -> str:
        self.ran += 1
        return "seen"

    async def hang(self) -> str:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "never"

    async def tell(self, ctx: Context) -> str:
        for part in range(3):
            await ctx.report_progress(part, 3, f"part {part}")
        return "told"

    def huge(self, size: int) -> str:
        return "x" * size

    async def grow(self, ctx: Context) -> str:
        self.server.add_tool(lambda: "fresh", name="grown", description="New.")
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"


@pytest.fixture
async def place() -> Place:
    return Place()


@pytest.fixture
async def url(place: Place) -> AsyncIterator[str]:
    async with at_address(place.server) as url:
        yield url


@MODES
async def test_tool_behind_a_url_is_called(url: str, mode: str) -> None:
    assert [one.data for one in await outcome(MCPTools(url, mode=mode), ADD)] == [{"result": 3}]


@MODES
async def test_progress_behind_a_url(url: str, mode: str) -> None:
    async with playing(("tell", {}), tools=MCPTools(url, mode=mode)) as agent, agent.stream("go") as run:
        events = await collect(run)
    told = [event.value["message"] for event in events if event.type == "CUSTOM"]  # type: ignore[attr-defined]
    assert told == ["part 0", "part 1", "part 2"]


@MODES
async def test_abort_cancels_the_call_behind_a_url(place: Place, url: str, mode: str) -> None:
    tools = MCPTools(url, mode=mode)
    async with playing(("hang", {}), tools=tools) as agent, agent.stream("go") as run:
        await place.begun.wait()
        began = time.monotonic()
        run.abort("enough")
        with pytest.raises(RunAborted):
            await run.result()
        assert time.monotonic() - began < 0.5
        async with asyncio.timeout(5):
            await place.cancelled.wait()


@MODES
async def test_new_tool_behind_a_url_is_offered(url: str, mode: str) -> None:
    model = ScriptedModel(calls(("grow", {})), *[says("done")] * 100)
    async with Agent(model, middleware=[MCPTools(url, mode=mode)]) as agent:
        await agent.run("go")
        async with asyncio.timeout(10):
            while "grown" not in offered(agent, -1):  # over HTTP it is told beside the result, and may come after it
                await agent.run("and now?")


async def test_result_larger_than_the_limit_is_an_error(url: str) -> None:
    tools = MCPTools(url, max_message_bytes=50_000)
    async with playing(("huge", {"size": 200_000}), tools=tools) as agent:
        (result,) = (await agent.run("go")).steps[0].tool_results
    assert result.is_error
    assert (await outcome(tools, ADD))[0].data == {"result": 3}


async def test_json_answer_larger_than_the_limit_is_an_error(place: Place) -> None:
    async with at_address(place.server.streamable_http_app(json_response=True)) as url:
        tools = MCPTools(url, max_message_bytes=50_000)
        (result,) = await outcome(tools, ("huge", {"size": 200_000}))
    assert result.is_error
    assert "larger than 50,000 bytes" in result.data


class Switch:
    """A server at one address that can be switched off and on; each time it has forgotten its sessions."""

    def __init__(self) -> None:
        self.place = Place()
        self.port = 0

    async def on(self) -> str:
        self._held = at_address(self.place.server.streamable_http_app(), self.port)
        url = await self._held.__aenter__()
        self.port = int(url.split(":")[2].partition("/")[0])
        self.place = Place()
        return url

    async def off(self) -> None:
        await self._held.__aexit__(None, None, None)


@MODES
async def test_server_restarted_between_runs_is_found_again(mode: str) -> None:
    switch = Switch()
    agent = playing(ADD, tools=MCPTools(await switch.on(), mode=mode))
    assert results(await agent.run("go")) == [{"result": 3}]
    await switch.off()
    await switch.on()
    assert results(await agent.run("go")) == [{"result": 3}]
    await agent.aclose()
    await switch.off()


@MODES
async def test_server_that_is_away_refuses_a_run_and_serves_the_next(mode: str) -> None:
    switch = Switch()
    agent = playing(ADD, tools=MCPTools(await switch.on(), mode=mode, name="it"))
    assert results(await agent.run("go")) == [{"result": 3}]
    await switch.off()
    (result,) = (await agent.run("go")).steps[0].tool_results  # nobody has noticed yet
    assert result.is_error
    assert "the tool server it cannot be used: nothing answers there" in result.data
    with pytest.raises(ToolServerError, match="the tool server it cannot be used: nothing answers there"):
        await agent.run("go")
    await switch.on()
    assert results(await agent.run("go")) == [{"result": 3}]
    await agent.aclose()
    await switch.off()


@pytest.mark.parametrize("asked", [ADD, ("look", {})], ids=["writes", "reads"])
@MODES
async def test_server_restarted_within_a_run_is_found_again(mode: str, asked: Any) -> None:
    switch = Switch()
    url = await switch.on()

    async def restart(ctx: Any, call: Any) -> None:
        await switch.off()
        await switch.on()

    agent = playing(asked, tools=MCPTools(url, mode=mode), before_tool=restart)
    (result,) = (await agent.run("go")).steps[0].tool_results
    assert (result.data, result.is_error) == ({"result": 3} if asked is ADD else {"result": "seen"}, False)
    await agent.aclose()
    await switch.off()


def refusing(status: int) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/html")]})
            await send({"type": "http.response.body", "body": b"<html>secret</html>"})

    return app


STATUSES = [
    (401, "it answered HTTP 401 Unauthorized: give headers="),
    (403, "HTTP 403 Forbidden: the headers are not enough"),
    (404, "HTTP 404 Not Found: is the path right"),
    (500, "HTTP 500 Internal Server Error"),
    (200, "Unexpected content type: text/html"),
]


@pytest.mark.parametrize(("status", "text"), STATUSES, ids=[str(one[0]) for one in STATUSES])
async def test_error_of_http_says_what_to_do(status: int, text: str) -> None:
    async with at_address(refusing(status)) as url:
        agent = playing(ADD, tools=MCPTools(url))
        with pytest.raises(ConfigurationError, match=text):
            await agent.run("go")


async def test_headers_are_sent_and_asked_for_anew_at_each_connection(place: Place) -> None:
    inner = place.server.streamable_http_app()
    seen: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(dict(scope["headers"])[b"authorization"])
        await inner(scope, receive, send)

    tokens = iter(["one", "two"])
    async with at_address(app) as url:
        tools = MCPTools(url, headers=lambda: {"Authorization": f"Bearer {next(tokens)}"})
        await outcome(tools, ADD)
        assert set(seen) == {b"Bearer one"}
        seen.clear()
        await outcome(tools, ADD)
        assert set(seen) == {b"Bearer two"}


def asking_for(tokens: set[str], inner: Any, seen: list[str]) -> Any:
    """Return *inner* behind a door that lets bearers of *tokens* in, and notes who came."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            token = dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer ")
            seen.append(token)
            if token not in tokens:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await inner(scope, receive, send)

    return app


@MODES
async def test_token_that_runs_out_is_replaced_within_the_connection(place: Place, mode: str) -> None:
    tokens, seen = {"one"}, list[str]()
    newest = ["one"]

    def expire() -> None:
        tokens.clear()
        tokens.add("two")
        newest.append("two")
        seen.clear()

    async with at_address(asking_for(tokens, place.server.streamable_http_app(), seen)) as url:
        tools = MCPTools(url, headers=lambda: {"Authorization": f"Bearer {newest[-1]}"}, mode=mode)
        agent = Agent(ScriptedModel(calls(ADD, ADD, ADD), "Done."), middleware=[tools], before_tool=once(expire))
        async with agent:
            found = (await agent.run("go")).steps[0].tool_results
        assert [one.data for one in found] == [{"result": 3}] * 3
        assert place.ran == 3
        assert set(seen[-3:]) == {"two"}


async def test_token_that_stays_wrong_is_an_error_and_asked_for_once(place: Place) -> None:
    tokens, asked = {"one"}, list[str]()
    inner = asking_for(tokens, place.server.streamable_http_app(), [])

    def headers() -> dict[str, str]:
        asked.append("")
        return {"Authorization": "Bearer one"}

    async with at_address(inner) as url:
        agent = playing(ADD, tools=MCPTools(url, headers=headers), before_tool=once(tokens.clear))
        (result,) = (await agent.run("go")).steps[0].tool_results
        await agent.aclose()
    assert result.is_error
    assert "401" in result.data
    assert len(asked) <= 3  # for the connection, the call, and the end of the session


async def test_function_of_headers_that_fails_leaves_the_refusal(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, given = {"one"}, iter(["one"])
    inner = asking_for(tokens, place.server.streamable_http_app(), [])
    tools: dict[str, Any] = {"headers": lambda: {"Authorization": f"Bearer {next(given, None) or 1 / 0}"}}
    async with at_address(inner) as url:
        agent = playing(ADD, tools=MCPTools(url, **tools), before_tool=once(tokens.clear))
        (result,) = (await agent.run("go")).steps[0].tool_results
        await agent.aclose()
    assert "401" in result.data
    assert "gives the headers failed" in caplog.text


def once(act: Any) -> Any:
    """Return a hook of tools that acts before the first call alone."""
    done: list[bool] = []

    def before(*_: Any) -> None:
        if not done:
            done.append(True)
            act()

    return before


@pytest.mark.parametrize("value", ["Bearer secret\n", "Bearer sécret", " Bearer secret"])
def test_header_that_cannot_be_sent_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(ConfigurationError, match="'Authorization' must be ASCII") as caught:
        MCPTools("http://127.0.0.1:9/mcp", headers={"Authorization": value})
    assert "cret" not in str(caught.value)


def answering(kind: str, piece_bytes: int) -> Any:
    """Return a bare server, whose one tool answers with half a character, in pieces, as JSON or as an event."""
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": NAMED},
        "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "cut \ud83d, 👍 \\ud83d"}]},
    }

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        asked = json.loads((await receive())["body"] or b"{}")
        answer = {"jsonrpc": "2.0", "id": asked.get("id"), "result": results.get(asked.get("method"))}
        body = json.dumps(answer).encode() if answer["result"] else b""
        body = b"event: message\ndata: " + body + b"\n\n" if kind == "text/event-stream" else body
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200 if answer["result"] else 202, "headers": headers})
        for place in range(0, len(body), piece_bytes):
            await send({"type": "http.response.body", "body": body[place : place + piece_bytes], "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


NAMED = {"name": "bare", "version": "1"}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("piece_bytes", [7, 10_000])
async def test_half_characters_behind_a_url_are_replaced(kind: str, piece_bytes: int) -> None:
    async with at_address(answering(kind, piece_bytes)) as url:
        (result,) = await outcome(MCPTools(url, mode="legacy", timeout_s=5), ("t", {}))
    assert (result.data, result.is_error) == ("cut \ufffd, 👍 \\ud83d", False)
