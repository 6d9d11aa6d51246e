"""Prompts, answers, wrong answers and crashes in any order: nothing is done twice, or without a person's word."""

import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from tests.crash.worlds import ASKED, ONCE, REVIEW, Plan, Step, World, agent_in

from interpose import (
    Agent,
    Approved,
    Cancelled,
    Limits,
    OpenInterrupt,
    Rejected,
    Resolved,
    ResumeError,
    RunResult,
    ThreadConflict,
)
from interpose.testing import assert_events_valid, make_request
from interpose.testing.strict import RequestCheck

KINDS = (*ONCE, *ASKED, "read", "idempotent", "never", "helper")
PHASES = (None, None, "before_model", "after_model", "before_tools", "after_tools")
ACTS = 12


def plan_of(seed: int) -> Plan:
    def plan(prompt: str) -> tuple[Step, ...]:
        chance = random.Random(f"{seed} {prompt}")
        nested = "|" in prompt
        kinds = [one for one in KINDS if not (nested and one in ("helper", "rule", "alone"))]
        return tuple(
            [
                tuple([(chance.choice(kinds), f"{prompt}|{step}.{place}") for place in range(chance.randint(1, 3))])
                for step in range(chance.randint(0, 2 if nested else 3))
            ]
        )

    return plan


class Story:
    """One thread and what happens on it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.plan = plan_of(seed)
        limits = Limits(max_steps=self.chance.randint(2, 6), tool_concurrency=self.chance.choice((None, 1)))
        self.options = {"phase": self.chance.choice(PHASES), "limits": limits}
        self.prompts: list[str] = []
        self.told: list[str] = []
        self.enter(World())

    def enter(self, world: World) -> None:
        self.world = world
        self.agent: Agent[Any] = agent_in(world, self.plan, **self.options)  # type: ignore[arg-type]  # of several kinds

    async def play(self) -> None:
        for _ in range(ACTS):
            waiting = await self.world.store.paused("t")
            killed = await self.agent.unfinished("t")
            assert len(waiting) + len(killed) < 2
            if killed:
                await self.attempt("resume", partial(self.agent.resume, killed[0]))
            elif waiting and self.chance.random() < 0.9:
                await self.refuse(waiting[0])
                await self.answer(waiting[0])
            else:
                await self.prompt()
            await self.check()

    async def prompt(self) -> None:
        prompt = f"p{len(self.prompts)}"
        self.prompts.append(prompt)
        await self.attempt(prompt, partial(self.call, prompt, thread_id="t"))

    async def answer(self, waiting: Any) -> None:
        answers = {one.id: self.answer_to(one) for one in waiting.interrupts}
        done = partial(self.call, resume=answers, parent_run_id=waiting.run_id)
        result = await self.attempt(f"answer {list(answers.values())}", done)
        if result is not None:
            for run_id in (waiting.run_id, result.run_id):
                await self.refused(run_id, answers)

    def answer_to(self, asked: OpenInterrupt) -> Any:
        if asked.definition in (None, REVIEW.id):
            return self.chance.choice((Resolved(False), Cancelled()))
        call = asked.tool_call
        assert call is not None
        at = call.args["at"]
        answer = self.chance.choice((Approved(), Approved(), Approved({"at": f"{at} edited"}), Rejected(), Cancelled()))
        if isinstance(answer, Approved):
            self.world.said.append(("approved", call.name, at if answer.edited_args is None else f"{at} edited"))
        return answer

    async def refuse(self, waiting: Any) -> None:
        """Give answers of which one is wrong."""
        right: dict[str, Any] = {
            one.id: Approved() if one.definition not in (None, REVIEW.id) else Resolved(True)
            for one in waiting.interrupts
        }
        key = self.chance.choice(list(right))
        wrong = [True, "yes", None, Approved, Approved(by=5), Approved(edited_args=["at"]), Resolved("perhaps")]  # type: ignore[arg-type]  # wrong
        if isinstance(right[key], Resolved):
            wrong = [*wrong[:5], Approved(), Rejected()]
        changes = {key: self.chance.choice(wrong)} if self.chance.random() < 0.7 else {f"{key} ": right.pop(key)}
        await self.refused(waiting.run_id, right | changes)

    async def refused(self, run_id: str, answers: Any) -> None:
        before = (len(self.world.log), list(self.world.store.done))
        with pytest.raises((ResumeError, ThreadConflict)):
            await self.agent.resume(run_id, answers)
        assert (len(self.world.log), self.world.store.done) == before, "a refused resume changed something"

    async def attempt(self, name: str, act: Callable[[], Coroutine[Any, Any, RunResult]]) -> RunResult | None:
        """Act, perhaps dying at some moment of it; return what came of it, if somebody lived to see it."""
        world = self.world
        world.dies_at = self.chance.randint(0, 24) if self.chance.random() < 0.5 else None
        self.told.append(name)
        result = await act()
        world.dies_at = None
        assert world.faults() == []
        if world.left is None:
            return result
        self.told.append(f"killed {world.left[0]}")
        self.enter(await world.after_death())
        return None

    async def call(self, given: Any = None, **options: Any) -> RunResult:
        if self.chance.random() < 0.5:
            return await self.agent.run(given, **options)
        async with self.agent.stream(given, **options) as run:
            events = [event async for event in run]
            assert_events_valid(events)
            return await run.result()

    async def check(self) -> None:
        messages = await self.world.store.load("t")
        assert len({one.id for one in messages}) == len(messages)
        said = [one.text for one in messages if one.role == "user"]
        assert said == [one for one in self.prompts if one in said], "a prompt is there twice, or in another place"
        if messages:
            RequestCheck()(make_request(*messages))


@pytest.mark.parametrize("seed", range(24))
async def test_whatever_happens_on_a_thread_nothing_is_done_twice_or_unasked(seed: int) -> None:
    story = Story(seed)
    try:
        await story.play()
    except BaseException as error:
        error.add_note(f"seed {seed}: " + "; ".join(story.told))
        raise
