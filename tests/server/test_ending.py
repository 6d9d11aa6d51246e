"""How a server ends: runs may end, the rest keeps its checkpoint; and `interpose serve` as people use it."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from tests.server.serving import Frame, frames, run_input, types_of

from interpose.stores import SQLStore

APP = """
import asyncio
from interpose import Agent, tool
from interpose.stores import SQLStore
from interpose.testing import ScriptedModel, calls

@tool(effect="idempotent")
async def wait(seconds: float) -> str:
    "Wait."
    await asyncio.sleep(seconds)
    return "waited"

def slow(seconds):
    model = ScriptedModel(calls(("wait", {{"seconds": seconds}})), "Done.", "Done again.")
    return Agent(model, tools=[wait], store=SQLStore("sqlite:///{folder}/s.db"), name=f"wait-{{seconds}}")

quick, long = slow(0.7), slow(60)
"""


@asynccontextmanager
async def process(folder: Path, *options: str) -> AsyncIterator[tuple[httpx2.AsyncClient, "subprocess.Popen[str]"]]:
    """Start `interpose serve` and give a client of it."""
    file = folder / "app.py"
    file.write_text(APP.format(folder=folder))
    command = [sys.executable, "-m", "interpose.cli", "serve", f"{file}:quick", f"{file}:long", "--port", "0", *options]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: ASYNC220  # takes no time
    assert served.stdout is not None
    try:
        while not (
            found := re.search(r"OpenAI: (http://\S+)/v1", line := await asyncio.to_thread(served.stdout.readline))
        ):
            assert line, "it ended before it began"
        async with httpx2.AsyncClient(base_url=found[1], timeout=30) as client:
            await up(client)
            yield client, served
    finally:
        served.kill()
        served.wait(10)
        served.stdout.close()


async def up(client: httpx2.AsyncClient) -> None:
    for _ in range(200):
        try:
            if (await client.get("/readyz")).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        await asyncio.sleep(0.05)
    raise AssertionError("the server does not answer")


async def test_runs_may_end_while_new_ones_are_refused(tmp_path: Path) -> None:
    async with process(tmp_path) as (client, served):
        async with client.stream("POST", "/ag-ui/wait-0.7", json=run_input()) as answer:
            found = []
            refused = ready = None
            async for one in frames(answer):
                found.append(one)
                if one.type == "TOOL_CALL_END":
                    served.send_signal(signal.SIGTERM)
                    await asyncio.sleep(0.3)
                    ready = await client.get("/readyz")
                    refused = await client.post("/ag-ui/wait-0.7", json=run_input(runId="r2"))
        code = await asyncio.to_thread(served.wait, 10)
    assert types_of(found)[-1] == "RUN_FINISHED"
    assert ready is not None
    assert refused is not None
    assert (ready.status_code, refused.status_code, refused.json()["error"]["code"]) == (503, 503, "closing")
    assert code in (0, -signal.SIGTERM)


async def test_run_that_does_not_end_keeps_its_checkpoint(tmp_path: Path) -> None:
    async with process(tmp_path, "--shutdown-s", "0.2") as (client, served):
        async with client.stream("POST", "/ag-ui/wait-60", json=run_input()) as answer:
            found = []
            async for one in frames(answer):
                found.append(one)
                if one.type == "TOOL_CALL_END":
                    served.send_signal(signal.SIGTERM)
        await asyncio.to_thread(served.wait, 20)
    last = found[-1].event.to_dict()
    assert (last["type"], last["code"]) == ("RUN_ERROR", "aborted")
    async with SQLStore(f"sqlite:///{tmp_path}/s.db") as store:
        assert [one.run_id for one in await store.unfinished()] == ["r1"]
        events, run = await store.events.read("r1", -1, 100)
    assert run is not None
    assert (run.status, len(events)) == ("failed", len(found))


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
async def test_second_signal_ends_at_once_and_in_silence(tmp_path: Path, kind: signal.Signals) -> None:
    async with process(tmp_path, "--shutdown-s", "60") as (client, served):
        began = asyncio.Event()

        async def read() -> None:
            async with client.stream("POST", "/ag-ui/wait-60", json=run_input()) as answer:
                async for one in frames(answer):
                    if one.type == "TOOL_CALL_END":
                        began.set()

        reading = asyncio.ensure_future(read())
        await began.wait()
        served.send_signal(kind)
        await asyncio.sleep(0.3)
        served.send_signal(kind)
        await asyncio.to_thread(served.wait, 10)
        assert served.stdout is not None
        assert "Traceback" not in await asyncio.to_thread(served.stdout.read)
        with pytest.raises(httpx2.RemoteProtocolError):
            await reading


async def test_token_of_the_environment_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERPOSE_TOKEN", "hidden")
    async with process(tmp_path) as (client, _):
        without = await client.get("/ag-ui")
        with_it = await client.get("/ag-ui", headers={"authorization": "Bearer hidden"})
    assert (without.status_code, with_it.status_code) == (401, 200)
    assert with_it.json() == {"agents": [{"name": "wait-0.7"}, {"name": "wait-60"}]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "give --token"),
        (["--port", "99999"], "cannot listen"),
        (["--port", "-1"], "cannot listen"),
        (["--host", "no.such.host.invalid"], "give --token"),
        (["--host", "no.such.host.invalid", "--token", "x"], "not known here"),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_said_in_a_line(tmp_path: Path, options: list[str], said: str) -> None:
    file = tmp_path / "app.py"
    file.write_text(APP.format(folder=tmp_path))
    command = [sys.executable, "-m", "interpose.cli", "serve", f"{file}:quick", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(120)
async def test_worker_that_is_killed_is_missed_and_its_run_goes_on_in_another(tmp_path: Path) -> None:
    async with process(tmp_path) as (first, served), process(tmp_path) as (second, _):
        seen: list[Frame] = []

        async def read_and_kill() -> None:
            async with first.stream("POST", "/ag-ui/wait-0.7", json=run_input()) as answer:
                async for one in frames(answer):
                    seen.append(one)
                    if one.type == "TOOL_CALL_END":
                        await asyncio.sleep(0.2)  # for what was sent to reach the database too
                        served.kill()

        with pytest.raises(httpx2.TransportError):
            await read_and_kill()
        after = {"last-event-id": str(seen[-1].id)}
        async with second.stream("GET", "/ag-ui/wait-0.7/runs/r1/events", headers=after) as answer:
            rest = [one async for one in frames(answer)]
        body = run_input(None, runId="r2", parentRunId="r1", resume=[])
        async with second.stream("POST", "/ag-ui/wait-0.7", json=body) as answer:
            found = [one async for one in frames(answer)]
    assert [one.id for one in seen] == list(range(len(seen)))
    assert [(one.type, one.event.to_dict().get("code")) for one in rest] == [("RUN_ERROR", "lost")]
    assert types_of(found)[-1] == "RUN_FINISHED"
    assert "TOOL_CALL_RESULT" in types_of(found)
