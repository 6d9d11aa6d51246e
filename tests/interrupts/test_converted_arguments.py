"""A call whose typed arguments do not read back from what is shown of them runs, as it was meant, once approved."""

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field
from tests.interrupts.play import agent, answers_to, by_id, go_on, paused

from interpose import Approved, tool
from interpose.stores import MemoryStore
from interpose.testing import calls, text


class Person(BaseModel):
    user_name: str = Field(alias="userName")


def in_cents(euros: int) -> int:
    return euros * 100


Cents = Annotated[int, AfterValidator(in_cents)]
ANN = Person(userName="ann")

CASES = {
    "alias": (Person, {"userName": "ann"}, ANN),
    "aliases in a list": (list[Person], [{"userName": "ann"}], [ANN]),
    "validator": (Cents, 5, 500),
}
"""By what does not read back: the type of the argument, what the model says, what the tool gets."""


@pytest.mark.parametrize("has_store", [True, False], ids=["store", "checkpoint"])
@pytest.mark.parametrize("edited", [False, True], ids=["as it is", "edited"])
@pytest.mark.parametrize(("kind", "said", "meant"), CASES.values(), ids=CASES)
async def test_the_tool_gets_what_the_model_meant(
    how: str, kind: Any, said: Any, meant: Any, edited: bool, has_store: bool
) -> None:
    got: list[Any] = []

    async def work(x: Any) -> str:
        """Work on x."""
        got.append(x)
        return "ok"

    work.__annotations__ = {"x": kind, "return": str}
    store = MemoryStore() if has_store else None
    made = agent(calls(("work", {"x": said})), text("end"), tools=[tool(approval=True)(work)], store=store)
    first = await paused(how, made)
    answers = answers_to(first, Approved({"x": said} if edited else None))
    after = await (by_id if has_store else go_on)(first, answers)
    assert (after.result.text, got) == ("end", [meant])
