"""A paused run in a store: found by its id in any process, used once, and gone when it is settled."""

import asyncio
from datetime import UTC, date, datetime
from typing import Any

import pytest
from tests.interrupts.play import (
    Asks,
    agent,
    answers_to,
    asked,
    by_id,
    go_on,
    guarded,
    paused,
    play,
    waiting,
)

from interpose import (
    Agent,
    Approved,
    Cancelled,
    ConfigurationError,
    Interrupt,
    Middleware,
    Pause,
    Rejected,
    Resolved,
    ResumeError,
    tool,
)
from interpose.stores import MemoryStore
from interpose.testing import FakeClock, ScriptedModel, calls, fail, text

BOB = ("mail", {"to": "bob"})


async def test_a_paused_run_is_resumed_by_its_id(how: str) -> None:
    log: list[Any] = []
    first = await waiting(how, MemoryStore(), log)
    after = await by_id(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])


async def test_another_agent_on_the_store_resumes_it(how: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    first = await waiting(how, store, [])
    other = agent(text("done"), tools=[guarded(log)], store=store)
    after = await by_id(first, answers_to(first, Approved()), other)
    assert (after.result.text, log, len(other.model.requests)) == ("done", [("mail", "bob", 1)], 1)  # type: ignore[attr-defined]  # is scripted


async def test_open_questions_are_listed_until_they_are_answered(how: str) -> None:
    store = MemoryStore()
    first = await waiting(how, store, [])
    assert await first.agent.pending() == list(asked(first))
    assert await first.agent.pending("t1") == list(asked(first))
    assert await first.agent.pending("other") == []
    await by_id(first, answers_to(first, Approved()))
    assert await first.agent.pending() == []


async def test_open_questions_of_several_runs_are_all_listed(how: str) -> None:
    store = MemoryStore()
    one = await waiting(how, store, [])
    two = await paused(how, agent(text("x"), middleware=[Asks("before_model")], store=store), thread_id="t2")
    assert {one.id for one in await one.agent.pending()} == {asked(one)[0].id, asked(two)[0].id}
    assert [one.id for one in await one.agent.pending("t2")] == [asked(two)[0].id]


async def test_open_questions_need_a_store() -> None:
    with pytest.raises(ConfigurationError, match="store"):
        await agent("x").pending()


async def test_a_second_resume_is_refused(how: str) -> None:
    log: list[Any] = []
    first = await waiting(how, MemoryStore(), log, text("done"), text("never"))
    await by_id(first, answers_to(first, Approved()))
    again = await by_id(first, answers_to(first, Approved()))
    assert isinstance(again.error, ResumeError)
    assert log == [("mail", "bob", 1)]


async def test_a_resume_from_the_checkpoint_after_one_by_id_is_refused_by_the_store(how: str) -> None:
    log: list[Any] = []
    first = await waiting(how, MemoryStore(), log, text("done"), text("never"))
    await by_id(first, answers_to(first, Approved()))
    again = await go_on(first, answers_to(first, Approved()))
    assert isinstance(again.error, ResumeError)
    assert log == [("mail", "bob", 1)]


async def test_of_two_resumes_at_once_one_is_refused_as_being_resumed() -> None:
    log: list[Any] = []
    first = await waiting("run", MemoryStore(), log)
    answers = answers_to(first, Approved())
    came = await asyncio.gather(
        *[first.agent.resume(first.result.run_id, answers) for _ in range(2)], return_exceptions=True
    )
    refusals = [one for one in came if isinstance(one, BaseException)]
    assert [type(one) for one in refusals] == [ResumeError]
    assert "resumed" in str(refusals[0])
    assert log == [("mail", "bob", 1)]


async def test_a_refused_answer_leaves_it_in_the_store(how: str) -> None:
    log: list[Any] = []
    first = await waiting(how, MemoryStore(), log)
    wrong = await by_id(first, {})
    assert isinstance(wrong.error, ResumeError)
    assert (await by_id(first, answers_to(first, Approved()))).result.text == "done"
    assert log == [("mail", "bob", 1)]


async def test_an_id_that_the_store_does_not_know_is_named(how: str) -> None:
    first = await waiting(how, MemoryStore(), [])
    after = await go_on(first, answers_to(first, Approved()), parent_run_id="run_nobody")
    assert isinstance(after.error, ResumeError)
    assert "run_nobody" in str(after.error)


async def test_a_finished_run_cannot_be_resumed(how: str) -> None:
    played = await play(how, agent(text("hi"), text("never"), store=MemoryStore()), thread_id="t1")
    with pytest.raises(ResumeError):
        await played.agent.resume(played.result.run_id, {})


async def test_a_run_that_paused_twice_is_resumed_by_its_new_id(how: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    first = await waiting(how, store, log, calls(("mail", {"to": "ada"})), text("done"))
    second = await by_id(first, answers_to(first, Approved()))
    assert await first.agent.pending() == list(asked(second))
    old = await by_id(first, answers_to(first, Approved()))
    assert isinstance(old.error, ResumeError)
    third = await by_id(second, answers_to(second, Approved()))
    assert (third.result.text, log) == ("done", [("mail", "bob", 1), ("mail", "ada", 1)])
    assert [m.role for m in await store.load("t1")] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


async def test_an_answer_that_came_too_late_leaves_the_question_open(how: str) -> None:
    clock = FakeClock()
    question = Interrupt[Any, Any]("q")

    class Asking(Middleware):
        interrupts = (question,)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [question.request("k", expires_at=datetime.fromtimestamp(60, UTC))] if ctx.step == 0 else None

    made = agent(text("never"), middleware=[Asking()], store=MemoryStore(clock=clock), clock=clock)
    first = await paused(how, made, thread_id="t1")
    await clock.advance(61)
    late = await by_id(first, answers_to(first, Resolved(1)))
    assert isinstance(late.error, ResumeError)
    assert "expired" in str(late.error)


async def test_answers_are_converted_once_also_after_a_restart(how: str) -> None:
    question = Interrupt[Any, date]("day", response=date)
    told: list[Any] = []

    class Asking(Middleware):
        interrupts = (question,)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [question.request("k")] if (ctx.step, ctx.phase) == (0, "before_model") else None

        def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> None:
            told.extend(one.payload for one in resolutions.for_(question))

    store = MemoryStore()
    first = await paused(how, agent(middleware=[Asking()], store=store), thread_id="t1")
    other = agent(text("done"), middleware=[Asking()], store=store)
    await by_id(first, answers_to(first, Resolved("2024-05-01")), other)
    assert told == [date(2024, 5, 1)]


async def test_nothing_of_settled_runs_stays_in_the_store(how: str) -> None:
    store = MemoryStore()
    first = await waiting(how, store, [], text("done"))
    await by_id(first, answers_to(first, Cancelled()))
    assert await store.paused() == []
    assert await store.get(first.result.run_id) is None


async def test_two_copies_of_a_store_hold_two_stories(how: str) -> None:
    log: list[Any] = []
    store, twin = MemoryStore(), MemoryStore()
    first = await waiting(how, store, log)
    saved = await store.get(first.result.run_id)
    assert saved is not None
    await twin.put(saved.replace(part=0))
    yes = await by_id(first, answers_to(first, Approved()), agent(text("sent"), tools=[guarded(log)], store=store))
    no = await by_id(first, answers_to(first, Rejected()), agent(text("kept"), tools=[guarded(log)], store=twin))
    assert (yes.result.text, no.result.text, log) == ("sent", "kept", [("mail", "bob", 1)])
    assert [len(await one.load("t1")) for one in (store, twin)] == [4, 4]


async def test_a_tools_result_with_odd_keys_comes_back_as_it_was(how: str) -> None:
    odd = {"__type__": "os.system", "value": "x"}

    @tool
    async def calc() -> dict[str, str]:
        """Work something out."""
        return odd

    store = MemoryStore()
    first = await paused(how, agent(calls("calc", BOB), tools=[calc, guarded([])], store=store), thread_id="t1")
    other = agent(text("done"), tools=[calc, guarded([])], store=store)
    after = await by_id(first, answers_to(first, Approved()), other)
    assert after.result.steps[0].tool_results[0].data == odd


async def test_a_resumed_run_of_a_script_of_its_own_loop_works() -> None:
    store = MemoryStore()
    log: list[Any] = []

    def script() -> str:
        made = Agent(ScriptedModel(calls(BOB), text("done")), tools=[guarded(log)], store=store)
        result = made.run_sync("Go", thread_id="t1")
        answers = {one.id: Approved() for one in result.interrupts}
        return made.run_sync(resume=answers, parent_run_id=result.run_id).text

    assert await asyncio.to_thread(script) == "done"
    assert log == [("mail", "bob", 1)]


async def test_an_answer_given_before_a_failure_is_not_used_up_by_it(how: str) -> None:
    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return None if ctx.answer("ok?") else Pause("ok?")

    made = agent(fail(RuntimeError("away")), text("done"), middleware=[Gate()], store=MemoryStore())
    first = await paused(how, made, thread_id="t1")
    failed = await by_id(first, answers_to(first, Resolved(True)))
    assert isinstance(failed.error, RuntimeError)
    after = await by_id(first, answers_to(first, Resolved(True)))
    assert after.result.text == "done"
    assert [m.role for m in after.result.messages] == ["user", "assistant"]


async def test_a_claim_of_a_process_that_died_lapses() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    first = await waiting("run", store, [], clock=clock)
    assert await store.claim(first.result.run_id, 30)
    with pytest.raises(ResumeError, match="resumed"):
        await first.agent.resume(first.result.run_id, answers_to(first, Approved()))
    await clock.advance(31)
    result = await first.agent.resume(first.result.run_id, answers_to(first, Approved()))
    assert result.text == "done"
