"""Clients that others wrote, on Node: AG-UI's HttpAgent, TanStack AI, OpenAI's SDK. Skipped where there is no Node."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import served
from tests.server.test_reconnect import Gate, read, waiting

from interpose import Agent, tool
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, fail, text

CLIENTS = Path(__file__).parent / "clients"
PACKAGES = ("@ag-ui/client", "@tanstack/ai-client", "openai")

pytestmark = pytest.mark.timeout(180)
Play = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


@pytest.fixture(scope="session")
def node() -> str:
    """Where Node is, with the clients installed beside the scripts."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found is None or npm is None:
        pytest.skip("there is no Node here")
    if not all((CLIENTS / "node_modules" / name).is_dir() for name in PACKAGES):
        install = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(install, cwd=CLIENTS, capture_output=True, text=True, timeout=150, check=False)
        if done.returncode:
            pytest.skip(f"the clients could not be installed: {done.stderr[-200:]}")
    return found


@pytest.fixture
def play(node: str) -> Play:
    async def run(script: str, *given: Any) -> dict[str, Any]:
        arguments = [one if isinstance(one, str) else json.dumps(one) for one in given]
        process = await asyncio.create_subprocess_exec(
            node, str(CLIENTS / script), *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err.decode()
        told: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
        return told

    return run


@tool
def look(where: str) -> str:
    """Look somewhere."""
    return f"a door in the {where}"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.mark.parametrize("make_store", [lambda: None, MemoryStore], ids=["no store", "store"])
async def test_http_agent_text_and_parallel_tools(play: Play, make_store: Any) -> None:
    model = ScriptedModel(
        calls(("look", {"where": "east"}), ("look", {"where": "west"}), text="Let me see."),
        text(chunks=["Two ", "doors."], reasoning="Hm."),
        "Still two.",
    )
    async with served(Agent(model, tools=[look], store=make_store())) as site:
        told = await play("http_agent.mjs", f"{site.base_url}/ag-ui/a", {"turns": [{"say": "Look."}, {"say": "And?"}]})
    assert [one["error"] for one in told["turns"]] == [None, None]
    said = [(one["role"], one.get("content")) for one in told["messages"] if one["role"] != "reasoning"]
    assert said == [
        ("user", "Look."),
        ("assistant", "Let me see."),
        ("tool", "a door in the east"),
        ("tool", "a door in the west"),
        ("assistant", "Two doors."),
        ("user", "And?"),
        ("assistant", "Still two."),
    ]
    assert [one.role for one in model.requests[2].messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("make_store", [lambda: None, MemoryStore], ids=["no store", "store"])
@pytest.mark.parametrize(
    ("resume", "result"),
    [({"status": "resolved", "payload": {"approved": True}}, "paid 5"), ({"status": "cancelled"}, None)],
    ids=["approved", "withdrawn"],
)
async def test_http_agent_answers_a_question(play: Play, make_store: Any, resume: dict[str, Any], result: Any) -> None:
    model = ScriptedModel(calls(("pay", {"amount": 5}), ("look", {"where": "x"}), text="I ask."), "Done.", "Bye.")
    agent = Agent(model, tools=[pay, look], store=make_store())
    turns = [{"say": "Pay."}, {"resume": resume}, {"say": "Bye"}]
    async with served(agent) as site:
        told = await play("http_agent.mjs", f"{site.base_url}/ag-ui/a", {"turns": turns})
    assert [one["error"] for one in told["turns"]] == [None, None, None]
    assert [len(one["pending"]) for one in told["turns"]] == [1, 0, 0]
    assert [one["content"] for one in told["messages"] if one["role"] == "assistant"] == ["I ask.", "Done.", "Bye."]
    results = [one["content"] for one in told["messages"] if one["role"] == "tool"]
    assert "a door in the x" in results
    assert len(results) == 2
    if result:
        assert result in results


async def test_http_agent_sees_failures(play: Play) -> None:
    model = ScriptedModel(fail(RuntimeError("key sk-1"), after=["Half"]), "Whole.")
    async with served(Agent(model)) as site:
        told = await play("http_agent.mjs", f"{site.base_url}/ag-ui/a", {"turns": [{"say": "Hi"}, {"say": "Again"}]})
        wrong = await play("http_agent.mjs", f"{site.base_url}/ag-ui/nobody", {"turns": [{"say": "Hi"}]})
    assert told["turns"][0]["types"][-1] == "RUN_ERROR"
    assert "error id err_" in told["turns"][0]["error"]
    assert "sk-1" not in json.dumps(told)
    assert told["messages"][-1]["content"] == "Whole."
    assert "404" in wrong["turns"][0]["error"]


async def test_http_agent_with_tokens(play: Play) -> None:
    async with served(Agent(ScriptedModel("Hi.")), auth={"tok": "ann"}) as site:
        plan = {"turns": [{"say": "Hi"}]}
        url = f"{site.base_url}/ag-ui/a"
        good = await play("http_agent.mjs", url, {**plan, "headers": {"Authorization": "Bearer tok"}})
        bad = await play("http_agent.mjs", url, plan)
    assert good["messages"][-1]["content"] == "Hi."
    assert "401" in bad["turns"][0]["error"]


async def test_http_agent_that_aborts_cancels_where_asked(play: Play) -> None:
    gate = Gate()
    async with served(waiting(gate), on_disconnect="cancel") as site:
        await play("http_agent.mjs", f"{site.base_url}/ag-ui/a", {"turns": [{"say": "Hi", "abortOn": "TOOL_CALL_END"}]})
        found = await read(site, run="run-0")
    assert found[-1].event.to_dict()["code"] == "aborted"


async def test_http_agent_runs_its_own_tools(play: Play) -> None:
    model = ScriptedModel(calls(("locate", {}), ("look", {"where": "x"}), text="Where?"), "In Lyon.")
    agent = Agent(model, tools=[look], store=MemoryStore())
    mine = [{"name": "locate", "description": "Say where.", "parameters": {"type": "object", "properties": {}}}]
    turns = [
        {"say": "Hi", "tools": mine},
        {"results": [{"name": "locate", "content": "Lyon"}], "tools": mine},
    ]
    async with served(agent, client_tools=True) as site:
        told = await play("http_agent.mjs", f"{site.base_url}/ag-ui/a", {"turns": turns})
    assert [one["error"] for one in told["turns"]] == [None, None]
    assert told["messages"][-1]["content"] == "In Lyon."
    assert [one.text for one in model.requests[1].messages if one.role == "tool"] == ["Lyon", "a door in the x"]


async def test_tanstack_text_tools_and_turns(play: Play) -> None:
    model = ScriptedModel(calls(("look", {"where": "east"}), ("look", {"where": "west"})), "Two doors.", "Bye.")
    async with served(Agent(model, tools=[look], store=MemoryStore())) as site:
        told = await play("tanstack.mjs", f"{site.base_url}/ag-ui/a", {"say": ["Look.", "Thanks."]})
    assert told["error"] is None
    assert said_in(told) == ["Look.", "Two doors.", "Thanks.", "Bye."]
    assert [one.text for one in model.requests[2].messages if one.role == "user"] == ["Look.", "Thanks."]


@pytest.mark.parametrize("make_store", [lambda: None, MemoryStore], ids=["no store", "store"])
async def test_tanstack_answers_a_question(play: Play, make_store: Any) -> None:
    agent = Agent(ScriptedModel(calls(("pay", {"amount": 5})), "Paid."), tools=[pay], store=make_store())
    async with served(agent) as site:
        told = await play("tanstack.mjs", f"{site.base_url}/ag-ui/a", {"say": ["Pay."], "answer": {"approved": True}})
    assert (told["error"], [one["kind"] for one in told["asked"]]) == (None, ["generic"])
    assert said_in(told)[-1] == "Paid."
    assert "paid 5" in json.dumps(told["messages"])


async def test_tanstack_reconnects_and_misses_nothing(play: Play) -> None:
    model = ScriptedModel(text(chunks=[f"{n} " for n in range(40)]))
    async with served(Agent(model)) as site:
        told = await play("tanstack.mjs", f"{site.base_url}/ag-ui/a", {"say": ["Count."], "cutAfter": 1500})
    assert told["error"] is None
    assert said_in(told)[-1] == "".join(f"{n} " for n in range(40))
    assert [one["lastEventId"] is None for one in told["requests"]] == [True, False]
    assert len(model.requests) == 1


async def test_tanstack_sees_failures(play: Play) -> None:
    async with served(Agent(ScriptedModel(fail(RuntimeError("key sk-1"))))) as site:
        told = await play("tanstack.mjs", f"{site.base_url}/ag-ui/a", {"say": ["Hi."]})
    assert "error id err_" in told["error"]
    assert "sk-1" not in json.dumps(told)


def said_in(told: dict[str, Any]) -> list[str]:
    texts = [[part.get("content", "") for part in one["parts"] if part["type"] == "text"] for one in told["messages"]]
    return ["".join(one) for one in texts if one]


async def test_openai_sdk_for_javascript(play: Play) -> None:
    plain = Agent(ScriptedModel("Hello.", text(chunks=["Hel", "lo."])))
    tools = Agent(ScriptedModel(calls(("locate", {})), "In Lyon."))
    async with served({"a": plain, "tools": tools}, auth="tok", client_tools=True) as site:
        told = await play("openai.mjs", f"{site.base_url}/v1", "tok")
    assert told == {
        "models": ["a", "tools"],
        "whole": "Hello.",
        "pieces": ["Hel", "lo."],
        "errors": [["NotFoundError", 404, "model_not_found"], ["BadRequestError", 400, "bad_input"]],
        "ran": "In Lyon.",
    }
