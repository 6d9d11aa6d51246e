"""What a question shows and what answers it may be typed with pydantic."""

from typing import Any

from pydantic import BaseModel
from tests.interrupts.play import agent, answers_to, asked, by_id, go_on, paused, refused

from interpose import Interrupt, Middleware, Resolved
from interpose.stores import MemoryStore
from interpose.testing import text


class Plan(BaseModel):
    steps: list[str]


class Review(BaseModel):
    is_fine: bool


REVIEW = Interrupt[Plan, Review]("review", payload=Plan, response=Review)


class Reviews(Middleware):
    """Asks for a review before the model is called, and notes it."""

    interrupts = (REVIEW,)

    def __init__(self) -> None:
        self.got: list[Review] = []

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        return [REVIEW.request("plan", "Fine?", Plan(steps=["pack"]))] if ctx.phase == "before_model" else None

    def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> None:
        self.got.extend(one.payload for one in resolutions.for_(REVIEW))


async def test_another_process_is_shown_a_pydantic_payload_as_json(how: str) -> None:
    first = await paused(how, agent(text("end"), middleware=[Reviews()], store=MemoryStore()))
    (question,) = await first.agent.pending()
    assert (question.id, question.value) == (asked(first)[0].id, {"steps": ["pack"]})


async def test_a_layer_reads_the_answer_as_the_pydantic_model(how: str) -> None:
    reviews = Reviews()
    first = await paused(how, agent(text("end"), middleware=[reviews]))
    after = await go_on(first, answers_to(first, Resolved({"is_fine": False})))
    assert (after.result.text, reviews.got) == ("end", [Review(is_fine=False)])


async def test_an_answer_that_does_not_fit_the_model_is_refused_and_may_be_mended(how: str) -> None:
    reviews = Reviews()
    first = await paused(how, agent(text("end"), middleware=[reviews], store=MemoryStore()))
    assert await refused(first, answers_to(first, Resolved({"is_fine": "perhaps"})))
    assert reviews.got == []
    after = await by_id(first, answers_to(first, Resolved({"is_fine": True})))
    assert (after.result.text, reviews.got) == ("end", [Review(is_fine=True)])
