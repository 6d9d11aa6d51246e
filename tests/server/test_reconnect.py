"""Readers that leave and come back, to the same worker or to another, and miss nothing."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import Frame, Site, bearer, frames, run_input, served, text_of, types_of

from interpose import Agent, tool
from interpose.event_log import LoggedEvents, ServedRun
from interpose.stores import MemoryStore, SQLStore
from interpose.testing import ScriptedModel, calls, text


class Gate:
    """A tool that waits until it is let through."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.entered = asyncio.Event()

        @tool(name="wait")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            await self.opened.wait()
            return "waited"

        self.tool = wait


def waiting(gate: Gate, store: Any = None) -> Agent[Any]:
    return Agent(
        ScriptedModel(calls(("wait", {})), text(chunks=["Done", " at ", "last."])), tools=[gate.tool], store=store
    )


async def read(site: Site, after: int | None = None, *, run: str = "r1", token: str = "") -> list[Frame]:
    headers = {} if after is None else {"last-event-id": str(after)}
    headers |= bearer(token) if token else {}
    async with site.stream("GET", f"/ag-ui/a/runs/{run}/events", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        return [frame async for frame in frames(answer)]


async def test_any_part_can_be_read_again() -> None:
    agent = Agent(ScriptedModel(text(chunks=["One ", "two ", "three."])))
    async with served(agent) as site:
        whole = await site.ask()
        for after in range(-1, len(whole)):
            assert await read(site, after) == whole[after + 1 :]


async def test_reader_who_left_misses_nothing() -> None:
    gate = Gate()
    async with served(waiting(gate)) as site:
        seen: list[Frame] = []
        async with site.stream("POST", "/ag-ui/a", json=run_input()) as answer:
            async for one in frames(answer):
                seen.append(one)
                if one.type == "TOOL_CALL_END":
                    break
        gate.opened.set()
        seen += await read(site, seen[-1].id)
    assert [one.id for one in seen] == list(range(len(seen)))
    assert text_of(seen) == "Done at last."


async def test_request_sent_again_with_an_event_id_reads_on_and_begins_nothing() -> None:
    model = ScriptedModel("Hi.")
    async with served(Agent(model)) as site:
        whole = await site.ask()
        rest = await site.ask(headers={"last-event-id": "2"})
    assert (rest, len(model.requests)) == (whole[3:], 1)


async def test_run_can_be_joined_by_query() -> None:
    async with served(Agent(ScriptedModel("Hi."))) as site:
        whole = await site.ask()
        async with site.stream("GET", "/ag-ui/a?runId=r1&offset=-1") as answer:
            assert [one async for one in frames(answer)] == whole


async def test_many_read_one_run_at_once() -> None:
    gate = Gate()
    async with served(waiting(gate)) as site:
        first = asyncio.ensure_future(site.ask())
        await gate.entered.wait()
        others = [asyncio.ensure_future(read(site)) for _ in range(5)]
        await asyncio.sleep(0.05)
        gate.opened.set()
        whole = await first
        assert [await one for one in others] == [whole] * 5


async def test_another_worker_tells_a_run_while_it_goes_on(tmp_path: Path) -> None:
    gate = Gate()
    url = f"sqlite:///{tmp_path}/s.db"
    async with (
        served(waiting(gate, SQLStore(url))) as here,
        served(Agent(ScriptedModel(), store=SQLStore(url), tools=[gate.tool])) as there,
    ):
        whole = asyncio.ensure_future(here.ask())
        await gate.entered.wait()
        await asyncio.sleep(0.1)
        reading = asyncio.ensure_future(read(there, 0))
        await asyncio.sleep(0.1)
        gate.opened.set()
        assert await reading == (await whole)[1:]
        assert await read(there) == await whole


async def test_another_worker_can_cancel(tmp_path: Path) -> None:
    gate = Gate()
    url = f"sqlite:///{tmp_path}/s.db"
    async with (
        served(waiting(gate, SQLStore(url))) as here,
        served(Agent(ScriptedModel(), store=SQLStore(url))) as there,
    ):
        whole = asyncio.ensure_future(here.ask())
        await gate.entered.wait()
        answer = await there.post("/ag-ui/a/runs/r1/cancel")
        last = (await whole)[-1].event.to_dict()
    assert answer.json() == {"runId": "r1", "cancelled": True}
    assert (last["type"], last["code"]) == ("RUN_ERROR", "aborted")


async def test_another_worker_answers_a_question(tmp_path: Path) -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    url = f"sqlite:///{tmp_path}/s.db"
    here_agent = Agent(ScriptedModel(calls(("pay", {}))), tools=[pay], store=SQLStore(url))
    there_agent = Agent(ScriptedModel("Paid."), tools=[pay], store=SQLStore(url))
    async with served(here_agent) as here, served(there_agent) as there:
        asked = (await here.ask())[-1].event.to_dict()["outcome"]["interrupts"]
        resume = [{"interruptId": asked[0]["id"], "status": "resolved", "payload": True}]
        found = await there.ask(None, runId="r2", resume=resume)
        assert await read(here, run="r2") == found
    assert text_of(found) == "Paid."


async def test_run_of_a_worker_that_died_is_told_as_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpose.server.served.LOST_S", 0.3)
    store = SQLStore(f"sqlite:///{tmp_path}/s.db")
    await store.events.begin(ServedRun(run_id="r1", agent="a", thread_id="t1", worker="dead"))
    await store.events.append([LoggedEvents("r1", [(0, '{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}')])])
    async with served(Agent(ScriptedModel(), store=store)) as site:
        started = time.monotonic()
        found = await read(site)
    assert types_of(found) == ["RUN_STARTED", "RUN_ERROR"]
    assert found[-1].event.to_dict()["code"] == "lost"
    assert time.monotonic() - started < 5
    await store.aclose()


async def test_runs_of_others_are_not_there() -> None:
    async with served(Agent(ScriptedModel("Hi.")), auth={"x": "ann", "y": "bob"}) as site:
        await site.ask(headers=bearer("x"))
        for path, method in (("events", "GET"), ("cancel", "POST")):
            theirs = await site.request(method, f"/ag-ui/a/runs/r1/{path}", headers=bearer("y"))
            nobodys = await site.request(method, f"/ag-ui/a/runs/r9/{path}", headers=bearer("y"))
            assert theirs.status_code == nobodys.status_code == 404
            assert theirs.content == nobodys.content
        assert text_of(await read(site, token="x")) == "Hi."


async def test_run_ids_of_others_do_not_stand_in_the_way() -> None:
    async with served(Agent(ScriptedModel("Ann.", "Bob."), store=MemoryStore()), auth={"x": "ann", "y": "bob"}) as site:
        assert text_of(await site.ask(headers=bearer("x"))) == "Ann."
        assert text_of(await site.ask(headers=bearer("y"))) == "Bob."


async def test_owner_cancels() -> None:
    gate = Gate()
    async with served(waiting(gate)) as site:
        whole = asyncio.ensure_future(site.ask())
        await gate.entered.wait()
        answer = await site.post("/ag-ui/a/runs/r1/cancel")
        last = (await whole)[-1].event.to_dict()
        late = await site.post("/ag-ui/a/runs/r1/cancel")
    assert (answer.json()["cancelled"], late.json()["cancelled"]) == (True, False)
    assert (last["type"], last["code"]) == ("RUN_ERROR", "aborted")


@pytest.mark.parametrize(("policy", "ending"), [("continue", "RUN_FINISHED"), ("cancel", "RUN_ERROR")])
async def test_what_becomes_of_a_run_whose_reader_left(policy: str, ending: str) -> None:
    gate = Gate()
    async with served(waiting(gate), on_disconnect=policy) as site:
        async with site.stream("POST", "/ag-ui/a", json=run_input()):
            await gate.entered.wait()
        await asyncio.sleep(0.2)
        gate.opened.set()
        assert types_of(await read(site))[-1] == ending


async def test_reader_may_come_back_in_time() -> None:
    gate = Gate()
    async with served(waiting(gate), on_disconnect="cancel", disconnect_grace_s=5.0) as site:
        async with site.stream("POST", "/ag-ui/a", json=run_input()):
            await gate.entered.wait()
        await asyncio.sleep(0.1)
        gate.opened.set()
        assert types_of(await read(site))[-1] == "RUN_FINISHED"


async def test_quiet_stream_has_heartbeats() -> None:
    gate = Gate()
    async with served(waiting(gate), heartbeat_s=0.05) as site:
        async with site.stream("POST", "/ag-ui/a", json=run_input()) as answer:
            async for line in answer.aiter_lines():
                if line.startswith(":"):
                    break
        gate.opened.set()
