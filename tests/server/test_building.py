"""Mistakes in `create_app` are found when it is called."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.serving import run_input, served, text_of

from interpose import Agent, ConfigurationError
from interpose.server import Options, create_app
from interpose.server.http import Starlette
from interpose.stores import SQLStore
from interpose.testing import ScriptedModel, text

AGENT = Agent(ScriptedModel())


@pytest.mark.parametrize(
    ("agents", "options", "said"),
    [
        ({}, {}, "one at least"),
        (AGENT, {}, "by name"),
        ([AGENT], {}, "by name"),
        ({"a/b": AGENT}, {}, "no name"),
        ({"": AGENT}, {}, "no name"),
        ({"..": AGENT}, {}, "no name"),
        ({"a\nb": AGENT}, {}, "no name"),
        ({"a": "openai:x"}, {}, "not an Agent"),
        ({"a": AGENT}, {"auth": ""}, "token"),
        ({"a": AGENT}, {"auth": " x"}, "token"),
        ({"a": AGENT}, {"auth": {}}, "lets nobody in"),
        ({"a": AGENT}, {"auth": {"x": ""}}, "name"),
        ({"a": AGENT}, {"auth": 7}, "expected a token"),
        ({"a": AGENT}, {"on_disconnect": "stop"}, "on_disconnect"),
        ({"a": AGENT}, {"max_runs": 0}, "max_runs"),
        ({"a": AGENT}, {"max_body_bytes": True}, "max_body_bytes"),
        ({"a": AGENT}, {"keep_s": -1}, "keep_s"),
        ({"a": AGENT}, {"origins": "https://x"}, "origins"),
        ({"a": AGENT}, {"origins": ["https://app.example/"]}, "https://app.example/"),
        ({"a": AGENT}, {"origins": ["app.example"]}, "app.example"),
        ({"a": AGENT}, {"hosts": ["app.example:80"]}, "without a port"),
        ({"a": AGENT}, {"show_error": "no"}, "show_error"),
        ({"a": AGENT}, {"max_run": 3}, "max_runs"),
    ],
)
def test_what_makes_no_sense_is_said(agents: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        create_app(agents, **options)


def test_options_are_all_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text("utf-8")
    assert [one.name for one in fields(Options) if f"`{one.name}" not in page] == []


async def test_app_may_be_mounted_in_another() -> None:
    outer = Starlette()
    outer.mount("/agents", create_app({"a": Agent(ScriptedModel("Hi."))}))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url="http://x") as client:
        answer = await client.post("/agents/ag-ui/a", json=run_input())
    assert "Hi." in answer.text


async def test_store_out_of_reach_is_said_without_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"no database at all, but long enough to be one" * 40)
    store = SQLStore(f"sqlite:///{tmp_path}/s.db")
    async with store, served(Agent(ScriptedModel("Hi."), store=store)) as site:
        begun = await site.post("/ag-ui/a", json=run_input())
        listed = await site.get("/ag-ui/a/threads")
        read = await site.get("/ag-ui/a/runs/r1/events")
        alive = await site.get("/healthz")
    assert (begun.status_code, listed.status_code, read.status_code, alive.status_code) == (503, 503, 503, 200)
    assert str(tmp_path) not in begun.text + listed.text + read.text


@pytest.mark.parametrize("said", ["a\u2028b\u2029c\x85d", "l\r\n\r\ndata: x", "😀\ud83d", "\x00\x1f"], ids=ascii)
async def test_any_text_arrives_as_it_was(said: str) -> None:
    async with served(Agent(ScriptedModel(text(said)))) as site:
        found = await site.ask()
    assert text_of(found) == said.replace("\ud83d", "\ufffd")
