"""A durable run that asks a person ends; its answers begin a run that goes on with it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.durable.conftest import Place

from interpose import Agent, Approved, Interrupt, Middleware, Rejected, Resolved, ResumeError, tool
from interpose.durable.dbos import DBOSAgents
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, text

Launch = Callable[..., Any]


class Shop:
    """An agent that asks before it pays, and what it has done."""

    def __init__(self, *, store: Any = None, middleware: Any = ()) -> None:
        self.done: list[str] = []

        @tool(approval=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.done.append(f"pay {amount}")
            return "paid"

        @tool
        async def look() -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        self.model = ScriptedModel(calls(("look", {}), ("pay", {"amount": 5})), text("done"))
        self.agent: Agent[Any] = Agent(self.model, tools=[pay, look], store=store, middleware=middleware)


@pytest.fixture(params=[False, True], ids=["no store", "store"])
def shop(request: pytest.FixtureRequest) -> Shop:
    return Shop(store=MemoryStore() if request.param else None)


async def test_approved_call_runs_once_and_its_sibling_is_not_run_again(launch: Launch, shop: Shop) -> None:
    agents = await launch({"a": shop.agent})
    paused = await agents.run("a", "go", run_id="r1", thread_id="t1")
    assert (paused.status, shop.done) == ("interrupted", ["look"])
    assert await agents.handle("r1").status() == "interrupted"
    (asked,) = paused.interrupts
    handle = await agents.resume("r1", {asked.id: Approved()})
    result = await handle.result()
    assert (result.text, result.status, result.run_id, result.thread_id) == ("done", "finished", "r1.1", "t1")
    assert shop.done == ["look", "pay 5"]
    assert [one.text for one in result.messages] == ["go", "", "seen", "paid", "done"]


async def test_rejected_call_is_told_to_the_model(launch: Launch, shop: Shop) -> None:
    agents = await launch({"a": shop.agent})
    paused = await agents.run("a", "go", run_id="r1")
    handle = await agents.resume("r1", {paused.interrupts[0].id: Rejected("too dear")})
    result = await handle.result()
    assert "too dear" in result.steps[0].tool_results[1].text
    assert shop.done == ["look"]


async def test_answers_are_used_once(launch: Launch, shop: Shop) -> None:
    agents = await launch({"a": shop.agent})
    paused = await agents.run("a", "go", run_id="r1")
    answers = {paused.interrupts[0].id: Approved()}
    came = await asyncio.gather(*[agents.resume("r1", answers) for _ in range(3)], return_exceptions=True)
    refused = [one for one in came if isinstance(one, ResumeError)]
    assert len(refused) == 2
    assert "is being resumed, or was resumed already, as 'r1.1'" in str(refused[0]) or "the store has no" in str(
        refused[0]
    )
    await agents.handle("r1.1").result()
    with pytest.raises(ResumeError):
        await agents.resume("r1", answers)
    assert shop.done == ["look", "pay 5"]


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ({}, "no answer was given"),
        (None, "no answer was given"),
        ({"other": Approved()}, "no such question is open"),
        ({"ID": Resolved(True)}, "answered with Approved, Rejected or Cancelled"),
        ({"ID": 0}, "an answer is one of"),
        ({"ID": Approved({"amount": "much"})}, "edited arguments are invalid"),
        (7, "answers are a mapping"),
    ],
    ids=["none", "nothing", "another", "kind", "falsy", "edit", "type"],
)
async def test_answers_that_do_not_fit_are_refused_at_once(launch: Launch, shop: Shop, answers: Any, what: str) -> None:
    agents = await launch({"a": shop.agent})
    asked = (await agents.run("a", "go", run_id="r1")).interrupts[0].id
    if isinstance(answers, dict):
        answers = {asked if key == "ID" else key: one for key, one in answers.items()}
    with pytest.raises(ResumeError, match=what):
        await agents.resume("r1", answers)
    assert shop.done == ["look"]
    await (await agents.resume("r1", {asked: Approved()})).result()
    assert shop.done == ["look", "pay 5"]


async def test_run_that_does_not_wait_is_not_resumed(launch: Launch) -> None:
    agents = await launch({"a": Agent(ScriptedModel(text("x")))})
    await agents.run("a", "go", run_id="r1")
    with pytest.raises(ResumeError, match="run 'r1' waits for no answers: it is finished"):
        await agents.resume("r1", {})
    with pytest.raises(LookupError, match="there is no run 'r2'"):
        await agents.resume("r2", {})


async def test_wire_answers_are_taken(launch: Launch, shop: Shop) -> None:
    agents = await launch({"a": shop.agent})
    asked = (await agents.run("a", "go", run_id="r1")).interrupts[0].id
    entry = {"interruptId": asked, "status": "resolved", "payload": {"approved": True, "editedArgs": {"amount": 7}}}
    await (await agents.resume("r1", [entry])).result()
    assert shop.done == ["look", "pay 7"]


class Stopper(Middleware[Any]):
    """Holds a resumed run when its calls are settled, the first time."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
        if ctx.resumed_from is not None and not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()


@pytest.mark.parametrize("stored", [False, True], ids=["no store", "store"])
async def test_resumed_run_that_is_cut_does_nothing_twice(sqlite: Place, stored: bool) -> None:
    stopper = Stopper()
    shop = Shop(middleware=[stopper], store=MemoryStore() if stored else None)
    async with DBOSAgents({"a": shop.agent}, database_url=sqlite.url, executor="one") as agents:
        asked = (await agents.run("a", "go", run_id="r1")).interrupts[0].id
        await agents.resume("r1", {asked: Approved()})
        await stopper.reached.wait()
    async with DBOSAgents({"a": shop.agent}, database_url=sqlite.url, executor="one") as agents:
        result = await agents.handle("r1.1").result()
    assert (result.text, shop.done) == ("done", ["look", "pay 5"])


class Asks(Middleware[Any]):
    interrupts = (Interrupt("sure", response=bool),)

    def __init__(self, expires_at: datetime) -> None:
        self.expires_at = expires_at

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        if ctx.phase == "before_model" and ctx.step == 0:
            return [self.interrupts[0].request("k", "Sure?", expires_at=self.expires_at)]
        return None


async def test_late_answer_is_refused_and_one_in_time_holds(launch: Launch) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    agents = await launch(
        {
            "late": Agent(ScriptedModel(text("x")), middleware=[Asks(datetime.now(UTC) - timedelta(hours=1))]),
            "soon": Agent(ScriptedModel(text("x")), middleware=[Asks(soon)]),
        }
    )
    asked = (await agents.run("late", "go", run_id="r1")).interrupts[0].id
    with pytest.raises(ResumeError, match="expired at"):
        await agents.resume("r1", {asked: Resolved(True)})
    asked = (await agents.run("soon", "go", run_id="r2")).interrupts[0].id
    assert (await (await agents.resume("r2", {asked: Resolved(False)})).result()).text == "x"


async def test_question_of_a_nested_run_is_asked_and_answered(launch: Launch) -> None:
    shop = Shop()
    outer: Agent[Any] = Agent(
        ScriptedModel(calls(("shop", {"prompt": "buy"})), text("bought")), tools=[shop.agent.as_tool("shop", "Buy.")]
    )
    agents = await launch({"a": outer})
    paused = await agents.run("a", "go", run_id="r1")
    assert paused.status == "interrupted"
    result = await (await agents.resume("r1", {paused.interrupts[0].id: Approved()})).result()
    assert (result.text, shop.done) == ("bought", ["look", "pay 5"])
