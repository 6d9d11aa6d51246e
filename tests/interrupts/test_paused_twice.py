"""One thread, two runs that pause: only the questions of the later one are open."""

import asyncio
from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, asked, by_id, guarded, paused, play, results_of, waiting

from interpose import Approved, ResumeError, RunResult, UserMessage
from interpose.stores import MemoryStore
from interpose.testing import calls, text


async def test_a_new_prompt_that_is_paused_itself_closes_the_old_questions(how: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    first = await waiting(how, store, log, calls(("mail", {"to": "ada"})), text("done"))
    second = await paused(how, first.agent, "Ada instead", thread_id="t1")
    assert await first.agent.pending() == list(asked(second))
    late = await by_id(first, answers_to(first, Approved()))
    assert isinstance(late.error, ResumeError)
    third = await by_id(second, answers_to(second, Approved()))
    assert (third.result.text, log) == ("done", [("mail", "ada", 1)])
    roles = ["user", "assistant", "tool", "user", "assistant", "tool", "assistant"]
    assert [message.role for message in await store.load("t1")] == roles


@pytest.mark.parametrize("order", ["prompt first", "resume first"])
async def test_a_new_prompt_and_a_resume_at_once_do_not_both_take_the_paused_run(order: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    first = await waiting("run", store, log)
    other = agent(text("other"), store=store)
    at_once = [
        other.run("Two", thread_id="t1"),
        first.agent.resume(first.result.run_id, answers_to(first, Approved())),
    ]
    if order == "resume first":
        at_once.reverse()
    came = await asyncio.gather(*at_once, return_exceptions=True)
    assert all(isinstance(one, RunResult | ResumeError) for one in came)
    stored = await store.load("t1")
    ids = [call.id for message in stored for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 1
    assert results_of(stored).count("sent to bob") == len(log)
    assert len(results_of(stored)) == 1


async def test_messages_of_the_paused_run_that_come_again_are_skipped(how: str) -> None:
    log: list[Any] = []
    one, two = UserMessage("Mail bob", id="u1"), UserMessage("Never mind", id="u2")
    made = agent(calls(("mail", {"to": "bob"})), text("fine"), tools=[guarded(log)], store=MemoryStore())
    await paused(how, made, [one], thread_id="t1")
    after = await play(how, made, [one, two], thread_id="t1")
    assert [message.id for message in after.result.messages if message.role == "user"] == ["u1", "u2"]
    assert [message.role for message in after.result.messages] == ["user", "assistant", "tool", "user", "assistant"]
