"""Runs that were killed or failed go on from the store, and no finished call is made again."""

import asyncio
from typing import Any

import pytest
from tests.interrupts.play import (
    agent,
    answers_to,
    by_id,
    guarded,
    results_of,
    waiting,
)

from interpose import (
    Agent,
    Approved,
    Middleware,
    ResumeError,
    tool,
)
from interpose.stores import MemoryStore
from interpose.testing import calls, fail, hang, text

BOB = ("mail", {"to": "bob"})


async def test_a_resumed_run_that_failed_before_anything_ran_gives_the_claim_back(how: str) -> None:
    log: list[Any] = []
    fails = iter([True, False])

    class Fails(Middleware):
        def on_start(self, ctx: Any) -> None:
            if ctx.resumed_from and next(fails):
                raise RuntimeError("broken")

    first = await waiting(how, MemoryStore(), log, middleware=[Fails()])
    failed = await by_id(first, answers_to(first, Approved()))
    assert (type(failed.error), log) == (RuntimeError, [])
    after = await by_id(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])


async def test_a_provider_that_fails_after_the_approved_call_lets_the_run_go_on_later(how: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    first = await waiting(how, store, log, fail(RuntimeError("away")), text("done"))
    failed = await by_id(first, answers_to(first, Approved()))
    assert isinstance(failed.error, RuntimeError)
    partial = failed.partial
    assert results_of(partial.messages) == ["sent to bob"]
    result = await first.agent.resume(partial.run_id)
    assert (result.text, log) == ("done", [("mail", "bob", 1)])
    assert results_of(result.messages) == ["sent to bob"]


async def killed(made: Agent[Any], until: Any, **options: Any) -> str:
    """Run *made* until *until* is set, and give it up as a process that dies does; return the id of the run."""
    run = asyncio.create_task(made.run("Go", run_id="killed", thread_id="t1", **options))
    await until.wait()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    return "killed"


class Dies(MemoryStore):
    """Is lost to the process from some point on: nothing reaches it any more."""

    dead = False

    async def put(self, checkpoint: Any, /, **options: Any) -> None:
        if not self.dead:
            await super().put(checkpoint, **options)

    async def commit(self, *args: Any, **options: Any) -> None:
        if not self.dead:
            await super().commit(*args, **options)

    async def drop(self, run_id: str, /) -> None:
        if not self.dead:
            await super().drop(run_id)


async def test_calls_that_finished_before_the_process_died_do_not_run_again() -> None:
    log: list[Any] = []
    store, reached = Dies(), asyncio.Event()

    @tool
    async def one(x: str) -> str:
        """Do one thing."""
        log.append(x)
        return f"did {x}"

    @tool
    async def slow() -> str:
        """Take long."""
        log.append("slow")
        await asyncio.sleep(0.02)
        store.dead = True
        reached.set()
        await asyncio.sleep(5)
        return "late"

    made = agent(calls(("one", {"x": "a"}), ("one", {"x": "b"}), "slow"), tools=[one, slow], store=store)
    run_id = await killed(made, reached)
    store.dead = False
    other = agent(text("done"), tools=[one, slow], store=store)
    result = await other.resume(run_id)
    assert log == ["a", "b", "slow"]
    assert results_of(result.messages)[:2] == ["did a", "did b"]
    assert result.text == "done"


async def test_a_call_that_may_have_happened_runs_again_where_it_says_that_it_may() -> None:
    log: list[Any] = []
    store, reached = Dies(), asyncio.Event()

    @tool(effect="idempotent")
    async def put(x: int) -> str:
        """Put it there."""
        log.append(x)
        if len(log) == 1:
            store.dead = True
            reached.set()
            await asyncio.sleep(5)
        return "there"

    run_id = await killed(agent(calls(("put", {"x": 1})), tools=[put], store=store), reached)
    store.dead = False
    result = await agent(text("done"), tools=[put], store=store).resume(run_id)
    assert (log, results_of(result.messages), result.text) == ([1, 1], ["there"], "done")


async def test_a_run_that_was_killed_in_the_model_call_goes_on_with_it() -> None:
    log: list[Any] = []
    store = Dies()
    reached = asyncio.Event()

    async def dying(request: Any) -> Any:
        store.dead = True
        reached.set()
        return hang()

    made = agent(calls(BOB), dying, tools=[guarded(log, approval=False)], store=store)
    run_id = await killed(made, reached)
    store.dead = False
    other = agent(text("done"), tools=[guarded(log, approval=False)], store=store)
    result = await other.resume(run_id)
    assert (result.text, log) == ("done", [("mail", "bob", 1)])
    assert [m.role for m in await store.load("t1")] == ["user", "assistant", "tool", "assistant"]


async def test_a_killed_run_is_resumed_once() -> None:
    store = Dies()
    reached = asyncio.Event()

    async def dying(request: Any) -> Any:
        store.dead = True
        reached.set()
        return hang()

    run_id = await killed(agent(dying, store=store), reached)
    store.dead = False
    other = agent(text("done"), text("never"), store=store)
    assert (await other.resume(run_id)).text == "done"
    with pytest.raises(ResumeError):
        await other.resume(run_id)
