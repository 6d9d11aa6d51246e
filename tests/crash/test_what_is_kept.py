"""What a killed run has beside its calls is kept as exactly: states, counts, attempts, and how it is found."""

import asyncio
from typing import Any

import pytest
from tests.crash.dying import Dies, agent, killed, reborn

from interpose import Agent, Approved, Limits, Middleware, OutputError, RunContext, tool
from interpose.testing import calls, text


@tool(effect="read")
async def look(n: int) -> str:
    """Look."""
    return f"looked {n}"


def looks(n: int) -> Any:
    return calls(("look", {"n": n}))


class Counts(Middleware[Any]):
    """Counts tool calls in the state of the run, and in its own."""

    saved = True

    def __init__(self) -> None:
        self.told: tuple[Any, Any] | None = None

    def after_tool_call(self, ctx: RunContext[Any], call: Any, result: Any) -> None:
        private = ctx.private(self)
        private["n"] = private.get("n", 0) + 1
        ctx.state["n"] = ctx.state.get("n", 0) + 1

    def on_finish(self, ctx: RunContext[Any], info: Any) -> None:
        self.told = ctx.private(self).get("n"), ctx.state.get("n")


@pytest.mark.parametrize("many", [1, 2])
async def test_state_that_a_tool_hook_changed_is_kept_with_the_result(many: int) -> None:
    store = Dies(2)  # it begins, the model answers, the results come
    asked = calls(*[("look", {"n": n}) for n in range(many)])
    await killed(agent(asked, text("done"), tools=[look], middleware=[Counts()], store=store))
    counts = Counts()
    await agent(text("done"), tools=[look], middleware=[counts], store=reborn(store)).resume("r1")
    assert counts.told == (many, many)


class Remembers(Middleware[Any]):
    """Counts model calls in the state of the thread."""

    def after_model_call(self, ctx: RunContext[Any], request: Any, response: Any) -> None:
        ctx.thread_state["n"] = ctx.thread_state.get("n", 0) + 1


@pytest.mark.parametrize(("at", "left"), [(0, 2), (1, 1), (2, 1), (3, 0), (4, 0)])
async def test_state_of_the_thread_is_kept(at: int, left: int) -> None:
    store = Dies(at)  # it begins, an answer, a result, an answer, the end
    turns = [looks(1), text("done")]
    await killed(agent(*turns, tools=[look], middleware=[Remembers()], store=store))
    new = reborn(store)
    if await new.get("r1") is not None:
        await agent(*turns[len(turns) - left :], tools=[look], middleware=[Remembers()], store=new).resume("r1")
    assert await new.load_state("t1") == {"n": 2}


async def test_call_that_was_cut_is_not_counted_twice() -> None:
    lives = iter([False, True])

    @tool(effect="read")
    async def slow(n: int) -> str:
        """Look slowly, and never to the end in the first life."""
        if not next(lives):
            await asyncio.sleep(30)
        return f"slowly {n}"

    options: dict[str, Any] = {"tools": [look, slow], "limits": Limits(max_tool_calls=2)}
    store = Dies(2)
    await killed(agent(calls(("look", {"n": 1}), ("slow", {"n": 2})), text("done"), store=store, **options))
    result = await agent(text("done"), store=reborn(store), **options).resume("r1")
    assert [message.text for message in result.messages if message.role == "tool"] == ["looked 1", "slowly 2"]


async def test_model_calls_are_counted_over_a_kill() -> None:
    limits = Limits(max_model_calls=3, on_exceeded="raise")
    store = Dies(3)
    await killed(agent(looks(1), looks(2), text("done"), tools=[look], limits=limits, store=store))
    result = await agent(text("done"), tools=[look], limits=limits, store=reborn(store)).resume("r1")
    assert result.text == "done"


async def test_attempts_for_the_output_are_counted_over_a_kill() -> None:
    bad = text('{"x": "no"}')
    store = Dies(2)  # it begins, the step, a bad output
    await killed(agent(text("enough"), bad, bad, tools=[look], output=dict[str, int], store=store))
    again = agent(bad, bad, bad, tools=[look], output=dict[str, int], store=reborn(store))
    with pytest.raises(OutputError):
        await again.resume("r1")
    assert len(again.model.requests) == 1  # type: ignore[attr-defined]  # is scripted


def asking(log: list[str], store: Dies, *turns: Any) -> Agent[Any]:
    """Return an agent whose helper asks before it wires; *turns* are the helper's."""

    @tool(approval=True)
    async def wire(n: int) -> str:
        """Wire."""
        log.append(f"wired {n}")
        return "wired"

    helper = agent(*turns, tools=[wire])
    outer = [calls(("helper", {"prompt": "x"}))] if len(turns) > 1 else []
    return agent(*outer, text("done"), tools=[helper.as_tool("helper", "Helps.")], store=store)


async def test_nested_run_that_waits_when_the_outer_one_is_killed_asks_again() -> None:
    log: list[str] = []
    store = Dies(4)  # it begins, it answers, the helper begins, answers, waits; the outer run does not wait yet
    await killed(asking(log, store, calls(("wire", {"n": 1})), text("helped")))
    again = asking(log, reborn(store), text("helped"))
    waits = await again.resume("r1")
    assert waits.status == "interrupted"
    result = await again.resume(waits.run_id, {one.id: Approved() for one in waits.interrupts})
    assert (result.text, log) == ("done", ["wired 1"])


async def test_run_that_was_killed_as_soon_as_it_was_resumed_can_be_resumed() -> None:
    store = Dies(2)
    await killed(agent(looks(1), text("done"), tools=[look], store=store))
    second = reborn(store)

    async def dying(request: Any) -> Any:
        second.dead.set()
        await asyncio.sleep(30)

    await killed(
        agent(dying, tools=[look], store=second), None, run_id="r2", thread_id=None, resume={}, parent_run_id="r1"
    )
    last = agent(text("done"), tools=[look], store=reborn(second))
    assert await last.unfinished() == ["r2"]
    assert (await last.resume("r2")).text == "done"


@pytest.mark.parametrize("by", ["r1", "the id in the store"])
async def test_run_whose_resumption_was_killed_is_found_by(by: str) -> None:
    store = Dies(2)
    await killed(agent(looks(1), looks(2), text("done"), tools=[look], store=store))
    second = reborn(store)
    second.at = 1
    task = asyncio.create_task(agent(looks(2), text("done"), tools=[look], store=second).resume("r1"))
    await second.dead.wait()
    task.cancel()
    await asyncio.wait((task,), timeout=0.05)
    last = agent(text("done"), tools=[look], store=reborn(second))
    (found,) = await last.unfinished("t1")
    assert (await last.resume("r1" if by == "r1" else found)).text == "done"
    assert await last.unfinished() == []


async def test_resumption_does_not_take_over_a_run_that_went_on_meanwhile() -> None:
    log: list[str] = []
    asked, resumed = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def pay(n: int) -> str:
        """Pay."""
        log.append(f"paid {n}")
        return "paid"

    async def slow(request: Any) -> Any:
        asked.set()
        await resumed.wait()
        return calls(("pay", {"n": 1}))

    async def other(request: Any) -> Any:
        resumed.set()
        await asyncio.sleep(0.05)  # the run that was thought dead pays meanwhile, or would
        return calls(("pay", {"n": 1}))

    async def slower(request: Any) -> Any:
        await asyncio.sleep(0.1)
        return text("done")

    store = Dies()
    live = agent(looks(0), slow, slower, tools=[look, pay], store=store)
    task = asyncio.create_task(live.run("Go", run_id="r1", thread_id="t1"))
    await asked.wait()
    taking = agent(other, text("done"), tools=[look, pay], store=reborn(store))
    came = await asyncio.gather(task, taking.resume("r1"), return_exceptions=True)
    assert log == ["paid 1"]
    assert sorted(type(one).__name__ for one in came) == ["ResumeError", "RunResult"]
