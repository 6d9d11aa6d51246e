"""A question is answered on its own thread alone, in every way of resuming."""

from typing import Any

import pytest
from tests.interrupts.play import answers_to, waiting

from interpose import Agent, Approved, ResumeError
from interpose.stores import MemoryStore


async def by_run(made: Agent[Any], options: Any) -> Any:
    return await made.run(**options)


async def by_stream(made: Agent[Any], options: Any) -> Any:
    async with made.stream(**options) as run:
        return await run.result()


async def by_start(made: Agent[Any], options: Any) -> Any:
    run = await made.start(**options)
    return await run.result()


@pytest.mark.parametrize("resume", [by_run, by_stream, by_start])
async def test_an_answer_that_names_another_thread_is_refused(resume: Any) -> None:
    log: list[Any] = []
    first = await waiting("run", MemoryStore(), log)
    answers = answers_to(first, Approved())
    with pytest.raises(ResumeError):
        await resume(first.agent, {"resume": answers, "parent_run_id": first.result.run_id, "thread_id": "another"})
    assert log == []
