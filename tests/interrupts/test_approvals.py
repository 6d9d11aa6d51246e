"""Approvals: only what a person let run runs, as they let it, and every call is answered."""

from typing import Any

import pytest
from tests.interrupts.play import (
    Looks,
    agent,
    answers_to,
    args_of,
    asked,
    go_on,
    guarded,
    looks_of,
    paused,
    refused,
    results_of,
)

from interpose import Approved, Cancelled, Middleware, Rejected, ToolCall, tool
from interpose.testing import calls, event_types, text

BOB = ("mail", {"to": "bob"})
ADA = ("mail", {"to": "ada"})


async def test_a_call_that_needs_approval_waits_and_its_question_names_it(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    (question,) = asked(first)
    assert question.tool_call is not None
    assert (question.tool_call.name, question.tool_call.args["to"], log) == ("mail", "bob", [])
    assert first.endings == ["on_finish"]


async def test_an_approved_call_runs_once_with_the_models_arguments_and_the_run_goes_on(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.status, after.result.text, log) == ("finished", "done", [("mail", "bob", 1)])
    assert results_of(after.result.messages) == ["sent to bob"]
    assert len(after.requests) == 2


async def test_the_result_of_an_approved_call_is_sent_to_the_model_once(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved()))
    assert results_of(after.requests[-1].messages) == ["sent to bob"]


async def test_an_edited_call_gets_exactly_the_edited_arguments(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(("mail", {"to": "bob", "n": 7})), text("done"), tools=[guarded(log)]))
    await go_on(first, answers_to(first, Approved({"to": "eve"})))
    assert log == [("mail", "eve", 1)]


async def test_an_edit_to_no_arguments_is_an_edit(how: str) -> None:
    log: list[Any] = []

    @tool(approval=True)
    async def ring(times: int = 1) -> str:
        """Ring the bell."""
        log.append(times)
        return "rung"

    first = await paused(how, agent(calls(("ring", {"times": 9})), text("done"), tools=[ring]))
    await go_on(first, answers_to(first, Approved({})))
    assert log == [1]


async def test_an_edit_stands_in_history_under_the_same_id_and_is_marked(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved({"to": "eve"}, by="ann")))
    (call,) = [call for message in after.result.messages for call in message.tool_calls]
    assert (call.id, dict(call.args), call.edited_by) == (asked(first)[0].tool_call.id, {"to": "eve"}, "ann")  # type: ignore[union-attr]  # asked about a call
    (sent,) = [call for message in after.requests[-1].messages for call in message.tool_calls]
    assert dict(sent.args) == {"to": "eve"}


async def test_a_call_approved_as_it_was_is_not_marked_as_edited(how: str) -> None:
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Approved(by="ann")))
    (call,) = [call for message in after.result.messages for call in message.tool_calls]
    assert call.edited_by is None


async def test_layers_see_the_edited_arguments(how: str) -> None:
    seen: list[Any] = []

    class Sees(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            seen.append(call.args["to"])
            return await call_next(call)

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Sees()]))
    await go_on(first, answers_to(first, Approved({"to": "eve"})))
    assert seen == ["bob", "eve"]


async def test_edited_arguments_are_made_typed_like_any_others(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)]))
    await go_on(first, answers_to(first, Approved({"to": "eve", "n": "3"})))
    assert log == [("mail", "eve", 3)]


@pytest.mark.parametrize("edit", [{}, {"to": 5}, {"to": "a", "n": "many"}, {"to": "a", "surprise": 1}])
async def test_an_edit_that_does_not_fit_the_tool_refuses_the_resume(how: str, edit: Any) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), tools=[guarded(log)]))
    ((key, _),) = await refused(first, answers_to(first, Approved(edit)))
    assert (key, log, len(first.requests)) == (asked(first)[0].id, [], 1)


async def test_two_edits_that_do_not_fit_are_both_listed_and_neither_call_runs(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB, ADA), tools=[guarded(log)]))
    problems = await refused(first, answers_to(first, Approved({}), Approved({"to": 1})))
    assert [key for key, _ in problems] == [one.id for one in asked(first)]
    assert log == []


async def test_of_approve_reject_and_cancel_only_the_approved_call_runs_and_all_are_answered(how: str) -> None:
    log: list[Any] = []
    turn = calls(("mail", {"to": "a"}), ("mail", {"to": "b"}), ("mail", {"to": "c"}))
    first = await paused(how, agent(turn, text("done"), tools=[guarded(log)]))
    after = await go_on(first, answers_to(first, Approved(), Rejected("too rude"), Cancelled()))
    assert log == [("mail", "a", 1)]
    sent, rejected, cancelled = results_of(after.result.messages)
    assert sent == "sent to a"
    assert "too rude" in rejected
    assert cancelled
    assert [message.is_error for message in after.result.messages if message.role == "tool"] == [False, True, True]  # type: ignore[union-attr]  # tool messages have it
    assert after.result.text == "done"


async def test_a_rejected_call_never_runs_also_when_a_layer_tries_it_again(how: str) -> None:
    log: list[Any] = []

    class Insists(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            result = await call_next(call)
            return await call_next.again(call) if result.is_error else result

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Insists()]))
    after = await go_on(first, answers_to(first, Rejected("no")))
    assert log == []
    assert len(results_of(after.result.messages)) == 1


async def test_a_rejection_leaves_its_sibling_alone(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        log.append("calc")
        return "42"

    first = await paused(how, agent(calls("calc", BOB), text("done"), tools=[calc, guarded(log)]))
    assert log == ["calc"]
    after = await go_on(first, answers_to(first, Rejected()))
    assert log == ["calc"]
    assert results_of(after.result.messages)[0] == "42"
    assert "reject" in results_of(after.result.messages)[1]


async def test_a_free_sibling_runs_and_its_result_is_shown_before_the_run_ends() -> None:
    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    first = await paused("stream", agent(calls("calc", BOB), tools=[calc, guarded([])]))
    assert first.types.index("TOOL_CALL_RESULT") < first.types.index("RUN_FINISHED")
    assert first.types.count("TOOL_CALL_RESULT") == 1


async def test_a_finished_sibling_is_not_run_or_hooked_again_and_one_model_call_follows(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        log.append("calc")
        return "42"

    look = Looks()
    tools = [calc, guarded(log)]
    first = await paused(how, agent(calls("calc", BOB), text("done"), tools=tools, middleware=[look]))
    looks_of(look)
    after = await go_on(first, answers_to(first, Approved()))
    assert log == ["calc", ("mail", "bob", 1)]
    assert "before_tool_call calc" not in look.seen
    assert len(after.requests) == 2
    assert results_of(after.requests[1].messages) == ["42", "sent to bob"]


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned round"])
async def test_parallel_questions_get_their_own_answers_in_either_order(how: str, turned: bool) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB, ADA), text("done"), tools=[guarded(log)]))
    given = list(answers_to(first, Approved({"to": "b2"}), Approved({"to": "a2"})).items())
    await go_on(first, dict(reversed(given) if turned else given))
    assert sorted(log) == [("mail", "a2", 1), ("mail", "b2", 1)]


async def test_questions_have_ids_of_their_own_in_the_order_of_the_calls(how: str) -> None:
    turn = calls(("mail", {"to": "a"}), ("mail", {"to": "b"}), ("mail", {"to": "c"}))
    first = await paused(how, agent(turn, tools=[guarded([])]))
    assert [args_of(first, place)["to"] for place in range(3)] == ["a", "b", "c"]
    assert len({one.id for one in asked(first)}) == 3
    if how == "stream":
        assert [one["id"] for one in first.events[-1].outcome["interrupts"]] == [one.id for one in asked(first)]


async def test_ids_and_names_that_look_alike_when_joined_are_told_apart(how: str) -> None:
    log: list[Any] = []
    one, two = guarded(log, "a/b"), guarded(log, "a")
    turn = calls(
        ToolCall(id="c", name="a/b", args={"to": "1"}),
        ToolCall(id="b/c", name="a", args={"to": "2"}),
    )
    first = await paused(how, agent(turn, text("done"), tools=[one, two]))
    assert len({question.id for question in asked(first)}) == 2
    await go_on(first, answers_to(first, Approved(), Rejected()))
    assert log == [("a/b", "1", 1)]


async def test_an_approval_does_not_hold_for_a_later_call_of_the_same_tool(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), calls(ADA), text("done"), tools=[guarded(log)]))
    second = await go_on(first, answers_to(first, Approved()))
    assert second.result.status == "interrupted"
    assert (args_of(second)["to"], log) == ("ada", [("mail", "bob", 1)])
    third = await go_on(second, answers_to(second, Approved()))
    assert (third.result.text, log) == ("done", [("mail", "bob", 1), ("mail", "ada", 1)])


async def test_an_approval_does_not_hold_for_a_later_call_that_is_the_same(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), calls(BOB), tools=[guarded(log)]))
    second = await go_on(first, answers_to(first, Approved()))
    assert second.result.status == "interrupted"
    assert asked(second)[0].id != asked(first)[0].id


async def test_an_approval_does_not_hold_for_a_later_call_under_the_same_id(how: str) -> None:
    log: list[Any] = []
    turns = [calls(ToolCall(id="c1", name="mail", args={"to": to})) for to in ("bob", "eve")]
    first = await paused(how, agent(*turns, tools=[guarded(log)]))
    second = await go_on(first, answers_to(first, Approved()))
    assert second.result.status == "interrupted"
    assert log == [("mail", "bob", 1)]


async def test_a_rewrite_after_the_approval_asks_again(how: str) -> None:
    log: list[Any] = []
    to = ["bob"]

    class Rewrites(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.replace(args={"to": to[0]})

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Rewrites()]))
    to[0] = "eve"
    second = await go_on(first, answers_to(first, Approved()))
    assert (second.result.status, log) == ("interrupted", [])
    assert args_of(second)["to"] == "eve"
    await go_on(second, answers_to(second, Approved()))
    assert log == [("mail", "eve", 1)]


async def test_a_rewrite_that_is_the_same_each_time_is_approved_once(how: str) -> None:
    log: list[Any] = []

    class Rewrites(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.replace(args={**call.args, "to": call.args["to"].upper()})

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Rewrites()]))
    assert args_of(first)["to"] == "BOB"
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.status, log) == ("finished", [("mail", "BOB", 1)])


async def test_a_rewrite_of_an_edited_call_asks_again(how: str) -> None:
    log: list[Any] = []

    class Rewrites(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.replace(args={**call.args, "n": 99}) if call.args["to"] == "eve" else None

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log)], middleware=[Rewrites()]))
    second = await go_on(first, answers_to(first, Approved({"to": "eve", "n": 2})))
    assert (second.result.status, log) == ("interrupted", [])
    assert dict(args_of(second)) == {"to": "eve", "n": 99}


async def test_a_rewrite_to_another_tool_after_the_approval_asks_again(how: str) -> None:
    log: list[Any] = []
    name = ["mail"]

    class Rewrites(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.replace(name=name[0])

    tools = [guarded(log), guarded(log, "post")]
    first = await paused(how, agent(calls(BOB), text("done"), tools=tools, middleware=[Rewrites()]))
    name[0] = "post"
    second = await go_on(first, answers_to(first, Approved()))
    assert (second.result.status, log) == ("interrupted", [])


async def test_an_approved_call_that_fails_is_read_by_the_model(how: str) -> None:
    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        raise ValueError("no money")

    first = await paused(how, agent(calls("pay"), text("done"), tools=[pay]))
    after = await go_on(first, answers_to(first, Approved()))
    assert "no money" in results_of(after.result.messages)[0]
    assert after.result.text == "done"


async def test_a_rejected_call_passes_the_layers_like_any_answered_call(how: str) -> None:
    seen: list[bool] = []

    class Sees(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
            seen.append(result.is_error)

    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded([])], middleware=[Sees()]))
    assert seen == []
    await go_on(first, answers_to(first, Rejected()))
    assert seen == [True]


async def test_a_resumed_run_sends_the_results_of_rejected_calls() -> None:
    first = await paused("stream", agent(calls(BOB), text("done"), tools=[guarded([])]))
    after = await go_on(first, answers_to(first, Rejected("no")))
    assert [event.content for event in after.events if event.type == "TOOL_CALL_RESULT"] == results_of(
        after.result.messages
    )
    assert event_types(after.events)[-1] == "RUN_FINISHED"
