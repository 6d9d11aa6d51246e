"""Real agents, watched: whatever happens to them or to the page, the run is what it is without it."""

import asyncio
from typing import Any

import pytest
from tests.flow.client import ask, page
from tests.flow.nodes import Told

from interpose import Agent, Middleware, RunAborted
from interpose.flow import Flow
from interpose.testing import ScriptedModel, calls, collect, fail, hang, text


async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


async def breaks() -> str:
    """Break."""
    raise OSError("disk")


async def played(agent: Agent[Any], way: str) -> str:
    if way == "run":
        return (await agent.run("go")).text
    async with agent.stream("go") as run:
        await collect(run)
        return (await run.result()).text


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_run_is_seen_whole(way: str) -> None:
    flow = Flow(port=0)
    model = ScriptedModel(calls(("look", {"where": "left"}), "breaks"), text("done"), model="script")
    async with Agent(model, tools=[look, breaks], middleware=[flow], name="scout") as agent:
        assert await played(agent, way) == "done"
        (run,) = (await ask(flow.port, "/api/runs")).json["runs"]
        events = (await ask(flow.port, f"/api/runs/{run['id']}")).json["events"]
    assert (run["name"], run["status"], run["nodes"], run["steps"], run["errors"]) == ("scout", "ok", 7, 2, 1)
    ends = {event["name"]: event for event in events if event["phase"] == "end"}
    assert set(ends) == {"scout", "step-0", "step-1", "script", "look", "breaks"}
    assert ends["breaks"]["status"] == "error"
    assert "disk" in ends["breaks"]["error"]
    assert "nothing left" in str(ends["look"]["content"]["out"])


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_nested_run_is_seen_within_its_outer_run_once(way: str) -> None:
    flow = Flow(port=0)
    inner = Agent(ScriptedModel(text("found")), name="inner", middleware=[flow]).as_tool("ask", "Ask.")
    model = ScriptedModel(calls(("ask", {"prompt": "p"})), text("done"))
    async with Agent(model, tools=[inner], middleware=[flow], name="outer") as agent:
        await played(agent, way)
        runs = (await ask(flow.port, "/api/runs")).json["runs"]
        events = (await ask(flow.port, f"/api/runs/{runs[0]['id']}")).json["events"]
    assert [run["name"] for run in runs] == ["outer"]
    assert [event["name"] for event in events if event["kind"] == "run" and event["phase"] == "start"] == [
        "outer",
        "inner",
    ]


@pytest.mark.parametrize(
    ("turn", "status", "outcome"),
    [(fail(RuntimeError("x")), "error", "failed"), (hang(), "error", "aborted")],
    ids=["failed", "aborted"],
)
async def test_ending_of_a_run_is_seen(turn: Any, status: str, outcome: str) -> None:
    flow = Flow(port=0)

    class Impatient(Middleware):
        def on_step(self, ctx: Any, info: Any) -> None:
            asyncio.get_running_loop().call_later(0.05, ctx.abort, "enough")

    async with Agent(ScriptedModel(turn), middleware=[Impatient(), flow]) as agent:
        with pytest.raises((RuntimeError, RunAborted)):
            await agent.run("go")
        (run,) = (await ask(flow.port, "/api/runs")).json["runs"]
    assert (run["status"], run["outcome"]) == (status, outcome)


async def test_run_is_followed_while_it_goes_on() -> None:
    flow, gate = Flow(port=0), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "over"

    async with Agent(ScriptedModel(calls("wait"), text("done")), tools=[wait], middleware=[flow]) as agent:
        run = await agent.start("go")
        async with asyncio.timeout(5):
            while not flow.is_serving:  # noqa: ASYNC110  # a reader looks now and then
                await asyncio.sleep(0.01)
        async with page(flow.port) as stream:
            frames = [await stream.frame()]
            known = frames[0].data["events"]
            while not any(event["kind"] == "tool" for event in known):
                known += [frame.data for frame in await stream.until("event")]
            assert {event["phase"] for event in known if event["kind"] == "tool"} == {"start"}
            gate.set()
            await run.result()
            frames = await stream.until("run")
    assert frames[-1].data["status"] == "ok"


class Hostile:
    def __bool__(self) -> bool:
        raise MemoryError("no more")


async def test_node_that_cannot_be_kept_is_passed_over_and_said_once(
    flow: Flow, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(lambda node: flow.on_node(None, node))  # type: ignore[arg-type]  # the node says all
    run = told.start("run", "scout")
    for _ in range(2):
        told.whole("tool", "look", run, meta=Hostile())
    told.end(run)
    assert caplog.text.count("a node could not be kept") == 1
    assert (await ask(flow.port, "/api/runs")).json["runs"][0]["status"] == "ok"


async def test_odd_names_and_results_harm_no_run() -> None:
    flow = Flow(port=0)

    async def odd() -> Any:
        """Give odd things."""
        return {"bytes": b"\x00\xff", "nan": float("nan"), "half": "\ud83d", "deep": {"a": {"b": ["\x1b[31m" * 10]}}}

    async with Agent(
        ScriptedModel(calls("odd"), text("done")), tools=[odd], middleware=[flow], name="<b>\x00\u202e"
    ) as agent:
        assert (await agent.run("go")).text == "done"
        (run,) = (await ask(flow.port, "/api/runs")).json["runs"]
        answer = await ask(flow.port, f"/api/runs/{run['id']}")
    assert (run["status"], answer.status) == ("ok", 200)


async def test_content_that_is_redacted_reaches_no_page() -> None:
    flow = Flow(port=0)

    async def connect() -> str:
        """Connect."""
        raise OSError("cannot reach postgres://ada:hunter22@db.example/x")

    async with Agent(ScriptedModel(calls("connect"), text("done")), tools=[connect], middleware=[flow]) as agent:
        await agent.run("go")
        (run,) = (await ask(flow.port, "/api/runs")).json["runs"]
        whole = (await ask(flow.port, f"/api/runs/{run['id']}")).body
    assert b"hunter22" not in whole
    assert b"db.example" in whole
