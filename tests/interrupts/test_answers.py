"""Answers are checked as a whole: what does not fit is listed, nothing runs, and a right answer still works."""

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from tests.interrupts.play import (
    Asks,
    Looks,
    Played,
    agent,
    answers_to,
    asked,
    carried,
    go_on,
    guarded,
    looks_of,
    paused,
    refused,
)

from interpose import Approved, Cancelled, Interrupt, Middleware, Pause, Rejected, Resolved, ResumeError, tool
from interpose.testing import FakeClock, calls, text

BOB = ("mail", {"to": "bob"})
ADA = ("mail", {"to": "ada"})


class Form(msgspec.Struct, frozen=True):
    ok: bool
    day: date | None = None


Question = Interrupt[Any, Form]("form", response=Form)


class AsksForm(Middleware):
    """Asks for a `Form` before the first model call."""

    interrupts = (Question,)

    def __init__(self, expires_at: Any = None) -> None:
        self.expires_at = expires_at
        self.told: list[Any] = []

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        if (ctx.phase, ctx.step) == ("before_model", 0):
            return [Question.request("k", "Fill it in", expires_at=self.expires_at)]
        return None

    def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> None:
        self.told.append([one.payload for one in resolutions.for_(Question)])


async def two_waiting(how: str, log: list[Any], **options: Any) -> Played:
    return await paused(how, agent(calls(BOB, ADA), text("done"), tools=[guarded(log)], **options))


async def test_an_id_that_was_not_asked_is_named(how: str) -> None:
    log: list[Any] = []
    first = await two_waiting(how, log)
    problems = await refused(first, {**answers_to(first, Approved(), Approved()), "nobody-asked": Approved()})
    assert [key for key, _ in problems] == ["nobody-asked"]
    assert log == []


@pytest.mark.parametrize("place", [0, 1])
async def test_an_answer_for_one_of_two_is_refused_and_answering_both_works(how: str, place: int) -> None:
    log: list[Any] = []
    first = await two_waiting(how, log)
    answers = answers_to(first, Approved(), Approved())
    left_out = list(answers)[place]
    problems = await refused(first, {key: one for key, one in answers.items() if key != left_out})
    assert ([key for key, _ in problems], log, len(first.requests)) == ([left_out], [], 1)
    after = await go_on(first, answers)
    assert (after.result.text, len(log)) == ("done", 2)


@pytest.mark.parametrize("nothing", [{}, []], ids=["no mapping", "no entries"])
async def test_no_answers_at_all_list_every_question(how: str, nothing: Any) -> None:
    first = await two_waiting(how, [])
    problems = await refused(first, nothing)
    assert [key for key, _ in problems] == [one.id for one in asked(first)]


async def test_resume_without_answers_lists_every_question() -> None:
    first = await two_waiting("run", [])
    with pytest.raises(ResumeError) as caught:
        await first.agent.resume(carried(first))
    assert [key for key, _ in caught.value.problems] == [one.id for one in asked(first)]
    assert all(one.id in str(caught.value) for one in asked(first))


async def test_every_kind_of_problem_is_listed_at_once(how: str) -> None:
    first = await two_waiting(how, [])
    one, two = asked(first)
    problems = await refused(first, {one.id: Approved({"to": 1}), "other": Approved()})
    assert {key for key, _ in problems} == {one.id, two.id, "other"}


@pytest.mark.parametrize("answer", [True, "yes", 1, None, {"approved": True}, object()], ids=repr)
async def test_what_is_no_answer_is_refused(how: str, answer: Any) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    ((key, _),) = await refused(first, {asked(first)[0].id: answer})
    assert (key, log) == (asked(first)[0].id, [])


async def test_an_approval_is_not_answered_with_a_payload(how: str) -> None:
    first = await paused(how, agent(calls(BOB), tools=[guarded([])]))
    assert len(await refused(first, answers_to(first, Resolved(True)))) == 1


@pytest.mark.parametrize("answer", [Approved(), Rejected()], ids=["approved", "rejected"])
async def test_a_question_is_not_answered_like_an_approval(how: str, answer: Any) -> None:
    first = await paused(how, agent(text("never"), middleware=[Asks("before_model")]))
    assert len(await refused(first, answers_to(first, answer))) == 1


@pytest.mark.parametrize("edit", ["eve", 5, ["to", "eve"], [("to", "eve")]], ids=repr)
async def test_edited_arguments_that_are_no_mapping_are_refused(how: str, edit: Any) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    await refused(first, answers_to(first, Approved(edit)))
    assert log == []


@pytest.mark.parametrize("payload", [{"ok": "maybe"}, 42, None, {}, [True], {"ok": True, "day": "soon"}], ids=repr)
async def test_a_payload_of_the_wrong_type_is_refused_before_any_hook(how: str, payload: Any) -> None:
    asks, look = AsksForm(), Looks()
    first = await paused(how, agent(text("done"), middleware=[look, asks]))
    looks_of(look)
    ((key, _),) = await refused(first, answers_to(first, Resolved(payload)))
    assert (key, asks.told, look.seen) == (asked(first)[0].id, [], [])
    after = await go_on(first, answers_to(first, Resolved({"ok": True})))
    assert after.result.text == "done"


async def test_a_payload_reaches_the_hook_as_a_value_of_its_type_converted_once(how: str) -> None:
    asks = AsksForm()
    first = await paused(how, agent(text("done"), middleware=[asks]))
    await go_on(first, answers_to(first, Resolved({"ok": True, "day": "2024-05-01"})))
    assert asks.told == [[Form(ok=True, day=date(2024, 5, 1))]]


async def test_a_payload_may_be_a_value_of_its_type(how: str) -> None:
    asks = AsksForm()
    first = await paused(how, agent(text("done"), middleware=[asks]))
    await go_on(first, answers_to(first, Resolved(Form(ok=False, day=date(2024, 5, 1)))))
    assert asks.told == [[Form(ok=False, day=date(2024, 5, 1))]]


@pytest.mark.parametrize("payload", [0, "", False, [], {}, None, 0.0], ids=repr)
async def test_a_falsy_payload_is_an_answer(how: str, payload: Any) -> None:
    got: list[Any] = []

    class Gate(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            answer = ctx.answer("ok?")
            if answer is None:
                return Pause("ok?")
            got.append(answer)
            return None

    first = await paused(how, agent(text("done"), middleware=[Gate()]))
    after = await go_on(first, answers_to(first, Resolved(payload)))
    assert (after.result.text, got) == ("done", [Resolved(payload)])


async def test_a_falsy_payload_is_an_answer_to_a_typed_question(how: str) -> None:
    asks = Asks("before_model")
    first = await paused(how, agent(text("done"), middleware=[asks]))
    after = await go_on(first, answers_to(first, Resolved(False)))
    assert (after.result.text, asks.told) == ("done", [[False]])


async def test_an_answer_after_the_time_is_refused_as_expired(how: str) -> None:
    clock = FakeClock()
    asks = AsksForm(datetime.fromtimestamp(60, UTC))
    first = await paused(how, agent(text("done"), middleware=[asks], clock=clock))
    await clock.advance(61)
    ((key, what),) = await refused(first, answers_to(first, Resolved({"ok": True})))
    assert (key, "expired" in what, asks.told) == (asked(first)[0].id, True, [])


async def test_an_answer_in_time_is_taken(how: str) -> None:
    clock = FakeClock()
    first = await paused(how, agent(text("done"), middleware=[AsksForm(datetime.fromtimestamp(60, UTC))], clock=clock))
    await clock.advance(59)
    assert (await go_on(first, answers_to(first, Resolved({"ok": True})))).result.text == "done"


@pytest.mark.parametrize("when", ["soon", 60, datetime(2024, 5, 1)], ids=["word", "number", "no zone"])
def test_a_time_that_cannot_be_told_is_refused_where_it_is_asked(when: Any) -> None:
    with pytest.raises(TypeError, match="expires_at"):
        Question.request("k", expires_at=when)


async def test_an_answer_for_another_run_is_refused(how: str) -> None:
    log: list[Any] = []
    one = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    other = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    problems = await refused(one, answers_to(other, Approved()))
    assert {key for key, _ in problems} == {asked(one)[0].id, asked(other)[0].id}
    assert log == []


async def test_questions_of_two_runs_have_ids_of_their_own(how: str) -> None:
    one = await paused(how, agent(text("x"), middleware=[Asks("before_model")]))
    other = await paused(how, agent(text("x"), middleware=[Asks("before_model")]))
    assert asked(one)[0].id != asked(other)[0].id


async def test_a_finished_sibling_is_not_said_to_be_missing(how: str) -> None:
    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    first = await paused(how, agent(calls("calc", BOB), text("done"), tools=[calc, guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert after.result.text == "done"


async def test_answers_need_to_say_for_which_run(how: str) -> None:
    first = await two_waiting(how, [])
    after = await go_on(first, answers_to(first, Approved(), Approved()), parent_run_id=None)
    assert isinstance(after.error, ResumeError)
    assert "parent_run_id" in str(after.error)


async def test_an_id_without_a_store_is_refused_with_what_to_give_instead(how: str) -> None:
    first = await two_waiting(how, [])
    after = await go_on(first, answers_to(first, Approved(), Approved()), parent_run_id=first.result.run_id)
    assert isinstance(after.error, ResumeError)
    assert "checkpoint" in str(after.error)


async def test_a_refused_resume_starts_no_run(how: str) -> None:
    look = Looks()
    first = await two_waiting(how, [], middleware=[look])
    looks_of(look)
    await refused(first, {})
    assert look.seen == []


async def test_a_cancelled_approval_is_no_approval(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    after = await go_on(first, answers_to(first, Cancelled()))
    assert (after.result.text, log) == ("done", [])


# What a client on the wire sends.


def entry(played: Played, payload: Any, place: int = 0, status: str = "resolved") -> dict[str, Any]:
    return {"interruptId": asked(played)[place].id, "status": status, "payload": payload}


@pytest.mark.parametrize("payload", [{"approved": True}, True], ids=repr)
async def test_an_entry_of_the_wire_approves(how: str, payload: Any) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    after = await go_on(first, [entry(first, payload)])
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])


@pytest.mark.parametrize(
    "payload", [{"approved": False}, False, None, {}, "yes", {"approved": "false"}, {"approved": 1}, 1], ids=repr
)
async def test_an_entry_of_the_wire_that_does_not_plainly_approve_lets_nothing_run(how: str, payload: Any) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    await go_on(first, [entry(first, payload)])
    assert log == []


async def test_an_entry_of_the_wire_edits(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    await go_on(first, [entry(first, {"approved": True, "editedArgs": {"to": "eve"}})])
    assert log == [("mail", "eve", 1)]


async def test_an_entry_of_the_wire_rejects_with_a_reason(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, [entry(first, {"approved": False, "reason": "too rude"})])
    assert "too rude" in after.result.messages[-2].text


async def test_an_entry_of_the_wire_withdraws(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    after = await go_on(first, [{"interruptId": asked(first)[0].id, "status": "cancelled"}])
    assert (after.result.text, log) == ("done", [])


async def test_an_entry_of_the_wire_answers_a_question(how: str) -> None:
    asks = AsksForm()
    first = await paused(how, agent(text("done"), middleware=[asks]))
    await go_on(first, [entry(first, {"ok": True, "day": "2024-05-01"})])
    assert asks.told == [[Form(ok=True, day=date(2024, 5, 1))]]


async def test_entries_of_the_wire_may_be_given_by_id(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    await go_on(first, {asked(first)[0].id: entry(first, {"approved": True})})
    assert log == [("mail", "bob", 1)]


async def test_an_entry_given_twice_is_refused(how: str) -> None:
    log: list[Any] = []
    first = await two_waiting(how, log)
    one = entry(first, {"approved": True})
    problems = await refused(first, [one, one, entry(first, True, 1)])
    assert [key for key, _ in problems] == [asked(first)[0].id]
    assert log == []


@pytest.mark.parametrize(
    "broken",
    [
        [{}],
        [5],
        ["yes"],
        [{"status": "resolved"}],
        5,
        "yes",
        [{"interruptId": 5, "status": "resolved"}],
        [{"interruptId": ["x"], "status": "resolved"}],
    ],
    ids=repr,
)
async def test_entries_that_are_none_are_refused(how: str, broken: Any) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    await refused(first, broken)
    assert log == []


async def test_an_entry_with_a_status_that_does_not_exist_is_refused(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    problems = await refused(first, [entry(first, {"approved": True}, status="approved")])
    assert ([key for key, _ in problems], log) == ([asked(first)[0].id], [])


async def test_an_edit_of_the_wire_that_is_no_mapping_is_refused(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    await refused(first, [entry(first, {"approved": True, "editedArgs": "eve"})])
    assert log == []
