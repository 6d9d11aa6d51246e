"""What the interrupted step offered is what it offers after the pause."""

from typing import Any

from tests.interrupts.play import (
    Asks,
    agent,
    answers_to,
    go_on,
    guarded,
    paused,
    results_of,
)

from interpose import Approved, Middleware, Resolved
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


async def test_a_tool_that_the_request_did_not_offer_does_not_run_after_the_pause_either(how: str) -> None:
    log: list[Any] = []

    class Hides(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.without_tools("post")

    tools = [guarded(log, "post", approval=False)]
    first = await paused(
        how, agent(calls(("post", {"to": "x"})), text("done"), tools=tools, middleware=[Hides(), Asks("before_tools")])
    )
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, log) == ("done", [])
    assert "post" in results_of(after.result.messages)[0]


async def test_a_tool_that_the_config_of_the_step_took_away_does_not_run_after_the_pause_either(how: str) -> None:
    log: list[Any] = []

    class Hides(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            return config.replace(tools=()) if ctx.phase == "before_model" else None

    tools = [guarded(log, "post", approval=False)]
    first = await paused(
        how, agent(calls(("post", {"to": "x"})), text("done"), tools=tools, middleware=[Hides(), Asks("before_tools")])
    )
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, log) == ("done", [])


async def test_a_tool_that_was_added_for_the_run_is_approved_and_runs(how: str) -> None:
    log: list[Any] = []

    class Adds(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            return config.replace(tools=(*config.tools, guarded(log))) if ctx.phase == "init" else None

    first = await paused(how, agent(calls(BOB), text("done"), middleware=[Adds()]))
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])


async def test_a_tool_that_was_added_for_the_run_is_approved_with_an_edit(how: str) -> None:
    log: list[Any] = []

    class Adds(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            return config.replace(tools=(*config.tools, guarded(log))) if ctx.phase == "init" else None

    first = await paused(how, agent(calls(BOB), text("done"), middleware=[Adds()]))
    after = await go_on(first, answers_to(first, Approved({"to": "eve"})))
    assert (after.result.text, log) == ("done", [("mail", "eve", 1)])


async def test_a_tool_of_the_runs_own_middleware_is_approved_with_it(how: str) -> None:
    log: list[Any] = []

    class Brings(Middleware):
        def __init__(self) -> None:
            self.tools = (guarded(log),)

    first = await paused(how, agent(calls(BOB), text("done")), middleware=[Brings()])
    after = await go_on(first, answers_to(first, Approved()), middleware=[Brings()])
    assert (after.result.text, log) == ("done", [("mail", "bob", 1)])
