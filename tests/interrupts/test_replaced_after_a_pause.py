"""What was shown before a pause and is replaced after it is withdrawn."""

from typing import Any

from tests.interrupts.play import (
    agent,
    answers_to,
    go_on,
    paused,
    shown,
)

from interpose import Middleware, Pause, Resolved, Retry
from interpose.testing import text, text_of

BOB = ("mail", {"to": "bob"})


async def test_text_that_was_shown_and_replaced_after_the_answer_is_superseded(how: str) -> None:
    class Judge(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            answer = ctx.answer("fine?")
            if answer is None:
                return Pause("fine?", response.text)
            return response.replace(message=response.message.replace(text=answer.payload))

    first = await paused(how, agent(text("rude"), middleware=[Judge()]))
    after = await go_on(first, answers_to(first, Resolved("polite")))
    assert (after.result.text, len(after.requests)) == ("polite", 1)
    if how == "stream":
        assert text_of(shown(first, after)) == "polite"
        starts = [event.message_id for event in shown(first, after) if event.type == "TEXT_MESSAGE_START"]
        assert len(set(starts)) == 2


async def test_a_retry_after_the_answer_asks_the_model_again(how: str) -> None:
    class Judge(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            answer = ctx.answer("fine?")
            if answer is None:
                return Pause("fine?", response.text)
            return Retry("be polite") if response.text == "rude" else None

    first = await paused(how, agent(text("rude"), text("polite"), middleware=[Judge()]))
    after = await go_on(first, answers_to(first, Resolved(False)))
    assert (after.result.text, len(after.requests), len(after.result.steps)) == ("polite", 2, 1)
    assert after.requests[-1].messages[-1].text == "be polite"
    if how == "stream":
        assert text_of(shown(first, after)) == "polite"


async def test_again_after_the_answer_asks_the_model_again(how: str) -> None:
    class Judge(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            response = await call_next(request)
            if ctx.answer("fine?") is None:
                return Pause("fine?", response.text)
            return await call_next.again(request.append_instructions("be polite"))

    first = await paused(how, agent(text("rude"), text("polite"), middleware=[Judge()]))
    after = await go_on(first, answers_to(first, Resolved(False)))
    assert (after.result.text, len(after.requests), len(after.result.messages)) == ("polite", 2, 2)
    if how == "stream":
        assert text_of(shown(first, after)) == "polite"
