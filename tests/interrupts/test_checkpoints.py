"""A checkpoint outside a store: plain JSON, sealed, unchanged by a resume, and refused where it is not what it was."""

import asyncio
import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

import pytest
from tests.interrupts.play import (
    agent,
    answers_to,
    args_of,
    asked,
    carried,
    go_on,
    guarded,
    one_waiting,
    paused,
    refused,
    results_of,
)

from interpose import Agent, Approved, Cancelled, Rejected, ResumeError, tool
from interpose.testing import ScriptedModel, calls, text

BOB = ("mail", {"to": "bob"})
KEY = b"k" * 32


async def test_a_finished_run_has_no_checkpoint() -> None:
    result = await Agent(ScriptedModel(text("hi"))).run("Go")
    assert (result.checkpoint, result.interrupts, result.status) == (None, (), "finished")


async def test_a_checkpoint_is_plain_json_and_so_is_the_result(how: str) -> None:
    first = await one_waiting(how, [])
    assert carried(first) == first.result.checkpoint
    assert json.loads(first.result.to_json())["checkpoint"] == carried(first)


async def test_another_agent_made_alike_goes_on_from_it(how: str) -> None:
    log: list[Any] = []
    first = await one_waiting(how, [])
    other = agent(text("done"), tools=[guarded(log)])
    after = await go_on(first, answers_to(first, Approved()), other)
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])


async def test_another_agent_with_the_same_key_goes_on_from_it(how: str) -> None:
    log: list[Any] = []
    first = await one_waiting(how, [], checkpoint_key=KEY)
    other = agent(text("done"), tools=[guarded(log)], checkpoint_key=bytes(KEY))
    assert (await go_on(first, answers_to(first, Approved()), other)).result.text == "done"
    assert log == [("mail", "bob", 1)]


@pytest.mark.parametrize("key", [b"x" * 32, None], ids=["another", "the process's"])
async def test_a_checkpoint_of_another_key_is_refused(how: str, key: Any) -> None:
    log: list[Any] = []
    first = await one_waiting(how, [], checkpoint_key=KEY)
    await refused(first, answers_to(first, Approved()), agent("x", tools=[guarded(log)], checkpoint_key=key))
    assert log == []


@pytest.mark.parametrize("edited", [False, True], ids=["approved", "edited"])
async def test_copies_of_an_agent_share_its_key(how: str, edited: bool) -> None:
    log: list[Any] = []
    first = await one_waiting(how, log, checkpoint_key=KEY)
    answer = Approved({"to": "eve", "n": 1}) if edited else Approved()
    after = await go_on(first, answers_to(first, answer), copy.copy(first.agent))
    assert after.result.text == "done"


def paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every leaf of *data*."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = [one for key, value in items for one in paths(value, (*path, key))]
    return found or [path]


def changed(data: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    data = copy.deepcopy(data)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change(place[path[-1]])
    return data


async def test_a_change_anywhere_in_it_is_refused() -> None:
    log: list[Any] = []
    first = await one_waiting("run", log)
    whole = carried(first)
    assert len(paths(whole)) > 15
    for path in paths(whole):
        for change in (lambda value: f"{value}x", lambda value: None if value is not None else 0):
            with pytest.raises(ResumeError):
                await first.agent.resume(changed(whole, path, change), answers_to(first, Approved()))
    assert (log, len(first.requests)) == ([], 1)


async def test_arguments_that_were_changed_in_it_are_refused(how: str) -> None:
    log: list[Any] = []
    first = await one_waiting(how, log)
    forged = json.loads(json.dumps(carried(first)).replace("bob", "eve"))
    await refused(first, answers_to(first, Approved()), parent_run_id=forged)
    assert log == []


async def test_one_that_is_cut_is_refused() -> None:
    first = await one_waiting("run", [])
    whole = carried(first)
    for path in paths(whole):
        cut = copy.deepcopy(whole)
        place = cut
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        with pytest.raises(ResumeError):
            await first.agent.resume(cut, answers_to(first, Approved()))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"checkpoint": {}},
        {"seal": "x"},
        {"checkpoint": {}, "seal": "x"},
        {"checkpoint": {}, "seal": 5},
        5,
        b"x",
        [],
    ],
    ids=repr,
)
async def test_what_is_no_checkpoint_is_refused(given: Any) -> None:
    with pytest.raises(ResumeError):
        await agent(text("never")).resume(given, {})


async def test_the_seal_of_one_does_not_fit_another(how: str) -> None:
    log: list[Any] = []
    first, other = await one_waiting(how, log), await one_waiting(how, log)
    mixed = {**carried(first), "seal": carried(other)["seal"]}
    await refused(first, answers_to(first, Approved()), parent_run_id=mixed)
    assert log == []


async def test_it_survives_a_change_of_the_order_of_its_keys(how: str) -> None:
    def turned(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: turned(value) for key, value in reversed(data.items())}
        return [turned(one) for one in data] if isinstance(data, list) else data

    first = await one_waiting(how, [])
    after = await go_on(first, answers_to(first, Approved()), parent_run_id=turned(carried(first)))
    assert after.result.text == "done"


@pytest.mark.parametrize("word", ["Ünï", "\U0001f600", "\u2028", "\x00", "a\\u0041", "\ud800"], ids=ascii)
async def test_any_text_survives_it(how: str, word: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(("mail", {"to": word}), text=word), text("done"), tools=[guarded(log)]), word)
    after = await go_on(first, answers_to(first, Approved()))
    assert after.result.text == "done"
    assert log == [("mail", word.replace("\ud800", "\ufffd"), 1)]


@pytest.mark.parametrize("n", [2**53 + 1, 2**70, -1, 0], ids=str)
async def test_any_whole_number_survives_it(how: str, n: int) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(("mail", {"to": "bob", "n": n})), text("done"), tools=[guarded(log)]))
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", n)])


class Colour(Enum):
    RED = "red"


@dataclass
class Place:
    town: str
    zip: int = 0


async def test_typed_arguments_are_approved_as_they_were_asked(how: str) -> None:
    log: list[Any] = []

    @tool(approval=True)
    async def book(
        day: date, colour: Colour, place: Place, share: float, tags: set[str], note: str | None = None
    ) -> str:
        """Book."""
        log.append((day, colour, place, share, tags, note))
        return "booked"

    args = {"day": "2024-05-01", "colour": "red", "place": {"town": "Lyon"}, "share": 1, "tags": ["x"]}
    first = await paused(how, agent(calls(("book", args)), text("done"), tools=[book]))
    after = await go_on(first, answers_to(first, Approved()))
    assert after.result.status == "finished"
    assert log == [(date(2024, 5, 1), Colour.RED, Place("Lyon"), 1.0, {"x"}, None)]


async def test_edited_typed_arguments_are_approved_as_they_were_edited(how: str) -> None:
    log: list[Any] = []

    @tool(approval=True)
    async def book(day: date, place: Place) -> str:
        """Book."""
        log.append((day, place))
        return "booked"

    args = {"day": "2024-05-01", "place": {"town": "Lyon"}}
    first = await paused(how, agent(calls(("book", args)), text("done"), tools=[book]))
    after = await go_on(first, answers_to(first, Approved({"day": "2025-01-01", "place": {"town": "Nice", "zip": 6}})))
    assert after.result.status == "finished"
    assert log == [(date(2025, 1, 1), Place("Nice", 6))]


async def test_edited_arguments_may_be_typed_values(how: str) -> None:
    log: list[Any] = []

    @tool(approval=True)
    async def book(day: date) -> str:
        """Book."""
        log.append(day)
        return "booked"

    first = await paused(how, agent(calls(("book", {"day": "2024-05-01"})), text("done"), tools=[book]))
    after = await go_on(first, answers_to(first, Approved({"day": date(2025, 1, 1)})))
    assert (after.result.status, log) == ("finished", [date(2025, 1, 1)])


async def test_a_question_shows_arguments_as_json(how: str) -> None:
    @tool(approval=True)
    async def book(day: date) -> str:
        """Book."""
        return "booked"

    first = await paused(how, agent(calls(("book", {"day": "2024-05-01"})), tools=[book]))
    json.dumps([one.to_wire() for one in asked(first)])
    assert str(args_of(first)["day"]) == "2024-05-01"


async def test_resuming_twice_from_one_checkpoint_changes_it_not_and_mixes_nothing(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    before = json.dumps(first.result.checkpoint, sort_keys=True)
    yes = await go_on(first, answers_to(first, Approved()), agent(text("sent"), tools=[guarded(log)]))
    no = await go_on(first, answers_to(first, Rejected("no")), agent(text("kept"), tools=[guarded(log)]))
    assert json.dumps(first.result.checkpoint, sort_keys=True) == before
    assert (yes.result.text, no.result.text, log) == ("sent", "kept", [("mail", "bob", 1)])
    assert [len(one.result.messages) for one in (yes, no)] == [4, 4]
    assert results_of(yes.result.messages) == ["sent to bob"]


async def test_two_resumes_at_once_from_one_checkpoint_do_not_mix(how: str) -> None:
    first = await paused(how, agent(calls(BOB), tools=[guarded([])]))
    others = [agent(text(word), tools=[guarded([])]) for word in ("one", "two")]
    results = await asyncio.gather(*[other.resume(carried(first), answers_to(first, Cancelled())) for other in others])
    assert [result.text for result in results] == ["one", "two"]
    assert [len(result.messages) for result in results] == [4, 4]


# An agent that is not what it was.


# All ways to resume.
