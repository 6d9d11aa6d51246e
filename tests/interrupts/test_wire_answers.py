"""An AG-UI answer that says more than is understood, or speaks of something else, is refused."""

from typing import Any

import pytest
from tests.interrupts.play import asked, one_waiting, refused

APPROVED = {"approved": True}
PAYLOADS = [
    {**APPROVED, "edited_args": {"to": "ada"}},
    {**APPROVED, "args": {"to": "ada"}},
    {**APPROVED, "editedargs": {"to": "ada"}},
    {**APPROVED, "toolCallId": "another call"},
    {**APPROVED, "rejected": True},
]


def entry(interrupt_id: str, payload: Any) -> dict[str, Any]:
    """Return an answer as an AG-UI client sends it."""
    return {"interruptId": interrupt_id, "status": "resolved", "payload": payload}


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
async def test_an_approval_with_a_field_that_is_not_understood_is_refused(how: str, payload: Any) -> None:
    log: list[Any] = []
    first = await one_waiting(how, log)
    assert await refused(first, [entry(asked(first)[0].id, payload)])
    assert log == []


async def test_an_entry_under_the_id_of_another_question_is_refused(how: str) -> None:
    log: list[Any] = []
    first = await one_waiting(how, log)
    assert await refused(first, {asked(first)[0].id: entry("some other question", APPROVED)})
    assert log == []
