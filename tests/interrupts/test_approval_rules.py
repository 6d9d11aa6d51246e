"""Rules that say which calls need a person, and which do not."""

import functools
from typing import Any

import pytest
from tests.interrupts.play import (
    agent,
    answers_to,
    go_on,
    guarded,
    paused,
    play,
)

from interpose import Approved
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


ADA = ("mail", {"to": "ada"})


def rule(ctx: Any, call: Any) -> bool:
    return bool(call.args["to"] == "bob")


async def slow_rule(ctx: Any, call: Any) -> bool:
    return rule(ctx, call)


class Rule:
    def __call__(self, ctx: Any, call: Any) -> bool:
        return rule(ctx, call)

    async def slow(self, ctx: Any, call: Any) -> bool:
        return rule(ctx, call)


class SlowRule:
    async def __call__(self, ctx: Any, call: Any) -> bool:
        return rule(ctx, call)


RULES = {
    "function": rule,
    "async function": slow_rule,
    "object": Rule(),
    "async object": SlowRule(),
    "method": Rule().__call__,
    "async method": Rule().slow,
    "partial": functools.partial(slow_rule),
}


@pytest.mark.parametrize("which", RULES)
async def test_a_rule_may_be_anything_that_is_called_and_asks_for_its_calls_alone(how: str, which: str) -> None:
    log: list[Any] = []
    send = guarded(log, approval=RULES[which])
    first = await paused(how, agent(calls(ADA, BOB), text("done"), tools=[send]))
    assert log == [("mail", "ada", 1)]
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.text, log) == ("done", [("mail", "ada", 1), ("mail", "bob", 1)])


async def test_a_tool_whose_approval_is_false_is_not_asked_about(how: str) -> None:
    log: list[Any] = []
    played = await play(how, agent(calls(BOB), text("done"), tools=[guarded(log, approval=False)]))
    assert (played.result.status, log) == ("finished", [("mail", "bob", 1)])


async def test_a_rule_sees_an_edit_that_it_had_not_asked_about(how: str) -> None:
    log: list[Any] = []
    first = await paused(how, agent(calls(BOB), text("done"), tools=[guarded(log, approval=rule)]))
    after = await go_on(first, answers_to(first, Approved({"to": "ada"})))
    assert (after.result.text, log) == ("done", [("mail", "ada", 1)])
