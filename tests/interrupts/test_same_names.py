"""What the inside of a paused layer gave goes back to that very layer, whatever its neighbours are called."""

from typing import Any

import pytest
from tests.interrupts.play import Asks, agent, answers_to, go_on, guarded, paused, results_of

from interpose import Middleware, Pause, Resolved, ResumeError
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


class Stamp(Middleware):
    """Appends its mark to what comes up from the model or the tool; asks about it first where it *asks*."""

    def __init__(self, mark: str, asks: bool = False) -> None:
        self.mark = mark
        self.asks = asks

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        if response.tool_calls:
            return response
        if self.asks and ctx.answer(f"{self.mark}?") is None:
            return Pause(f"{self.mark}?", response.text)
        return response.replace(message=response.message.replace(text=response.text + self.mark))

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        if self.asks and ctx.answer(f"{self.mark}?") is None:
            return Pause(f"{self.mark}?", result.data)
        return result.replace(data=result.data + self.mark)


ASKING = [(True, False, False), (False, True, False), (False, False, True), (True, True, True), (True, False, True)]


@pytest.mark.parametrize("asking", ASKING, ids=str)
async def test_layers_of_one_name_round_the_model_each_get_what_is_theirs(how: str, asking: Any) -> None:
    stamps = [Stamp(mark, asks) for mark, asks in zip("abc", asking, strict=True)]
    played = await paused(how, agent(text("x"), middleware=stamps))
    for _ in range(sum(asking)):
        played = await go_on(played, answers_to(played, Resolved(True)))
    assert (played.result.status, played.result.text, len(played.requests)) == ("finished", "xcba", 1)


@pytest.mark.parametrize("asking", ASKING, ids=str)
async def test_layers_of_one_name_round_a_tool_each_get_what_is_theirs(how: str, asking: Any) -> None:
    log: list[Any] = []
    stamps = [Stamp(mark, asks) for mark, asks in zip("abc", asking, strict=True)]
    tools = [guarded(log, approval=False)]

    class ToolsAlone(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return request.answer("done") if ctx.step else await call_next(request)

    played = await paused(how, agent(calls(BOB), tools=tools, middleware=[ToolsAlone(), *stamps]))
    for _ in range(sum(asking)):
        played = await go_on(played, answers_to(played, Resolved(True)))
    assert (results_of(played.result.messages), log) == (["sent to bobcba"], [("mail", "bob", 1)])


async def test_plain_functions_of_one_name_each_get_what_is_theirs(how: str) -> None:
    def made(mark: str, asks: bool) -> Any:
        async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
            response = await call_next(request)
            if asks and ctx.answer("ok?") is None:
                return Pause("ok?")
            return response.replace(message=response.message.replace(text=response.text + mark))

        return layer

    first = await paused(how, agent(text("x"), middleware=[made("a", False), made("b", True), made("c", False)]))
    after = await go_on(first, answers_to(first, Resolved(True)))
    assert (after.result.text, len(after.requests)) == ("xcba", 1)


async def test_an_agent_without_the_layer_that_paused_does_not_pay_for_the_answer_again(how: str) -> None:
    first = await paused(how, agent(text("x"), middleware=[Stamp("a", True)]))
    after = await go_on(first, answers_to(first, Resolved(True)), agent(text("again")))
    assert isinstance(after.error, ResumeError) or after.result.text == "x"


async def test_an_agent_with_a_new_layer_inside_the_one_that_paused_keeps_the_answer(how: str) -> None:
    first = await paused(how, agent(text("x"), middleware=[Stamp("a", True)]))
    other = agent(text("again"), middleware=[Stamp("a", True), Asks("nowhere")])
    after = await go_on(first, answers_to(first, Resolved(True)), other)
    assert isinstance(after.error, ResumeError) or after.result.text == "xa"
