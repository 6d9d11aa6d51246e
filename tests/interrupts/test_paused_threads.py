"""What becomes of a thread on which a run is paused."""

from typing import Any

from tests.interrupts.play import Asks, agent, answers_to, by_id, guarded, paused, play, results_of, waiting

from interpose import (
    Approved,
    ResumeError,
)
from interpose.stores import MemoryStore
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


async def test_the_thread_has_the_whole_story_once_it_is_settled(how: str) -> None:
    store = MemoryStore()
    first = await waiting(how, store, [])
    after = await by_id(first, answers_to(first, Approved()))
    stored = await store.load("t1")
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]
    assert [message.id for message in stored] == [message.id for message in after.result.messages]


async def test_the_thread_of_a_paused_run_has_no_open_call(how: str) -> None:
    store = MemoryStore()
    await waiting(how, store, [])
    assert [call for message in await store.load("t1") for call in message.tool_calls] == []


async def test_what_is_stored_of_an_edited_call_is_what_was_sent(how: str) -> None:
    store = MemoryStore()
    first = await waiting(how, store, [])
    after = await by_id(first, answers_to(first, Approved({"to": "eve", "n": 1}, by="ann")))
    (stored,) = [call for message in await store.load("t1") for call in message.tool_calls]
    (sent,) = [call for message in after.requests[-1].messages for call in message.tool_calls]
    assert (dict(stored.args), stored.edited_by) == ({"to": "eve", "n": 1}, "ann")
    assert stored == sent


async def test_a_new_prompt_on_a_paused_thread_settles_the_open_call(how: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    first = await waiting(how, store, log, text("sorry"))
    after = await play(how, first.agent, "Never mind", thread_id="t1")
    assert (after.result.text, log) == ("sorry", [])
    sent = after.requests[-1].messages
    assert [message.role for message in sent] == ["user", "assistant", "tool", "user"]
    assert sent[2].is_error
    assert [message.role for message in await store.load("t1")] == ["user", "assistant", "tool", "user", "assistant"]


async def test_after_a_new_prompt_the_model_is_told_that_nobody_answered(how: str) -> None:
    first = await waiting(how, MemoryStore(), [], text("sorry"))
    after = await play(how, first.agent, "Never mind", thread_id="t1")
    assert results_of(after.requests[-1].messages) == ["not executed: nobody answered whether it may run"]


async def test_after_a_new_prompt_the_old_questions_are_closed(how: str) -> None:
    log: list[Any] = []
    first = await waiting(how, MemoryStore(), log, text("sorry"), text("never"))
    await play(how, first.agent, "Never mind", thread_id="t1")
    assert await first.agent.pending() == []
    late = await by_id(first, answers_to(first, Approved()))
    assert isinstance(late.error, ResumeError)
    assert log == []


async def test_a_new_prompt_on_a_thread_that_was_paused_before_the_model_goes_on_with_it(how: str) -> None:
    store = MemoryStore()
    first = await paused(
        how, agent(text("hello"), middleware=[Asks("before_model")], store=store), "One", thread_id="t1"
    )
    other = agent(text("hello"), store=store)
    after = await play(how, other, "Two", thread_id="t1")
    assert after.result.text == "hello"
    assert [m.text for m in after.requests[-1].messages if m.role == "user"] == ["One", "Two"]
    assert await first.agent.pending() == []


async def test_a_thread_goes_on_after_its_paused_run_was_resumed(how: str) -> None:
    store = MemoryStore()
    first = await waiting(how, store, [], text("done"), text("and on"))
    await by_id(first, answers_to(first, Approved()))
    after = await play(how, first.agent, "More", thread_id="t1")
    assert [m.role for m in after.result.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_earlier_runs_of_the_thread_are_there_after_the_resume(how: str) -> None:
    store = MemoryStore()
    made = agent(text("hi"), calls(BOB), text("done"), tools=[guarded([])], store=store)
    await play(how, made, "One", thread_id="t1")
    second = await paused(how, made, "Two", thread_id="t1")
    after = await by_id(second, answers_to(second, Approved()))
    assert [m.text for m in after.result.messages if m.role == "user"] == ["One", "Two"]
    assert [m.role for m in after.result.new_messages] == ["assistant", "tool", "assistant"]
    assert [m.id for m in await store.load("t1")] == [m.id for m in after.result.messages]
