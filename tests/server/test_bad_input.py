"""What strangers send: each gets a clear status and text, nothing leaks, and the server goes on."""

import asyncio
import json
from typing import Any

import pytest
from bench.server import closed
from tests.server.serving import Site, bearer, run_input, served, text_of

from interpose import Agent
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, text

LONG = "x" * 201


def agent() -> Agent[Any]:
    return Agent(ScriptedModel("Hi."))


async def still_serves(site: Site, **options: Any) -> bool:
    return text_of(await site.ask(runId="fine", threadId="fine", **options)) == "Hi."


CALLED = {"role": "assistant", "toolCalls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]}
TOLD = {"role": "tool", "toolCallId": "c1", "content": "a door"}
BODIES: dict[str, tuple[Any, int, str]] = {
    "no object": ([], 422, "RunAgentInput"),
    "a text": ("hi", 422, "RunAgentInput"),
    "messages no list": ({"messages": "hi"}, 422, "messages"),
    "message no object": ({"messages": ["hi"]}, 422, "messages"),
    "no role": ({"messages": [{"content": "hi"}]}, 422, "role"),
    "unknown role": ({"messages": [{"role": "robot", "content": "hi"}]}, 422, "robot"),
    "role no text": ({"messages": [{"role": 7, "content": "hi"}]}, 422, "role"),
    "content a number": ({"messages": [{"role": "user", "content": 7}]}, 422, "content"),
    "content of unknown parts": ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, 422, "messages[0]"),
    "part without source": (
        {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
        422,
        "messages[0]: 'source'",
    ),
    "call without function": ({"messages": [{"role": "assistant", "toolCalls": [{"id": "x"}]}]}, 422, "messages"),
    "calls no list": ({"messages": [{"role": "assistant", "toolCalls": 7}]}, 422, "messages[0] "),
    "metadata no object": ({"messages": [{"role": "user", "content": "hi", "metadata": 7}]}, 422, "messages"),
    "result without its call": ({"messages": [TOLD, {"role": "user", "content": "hi"}]}, 422, "'c1'"),
    "result before its call": ({"messages": [TOLD, CALLED]}, 422, "'c1'"),
    "result given twice": ({"messages": [CALLED, TOLD, TOLD]}, 422, "'c1'"),
    "thread id a number": ({"threadId": 7}, 422, "threadId"),
    "thread id empty": ({"threadId": ""}, 422, "threadId"),
    "thread id with a line": ({"threadId": "a\nb"}, 422, "threadId"),
    "thread id with NUL": ({"threadId": "a\0b"}, 422, "threadId"),
    "run id too long": ({"runId": LONG}, 422, "runId"),
    "parent id with a blank": ({"parentRunId": "a b"}, 422, "parentRunId"),
    "resume no list": ({"resume": {"a": True}}, 422, "resume"),
    "resume without id": ({"resume": [{"status": "resolved"}]}, 422, "interruptId"),
    "resume of unknown status": ({"resume": [{"interruptId": "i", "status": "maybe"}]}, 422, "status"),
    "resume of nothing": ({"resume": [{"interruptId": "i", "status": "resolved"}]}, 409, "questions"),
    "tools no list": ({"tools": 1}, 422, "tools"),
    "context no list": ({"context": 1}, 422, "context"),
}


@pytest.mark.parametrize("name", BODIES)
async def test_wrong_fields_are_named(name: str) -> None:
    body, status, named = BODIES[name]
    async with served(agent()) as site:
        answer = await site.post("/ag-ui/a", json=body)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        assert named in answer.json()["error"]["message"]
        assert await still_serves(site)


async def test_half_a_character_in_json_becomes_a_sign_of_replacement() -> None:
    model = ScriptedModel("Hi.")
    raw = rb'{"messages": [{"role": "user", "content": "\ud83d\ude00 \ud83d! \\ud83d \udc00"}]}'
    async with served(Agent(model)) as site:
        answer = await site.post("/ag-ui/a", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    assert model.requests[0].messages[0].text == "\U0001f600 \ufffd! \\ud83d \ufffd"


async def test_ids_with_slashes_can_be_read_and_cancelled() -> None:
    async with served(Agent(ScriptedModel("Hi."), store=MemoryStore())) as site:
        await site.ask(runId="2026/11/r?1", threadId="../t#1")
        events = await site.get("/ag-ui/a/runs/2026%2F11%2Fr%3F1/events")
        cancelled = await site.post("/ag-ui/a/runs/2026%2F11%2Fr%3F1/cancel")
        thread = await site.get("/ag-ui/a/threads/..%2Ft%231")
    assert "RUN_FINISHED" in events.text
    assert cancelled.json() == {"runId": "2026/11/r?1", "cancelled": False}
    assert [one["content"] for one in thread.json()["messages"]] == ["Hi", "Hi."]


async def test_read_without_a_run_says_how_to_name_it() -> None:
    async with served(agent()) as site:
        answer = await site.get("/ag-ui/a")
    assert (answer.status_code, "?runId=" in answer.json()["error"]["message"]) == (422, True)


async def test_two_tokens_let_nobody_in() -> None:
    async with served(agent(), auth={"sec-1": "ann", "sec-2": "bob"}) as site:
        two = [("authorization", "Bearer sec-1"), ("authorization", "Bearer sec-2")]
        assert (await site.get("/ag-ui", headers=two)).status_code == 401
        assert (await site.get("/ag-ui", headers=[two[0], two[0]])).status_code == 200


RAW: dict[str, bytes] = {
    "empty": b"",
    "cut": b'{"threadId": "t',
    "not JSON": b"threadId=t",
    "not UTF-8": b'{"threadId": "\xff\xfe"}',
    "nested too deep": b"[" * 100_000,
    "two values": b"{} {}",
    "NaN": b'{"state": NaN}',
}


@pytest.mark.parametrize("url", ["/ag-ui/a", "/v1/chat/completions"])
@pytest.mark.parametrize("name", RAW)
async def test_bodies_that_are_no_json(name: str, url: str) -> None:
    async with served(agent()) as site:
        answer = await site.post(url, content=RAW[name], headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_json")
        assert await still_serves(site)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": ""},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
    ids=str,
)
async def test_other_types_are_refused(headers: dict[str, str]) -> None:
    async with served(agent()) as site:
        answer = await site.post("/ag-ui/a", content=json.dumps(run_input()).encode(), headers=headers)
    assert answer.status_code == 415


@pytest.mark.parametrize("chunked", [False, True], ids=["with length", "chunked"])
async def test_body_of_100_mb_is_refused_and_not_kept(chunked: bool) -> None:
    part = b" " * 1_000_000

    async def parts() -> Any:
        for _ in range(100):
            yield part

    async with served(agent()) as site:
        headers = {"content-type": "application/json"} | ({} if chunked else {"content-length": str(100_000_000)})
        answer = await site.post("/ag-ui/a", content=parts(), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert await still_serves(site)


async def test_body_that_does_not_come_is_not_waited_for() -> None:
    async with served(agent(), body_timeout_s=0.2) as site:
        reader, writer = await asyncio.open_connection(site.base_url.host, site.base_url.port)
        writer.write(
            b"POST /ag-ui/a HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"
        )
        async with asyncio.timeout(10):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        await closed(writer)
        assert await still_serves(site)


@pytest.mark.parametrize("event_id", ["x", "1.5", "٣", "9" * 30, "-"])
async def test_event_ids_that_are_none(event_id: str) -> None:
    async with served(agent()) as site:
        await site.ask()
        answer = await site.get(f"/ag-ui/a/runs/r1/events?after={event_id}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_event_id")


async def test_event_id_beyond_the_end_gives_nothing() -> None:
    async with served(agent()) as site:
        await site.ask()
        answer = await site.get("/ag-ui/a/runs/r1/events", headers={"last-event-id": "999"})
    assert (answer.status_code, answer.text) == (200, "")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/ag-ui/b", 404),
        ("GET", "/ag-ui/a", 422),
        ("GET", "/ag-ui/a?runId=none", 404),
        ("GET", "/ag-ui/a/runs/none/events", 404),
        ("POST", "/ag-ui/a/runs/none/cancel", 404),
        ("GET", "/ag-ui/a/runs/none/cancel", 405),
        ("GET", "/ag-ui/b/threads", 404),
        ("GET", "/ag-ui/a/threads/none", 404),
        ("GET", "/ag-ui/a/threads?limit=many", 400),
        ("GET", "/ag-ui/a/threads?limit=-1", 400),
        ("GET", "/ag-ui/a/threads?before=nan", 400),
        ("GET", "/ag-ui/a/interrupts?threadId=%00", 422),
        ("GET", "/v1/models/none", 404),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/nowhere", 404),
        ("GET", "/ag-ui/a/../../etc/passwd", 404),
    ],
)
async def test_addresses_that_are_none(method: str, path: str, status: int) -> None:
    async with served(agent()) as site:
        answer = await site.request(method, path, json=run_input() if method == "POST" else None)
        assert (answer.status_code, "error" in answer.json()) == (status, True)
        assert await still_serves(site)


@pytest.mark.parametrize("auth", [{"tok": "ann"}, "tok", lambda request: None], ids=["owners", "token", "function"])
@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "tok"}, {"authorization": "Basic tok"}, bearer("to"), bearer("tokk"), bearer("tok x")],
    ids=str,
)
async def test_wrong_keys_let_nobody_in(auth: Any, headers: dict[str, str]) -> None:
    async with served(agent(), auth=auth) as site:
        for method, path in (
            ("POST", "/ag-ui/a"),
            ("GET", "/ag-ui"),
            ("GET", "/ag-ui/a/threads"),
            ("GET", "/ag-ui/a/runs/r1/events"),
            ("GET", "/ag-ui/no-such-agent/threads"),
            ("GET", "/v1/models"),
            ("POST", "/v1/chat/completions"),
        ):
            answer = await site.request(method, path, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert (await site.get("/healthz")).status_code == 200


async def test_auth_that_fails_is_no_way_in(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Any) -> str:
        raise RuntimeError("ldap password hunter2")

    async with served(agent(), auth=broken) as site:
        answer = await site.post("/ag-ui/a", json=run_input())
    assert (answer.status_code, "hunter2" in answer.text, "hunter2" in caplog.text) == (500, False, True)


async def test_asked_function_says_who_it_is() -> None:
    async def ask(request: Any) -> str | None:
        user: str | None = request.headers.get("x-user")
        return user

    async with served(agent(), auth=ask) as site:
        assert await still_serves(site, headers={"x-user": "ann"})
        assert (await site.get("/ag-ui")).status_code == 401


async def test_pages_of_other_sites_are_refused_unless_named() -> None:
    async with served(Agent(ScriptedModel("Hi.", "Ho.")), origins=["https://app.example"]) as site:
        evil = await site.post("/ag-ui/a", json=run_input(), headers={"origin": "https://evil.example"})
        broken = await site.post("/ag-ui/a", json=run_input(), headers={"origin": "http://[::1"})
        good = await site.post("/ag-ui/a", json=run_input(), headers={"origin": "https://app.example"})
        same = await site.post(
            "/ag-ui/a", json=run_input(runId="r2"), headers={"origin": str(site.base_url).rstrip("/")}
        )
    assert (evil.status_code, broken.status_code, good.status_code, same.status_code) == (403, 403, 200, 200)
    assert good.headers["access-control-allow-origin"] == "https://app.example"


async def test_hosts_may_be_named() -> None:
    async with served(agent(), hosts=["127.0.0.1"]) as site:
        rebound = await site.get("/ag-ui", headers={"host": "evil.example"})
        assert rebound.status_code == 403
        assert await still_serves(site)


async def test_client_that_never_reads_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    big = Agent(ScriptedModel(text(chunks=["x" * 100_000] * 400), "Hi."), post_model_hooks=())
    async with served(big, send_timeout_s=0.3) as site:
        reader, writer = await asyncio.open_connection(site.base_url.host, site.base_url.port, limit=1024)
        body = json.dumps(run_input()).encode()
        head = b"POST /ag-ui/a HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(15):
            while site.runs.readers:  # noqa: ASYNC110  # nobody tells when the server gives up
                await asyncio.sleep(0.05)
        assert await still_serves(site)
        await closed(writer)


async def test_too_many_runs_are_refused() -> None:
    from tests.server.test_reconnect import Gate, waiting

    gate = Gate()
    async with served(waiting(gate), auth={"x": "ann", "y": "bob"}, max_runs=2, max_runs_per_owner=1) as site:
        first = asyncio.ensure_future(site.ask(headers=bearer("x")))
        await gate.entered.wait()
        own = await site.post("/ag-ui/a", json=run_input(runId="r2", threadId="t2"), headers=bearer("x"))
        body = {"model": "a", "messages": [{"role": "user", "content": "hi"}]}
        same = await site.post("/v1/chat/completions", json=body, headers=bearer("x"))
        gate.opened.set()
        await first
    assert (own.status_code, same.status_code, own.json()["error"]["code"]) == (429, 429, "too_many_runs")
