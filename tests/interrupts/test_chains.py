"""Questions that follow each other on the same calls: what was done and said before is kept."""

from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, args_of, asked, go_on, guarded, paused, results_of

from interpose import Approved, Middleware, Pause, Rejected, Resolved
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})
ADA = ("mail", {"to": "ada"})


class Gate(Middleware):
    """Pauses in front of each call until it was answered."""

    def __init__(self, reason: str = "ok?", only: str = "") -> None:
        self.reason = reason
        self.only = only

    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        if self.only and call.args["to"] != self.only:
            return None
        return None if ctx.answer(self.reason) else Pause(self.reason)


class Keeps(Middleware):
    """Pauses behind each call until it was answered."""

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        return result if ctx.answer("keep?") else Pause("keep?", result.data)


async def test_a_gate_and_then_an_approval_of_one_call(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Gate()]))
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert [one.reason for one in asked(second)] != ["ok?"]
    third = await go_on(second, answers_to(second, Approved()))
    assert (third.result.text, log) == ("done", [("mail", "bob", 1)])


async def test_a_gate_and_then_an_edit_of_one_call(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Gate()]))
    second = await go_on(first, answers_to(first, Resolved(True)))
    third = await go_on(second, answers_to(second, Approved({"to": "eve"})))
    assert (third.result.text, log) == ("done", [("mail", "eve", 1)])


async def test_an_approval_and_then_a_question_about_the_result(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Keeps()]))
    second = await go_on(first, answers_to(first, Approved()))
    assert ([one.value for one in asked(second)], log) == (["sent to bob"], [("mail", "bob", 1)])
    third = await go_on(second, answers_to(second, Resolved(True)))
    assert (third.result.text, log) == ("done", [("mail", "bob", 1)])
    assert results_of(third.result.messages) == ["sent to bob"]


async def test_an_edit_is_still_marked_after_a_second_question(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Keeps()]))
    second = await go_on(first, answers_to(first, Approved({"to": "eve", "n": 2}, by="ann")))
    third = await go_on(second, answers_to(second, Resolved(True)))
    (call,) = [call for message in third.result.messages for call in message.tool_calls]
    assert (dict(call.args), call.edited_by, log) == ({"to": "eve", "n": 2}, "ann", [("mail", "eve", 2)])


async def test_a_rejection_holds_when_another_call_asks_again(how: str) -> None:
    log: list[Any] = []

    class Late(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            result = await call_next(call)
            return Pause("keep?") if call.args["to"] == "ada" and not ctx.answer("keep?") else result

    first = await paused(how, agent(calls(BOB, ADA), text("done"), tools=[guarded(log)], middleware=[Late()]))
    second = await go_on(first, answers_to(first, Rejected("no"), Approved()))
    assert [one.reason for one in asked(second)] == ["keep?"]
    third = await go_on(second, answers_to(second, Resolved(True)))
    assert (third.result.text, log) == ("done", [("mail", "ada", 1)])
    assert "no" in results_of(third.result.messages)[0]
    assert results_of(third.result.messages)[1] == "sent to ada"


async def test_a_call_that_ran_does_not_run_again_when_its_sibling_is_asked_about_anew(how: str) -> None:
    log: list[Any] = []

    class Late(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            if call.args["to"] == "ada" and ctx.resumed_from and not ctx.answer("really?"):
                return Pause("really?")
            return None

    first = await paused(how, agent(calls(BOB, ADA), text("done"), tools=[guarded(log)], middleware=[Late()]))
    second = await go_on(first, answers_to(first, Approved(), Approved()))
    assert ([one.reason for one in asked(second)], log) == (["really?"], [("mail", "bob", 1)])
    third = await go_on(second, answers_to(second, Resolved(True)))
    assert (third.result.status, log) == ("finished", [("mail", "bob", 1), ("mail", "ada", 1)])


async def test_gates_of_one_call_and_an_approval_of_another_are_one_batch(how: str) -> None:
    log: list[Any] = []
    tools = [guarded(log), guarded(log, "post", approval=False)]
    turn = calls(("post", {"to": "x"}), BOB)
    first = await paused(how, agent(turn, text("done"), tools=tools, middleware=[Gate(only="x")]))
    assert len(asked(first)) == 2
    after = await go_on(first, answers_to(first, Resolved(True), Approved()))
    assert (after.result.text, sorted(log)) == ("done", [("mail", "bob", 1), ("post", "x", 1)])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["gate outside", "gate inside"])
async def test_two_gates_and_an_approval_come_one_after_the_other_in_any_order(how: str, order: Any) -> None:
    log: list[Any] = []
    gates = [Gate("first?"), Keeps()]
    made = agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[gates[place] for place in order])
    played = await paused(how, made)
    for _ in range(5):
        if played.result.status == "finished":
            break
        approval = asked(played)[0].reason not in ("first?", "keep?")
        played = await go_on(played, answers_to(played, Approved() if approval else Resolved(True)))
    assert (played.result.text, log, len(played.requests)) == ("done", [("mail", "bob", 1)], 2)


async def test_a_question_before_the_model_and_an_approval_in_one_step(how: str) -> None:
    log: list[Any] = []

    class Before(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return None if ctx.step > 0 or ctx.answer("go?") else Pause("go?")

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Before()]))
    second = await go_on(first, answers_to(first, Resolved(True)))
    assert (args_of(second)["to"], len(second.requests)) == ("bob", 1)
    third = await go_on(second, answers_to(second, Approved()))
    assert (third.result.text, log, len(third.requests)) == ("done", [("mail", "bob", 1)], 2)


async def test_twenty_pauses_in_a_row_add_up(how: str) -> None:
    log: list[Any] = []
    turns = [calls(("mail", {"to": str(n)})) for n in range(20)]
    played = await paused(how, agent(*turns, text("done"), tools=[guarded(log)]))
    for _ in range(19):
        played = await go_on(played, answers_to(played, Approved()))
        assert played.result.status == "interrupted"
    played = await go_on(played, answers_to(played, Approved()))
    assert (played.result.text, [to for _, to, _ in log]) == ("done", [str(n) for n in range(20)])
    assert [step.number for step in played.result.steps] == list(range(21))
    assert len(played.result.messages) == 42
