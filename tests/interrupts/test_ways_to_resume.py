"""Every way to resume comes to the same."""

import json
from typing import Any

import pytest
from tests.interrupts.play import (
    answers_to,
    carried,
    guarded,
    one_waiting,
)

from interpose import Agent, Approved, ResumeError
from interpose.testing import ScriptedModel, calls, text

BOB = ("mail", {"to": "bob"})


def test_a_checkpoint_is_resumed_in_another_event_loop() -> None:
    made = Agent(ScriptedModel(calls(BOB), text("done")), tools=[guarded([])])
    result = made.run_sync("Go")
    paths_on = json.loads(json.dumps(result.checkpoint))
    after = made.run_sync(resume={one.id: Approved() for one in result.interrupts}, parent_run_id=paths_on)
    assert after.text == "done"


async def resumed_by_id(made: Agent[Any], checkpoint: Any, answers: Any) -> Any:
    return await made.resume(checkpoint, answers)


async def resumed_by_run(made: Agent[Any], checkpoint: Any, answers: Any) -> Any:
    return await made.run(resume=answers, parent_run_id=checkpoint)


async def resumed_by_stream(made: Agent[Any], checkpoint: Any, answers: Any) -> Any:
    async with made.stream(resume=answers, parent_run_id=checkpoint) as run:
        return await run.result()


async def resumed_by_start(made: Agent[Any], checkpoint: Any, answers: Any) -> Any:
    run = await made.start(resume=answers, parent_run_id=checkpoint)
    return await run.result()


@pytest.mark.parametrize("resume", [resumed_by_id, resumed_by_run, resumed_by_stream, resumed_by_start])
async def test_every_way_to_resume_comes_to_the_same(resume: Any) -> None:
    log: list[Any] = []
    first = await one_waiting("run", log)
    result = await resume(first.agent, carried(first), answers_to(first, Approved()))
    assert (result.text, log, [m.role for m in result.messages]) == (
        "done",
        [("mail", "bob", 1)],
        ["user", "assistant", "tool", "assistant"],
    )


@pytest.mark.parametrize("resume", [resumed_by_id, resumed_by_run, resumed_by_stream, resumed_by_start])
async def test_every_way_to_resume_refuses_before_anything_runs(resume: Any) -> None:
    log: list[Any] = []
    first = await one_waiting("run", log)
    with pytest.raises(ResumeError):
        await resume(first.agent, carried(first), {"other": Approved()})
    assert log == []
