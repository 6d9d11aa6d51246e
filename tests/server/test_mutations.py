"""Requests with one thing wrong in them, at every place: refused or answered, and never a failure of the server."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from interpose import Agent
from interpose.server import create_app
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel

RUN: dict[str, Any] = {
    "parentRunId": "p",
    "state": {"a": 1},
    "messages": [
        {
            "id": "1",
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image", "source": {"type": "url", "value": "http://x", "mimeType": "image/png"}},
            ],
            "name": "n",
            "metadata": {"interpose": {"parts": []}},
        },
        {
            "id": "2",
            "role": "assistant",
            "content": "y",
            "toolCalls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "metadata": {}}
            ],
            "metadata": {"interpose": {"reasoning": "z"}},
        },
        {"id": "3", "role": "tool", "toolCallId": "c", "content": "ok", "error": "no"},
        {"id": "4", "role": "user", "content": "go"},
    ],
    "tools": [{"name": "q", "description": "d", "parameters": {"type": "object", "properties": {"a": {}}}}],
    "context": [{"description": "d", "value": "v"}],
    "forwardedProps": {},
}
CHAT: dict[str, Any] = {
    "model": "a",
    "messages": [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}},
                {"type": "input_audio", "input_audio": {"data": "aa", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ],
    "tools": [{"type": "function", "function": {"name": "q", "parameters": {"type": "object", "properties": {}}}}],
    "tool_choice": "auto",
    "stream": False,
    "stream_options": {"include_usage": True},
    "stop": ["x"],
    "temperature": 1.0,
    "max_tokens": 5,
}
GONE = object()
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    10**30,
    "",
    "\ud83d",
    "\0",
    [],
    {},
    [[]],
    {"a": {}},
    ["x"],
    [None],
    "system",
    GONE,
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something stands in *value*."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*place, key)
        yield from places(inner, (*place, key))


def changed(body: dict[str, Any], place: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    """Return *body* with *wrong* at *place*, or with nothing there."""
    body = copy.deepcopy(body)
    inner: Any = body
    for key in place[:-1]:
        inner = inner[key]
    if wrong is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = wrong
    return body


def mutations(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place in places(body):
        for wrong in WRONG:
            yield changed(body, place, wrong)


@pytest.mark.parametrize("make_store", [lambda: None, MemoryStore], ids=["no store", "store"])
@pytest.mark.parametrize(("url", "body"), [("/ag-ui/a", RUN), ("/v1/chat/completions", CHAT)], ids=["AG-UI", "OpenAI"])
async def test_nothing_that_is_sent_fails_the_server(url: str, body: dict[str, Any], make_store: Any) -> None:
    agent = Agent(ScriptedModel(*["Hi."] * 2000), store=make_store())
    app = create_app({"a": agent}, client_tools=True, client_system_messages=True)
    failed = []
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as client:
        for sent in mutations(body):
            content = json.dumps(sent).encode()
            answer = await client.post(url, content=content, headers={"content-type": "application/json"})
            if answer.status_code >= 500 or "RUN_ERROR" in answer.text:
                failed.append((answer.status_code, sent))
    assert failed == []
