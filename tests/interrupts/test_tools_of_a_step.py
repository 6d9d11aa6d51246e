"""A tool that is offered for one step keeps, over a pause or a crash, what that step made of it."""

from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, asked, by_id, go_on, guarded, paused
from tests.interrupts.snapshots import snapshot

from interpose import Agent, Approved, Middleware, Rejected, ResumeError
from interpose.stores import MemoryStore
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


class Gives(Middleware):
    """Offers *one* in the place of the tool of its name: by `on_config` in the phase *where*, or in the request."""

    def __init__(self, one: Any, where: str) -> None:
        self.one = one
        self.where = where

    def _among(self, tools: Any) -> Any:
        return (*[other for other in tools if other.name != self.one.name], self.one)

    def on_config(self, ctx: Any, config: Any) -> Any:
        return config.replace(tools=self._among(config.tools)) if ctx.phase == self.where else None

    def before_model_call(self, ctx: Any, request: Any) -> Any:
        return request.with_tools(self._among(request.tools)) if self.where == "request" else None


class Dies(Middleware):
    """Keeps the store as a process leaves it that is killed behind the model's answer, before the tools."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.left: list[MemoryStore] = []

    def on_interrupt_boundary(self, ctx: Any) -> None:
        if ctx.phase == "before_tools":
            self.left.append(snapshot(self.store))


def giving(log: list[Any], where: str, **options: Any) -> Agent[Any]:
    """Return an agent that calls a tool which needs approval, and which the first step alone offers."""
    return agent(calls(BOB), text("end"), middleware=[Gives(guarded(log), where)], **options)


async def test_a_tool_that_on_config_offers_for_a_step_runs_once_it_is_approved(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, giving(log, "before_model"))
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("end", [("mail", "bob", 1)])


async def test_the_approval_of_a_tool_that_the_request_alone_offered_is_refused(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, giving(log, "request"))
    after = await go_on(first, answers_to(first, Approved()))
    assert isinstance(after.error, ResumeError)
    assert "'mail' was offered in this step alone" in str(after.error)
    assert log == []


async def test_a_run_whose_approval_was_refused_so_goes_on_with_a_rejection(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, giving(log, "request", store=MemoryStore()))
    refused = await by_id(first, answers_to(first, Approved()))
    assert isinstance(refused.error, ResumeError)
    (question,) = await first.agent.pending()
    assert question.id == asked(first)[0].id
    after = await by_id(first, answers_to(first, Rejected()))
    assert (after.result.text, log) == ("end", [])


@pytest.mark.parametrize("where", ["init", "before_model", "request"])
async def test_a_call_that_needed_approval_in_its_step_needs_it_after_a_crash_too(how: str, where: str) -> None:
    log: list[Any] = []
    store = MemoryStore()
    free = guarded(log, approval=False)
    dies, gives = Dies(store), Gives(free.replace(approval=True), where)
    made = agent(calls(BOB), tools=[free], middleware=[gives, dies], store=store)
    await paused(how, made, run_id="r1", thread_id="t1")
    other = agent(text("end"), tools=[free], middleware=[gives], store=dies.left[0])
    assert ((await other.resume("r1")).status, log) == ("interrupted", [])
