"""`Summarization` on threads that are stored: what is stored stays whole, what is known of the thread is taken up."""

import json
from collections.abc import Sequence
from typing import Any

from interpose import Agent, AssistantMessage, Message, ModelRequest, UserMessage
from interpose.builtin import Summarization
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, make_context, text


class Notes:
    """A summariser that notes what it was given."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    def __call__(self, ctx: Any, messages: Sequence[Message]) -> str:
        self.given.append([message.text.split(" ")[0] for message in messages])
        return f"summary{len(self.given)}"


def said(number: int) -> str:
    return f"answer{number} " + "word " * 100


def agent_of(model: ScriptedModel, store: MemoryStore, notes: Notes) -> Agent:
    mine = Summarization(600, keep_messages=2, summarize=notes)
    return Agent(model, store=store, middleware=[mine], post_model_hooks=())


async def talk(store: MemoryStore, notes: Notes, runs: int) -> ScriptedModel:
    """Ask *runs* questions on one stored thread."""
    model = ScriptedModel(*[text(said(number)) for number in range(runs)])
    agent = agent_of(model, store, notes)
    for number in range(runs):
        await agent.run(f"question{number} " + "word " * 60, thread_id="t1")
    return model


async def test_stored_thread_stays_whole_and_has_no_summary() -> None:
    store, notes = MemoryStore(), Notes()
    await talk(store, notes, 6)
    stored = await store.load("t1")
    assert [message.role for message in stored] == ["user", "assistant"] * 6
    assert notes.given


async def test_every_request_of_a_growing_thread_fits_and_ends_in_the_question() -> None:
    model = await talk(MemoryStore(), Notes(), 8)
    for number, request in enumerate(model.requests):
        assert sum(len(message.text) for message in request.messages) < 600 * 4
        assert request.messages[-1].text.startswith(f"question{number} ")
    assert [message.role for message in model.requests[-1].messages][:1] == ["system"]


async def test_result_of_a_run_is_the_whole_thread() -> None:
    store, notes = MemoryStore(), Notes()
    await talk(store, notes, 6)
    agent = agent_of(ScriptedModel(text("last")), store, notes)
    result = await agent.run("go", thread_id="t1")
    assert (len(result.messages), len(result.new_messages)) == (14, 1)
    assert not [message for message in result.messages if message.role == "system"]


# --- what is kept with the thread ---


def thread(exchanges: int) -> list[Message]:
    made: list[Message] = []
    for number in range(exchanges):
        made += [
            UserMessage(f"question{number} " + "word " * 60, id=f"q{number}"),
            AssistantMessage(said(number), id=f"a{number}"),
        ]
    return made


async def step(mine: Summarization, state: dict[str, Any], messages: list[Message]) -> list[str]:
    """What one run on the thread sends, as the first words of its messages."""
    request = ModelRequest(messages=tuple(messages))
    sent = await mine.before_model_call(make_context(thread_state=state), request) or request
    return [message.text.split("\n")[-1].split(" ")[0] for message in sent.messages]


async def test_later_run_takes_up_the_summary_of_the_thread() -> None:
    state: dict[str, Any] = {}
    first, second = Notes(), Notes()
    await step(Summarization(600, keep_messages=2, summarize=first), state, thread(5))
    sent = await step(Summarization(600, keep_messages=2, summarize=second), state, thread(5))
    assert sent == ["summary1", "question4", "answer4"]
    assert second.given == []


async def test_later_summary_begins_with_the_former_one_and_covers_what_came_since() -> None:
    state: dict[str, Any] = {}
    notes = Notes()
    await step(Summarization(600, keep_messages=2, summarize=notes), state, thread(4))
    sent = await step(Summarization(600, keep_messages=2, summarize=notes), state, thread(7))
    assert notes.given[1] == ["summary1", "question3", "answer3", "question4", "answer4", "question5", "answer5"]
    assert sent == ["summary2", "question6", "answer6"]


async def test_what_is_kept_with_the_thread_is_json() -> None:
    state: dict[str, Any] = {}
    notes = Notes()
    await step(Summarization(600, keep_messages=2, summarize=notes), state, thread(4))
    kept = json.loads(json.dumps(state))
    assert await step(Summarization(600, keep_messages=2, summarize=notes), kept, thread(4)) == [
        "summary1",
        "question3",
        "answer3",
    ]
    assert len(notes.given) == 1


async def test_summary_of_a_thread_that_was_begun_anew_is_not_used() -> None:
    state: dict[str, Any] = {}
    notes = Notes()
    await step(Summarization(600, keep_messages=2, summarize=notes), state, thread(4))
    fresh: list[Message] = [UserMessage("hello", id="other")]
    assert await step(Summarization(600, keep_messages=2, summarize=notes), state, fresh) == ["hello"]


async def test_two_of_other_names_keep_their_summaries_apart() -> None:
    state: dict[str, Any] = {}
    outer, inner = Notes(), Notes()
    one, two = (Summarization(limit, 2, summarize=notes) for limit, notes in ((600, outer), (450, inner)))
    two.name = "second"
    await step(one, state, thread(4))
    await step(two, state, thread(4))
    assert len(state) == 2
