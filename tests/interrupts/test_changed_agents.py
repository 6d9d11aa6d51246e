"""An agent that is not what it was when the run paused goes on only where that does no harm."""

from typing import Any

from tests.interrupts.play import (
    Asks,
    agent,
    answers_to,
    go_on,
    guarded,
    one_waiting,
    paused,
    refused,
)

from interpose import Approved, Middleware, Resolved, ResumeError, tool
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


async def test_a_tool_that_is_gone_is_named(how: str) -> None:
    first = await one_waiting(how, [])
    after = await go_on(first, answers_to(first, Approved()), agent("x"))
    assert isinstance(after.error, ResumeError)
    assert "mail" in str(after.error)


async def test_a_tool_that_takes_other_arguments_now_is_named(how: str) -> None:
    log: list[Any] = []

    @tool(approval=True)
    async def mail(to: str, bcc: str = "") -> str:
        """Send something."""
        log.append(to)
        return "sent"

    first = await one_waiting(how, [])
    after = await go_on(first, answers_to(first, Approved()), agent("x", tools=[mail]))
    assert isinstance(after.error, ResumeError)
    assert ("mail" in str(after.error), log) == (True, [])


async def test_tools_whose_names_were_swapped_are_refused(how: str) -> None:
    log: list[Any] = []

    @tool
    async def read(path: str) -> str:
        """Read."""
        return path

    first = await paused(how, agent(calls(BOB), tools=[guarded(log), read]))
    swapped = [guarded(log).renamed("read"), read.renamed("mail")]
    await refused(first, answers_to(first, Approved()), agent("x", tools=swapped))
    assert log == []


async def test_a_new_tool_or_another_description_does_no_harm(how: str) -> None:
    @tool
    async def more() -> str:
        """Do more."""
        return "more"

    first = await one_waiting(how, [])
    other = agent(text("done"), tools=[guarded([]).replace(description="Sends."), more])
    assert (await go_on(first, answers_to(first, Approved()), other)).result.text == "done"


async def test_saved_state_of_another_version_is_refused(how: str) -> None:
    class Keeps(Middleware):
        saved = True

        def on_step(self, ctx: Any, info: Any) -> None:
            ctx.private(self)["n"] = 1

    class KeepsOtherwise(Keeps):
        name = "Keeps"
        state_version = 2

    first = await one_waiting(how, [], middleware=[Keeps()])
    after = await go_on(
        first, answers_to(first, Approved()), agent("x", tools=[guarded([])], middleware=[KeepsOtherwise()])
    )
    assert isinstance(after.error, ResumeError)
    assert "Keeps" in str(after.error)


async def test_a_question_whose_kind_nobody_declares_any_more_is_refused(how: str) -> None:
    first = await paused(how, agent(text("never"), middleware=[Asks("before_model")]))
    await refused(first, answers_to(first, Resolved(True)), agent("x"))


async def test_a_tool_whose_policy_is_stricter_now_asks(how: str) -> None:
    log: list[Any] = []

    @tool
    async def calc() -> str:
        """Work something out."""
        return "42"

    first = await paused(
        how,
        agent(
            calls(("post", {"to": "b"})),
            middleware=[Asks("before_tools")],
            tools=[guarded(log, "post", approval=False)],
        ),
    )
    other = agent(text("done"), middleware=[Asks("before_tools")], tools=[guarded(log, "post")])
    second = await go_on(first, answers_to(first, Resolved(True)), other)
    assert (second.result.status, log) == ("interrupted", [])
