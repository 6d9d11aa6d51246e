"""Playing a run that pauses and what goes on from it, whole or streamed, over a checkpoint that went through JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.lifecycle.play import Played, agent, deltas, play, results_of

from interpose import Agent, Interrupt, Middleware, OpenInterrupt, Pause, Resolved, tool
from interpose.testing import calls, text

__all__ = [
    "WORK",
    "worker",
    "said",
    "OnStart",
    "BeforeModel",
    "Asks",
    "Looks",
    "Played",
    "Review",
    "agent",
    "answers_to",
    "args_of",
    "asked",
    "by_id",
    "carried",
    "deltas",
    "go_on",
    "guarded",
    "looks_of",
    "one_waiting",
    "paused",
    "play",
    "refused",
    "results_of",
    "shown",
    "waiting",
]

Review = Interrupt[Any, bool]("review", response=bool)


WORK = ("work", {"x": "a"})
"""What a model calls of the tool that `worker` makes."""


def carried(played: Played) -> dict[str, Any]:
    """Return the checkpoint as another process would read it."""
    checkpoint: dict[str, Any] = json.loads(json.dumps(played.result.checkpoint))
    return checkpoint


async def paused(how: str, agent: Agent[Any], given: Any = "Go", **options: Any) -> Played:
    """Play a run that must pause."""
    played = await play(how, agent, given, **options)
    assert played.result.status == "interrupted", f"the run ended as {played.result.finish_reason!r}"
    return played


async def go_on(before: Played, answers: Any, agent: Agent[Any] | None = None, **options: Any) -> Played:
    """Play what goes on from *before*; *agent* is another one on the same script, where one is given."""
    options = {"parent_run_id": carried(before), **options}
    return await play(before.how, agent or before.agent, None, resume=answers, **options)


async def refused(before: Played, answers: Any, agent: Agent[Any] | None = None, **options: Any) -> list[Any]:
    """Return what a resume complains about; it must be refused, before anything ran."""
    from interpose import ResumeError

    after = await go_on(before, answers, agent, **options)
    assert isinstance(after.error, ResumeError), f"not refused: {after.error!r}, {after.outcome!r:.300}"
    assert after.events == []
    return list(after.error.problems)


def asked(played: Played) -> tuple[OpenInterrupt, ...]:
    return played.result.interrupts


def answers_to(played: Played, *answers: Any) -> dict[str, Any]:
    """Return *answers* by the ids of what was asked, in the order of asking."""
    return {one.id: answer for one, answer in zip(asked(played), answers, strict=True)}


def args_of(played: Played, place: int = 0) -> Mapping[str, Any]:
    """Return the arguments that a person is shown."""
    call = asked(played)[place].tool_call
    assert call is not None
    return call.args


def shown(*runs: Played) -> list[Any]:
    """Return all events of the runs of one story."""
    return [event for run in runs for event in run.events]


def guarded(log: list[Any], name: str = "mail", **options: Any) -> Any:
    """Return a tool that needs approval, and writes what it was called with to *log*."""

    async def body(to: str, n: int = 1) -> str:
        """Send something."""
        log.append((name, to, n))
        return f"sent to {to}"

    return tool(**{"name": name, "approval": True, **options})(body)


class Asks(Middleware):
    """Asks at the boundary of *phase*, in step *step*, and notes the answers that it is told."""

    interrupts = (Review,)

    def __init__(self, phase: str, step: int = 0, keys: Sequence[str] = ("one",), vote: Any = None) -> None:
        self.phase_asked = phase
        self.step_asked = step
        self.keys = keys
        self.vote = vote
        self.told: list[Any] = []

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        if (ctx.phase, ctx.step) != (self.phase_asked, self.step_asked):
            return None
        return [Review.request(key, f"Look at {key}?", {"key": key}) for key in self.keys]

    def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> Any:
        self.told.append([one.payload for one in resolutions.for_(Review)])
        return self.vote


class Looks(Middleware):
    """Notes each hook that is called, with nothing else."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def setup(self, ctx: Any) -> None:
        self.seen.append("setup")

    def on_config(self, ctx: Any, config: Any) -> None:
        self.seen.append(f"on_config {ctx.phase}")

    def on_interrupt_resolution(self, ctx: Any, resolutions: Any) -> None:
        self.seen.append("on_interrupt_resolution")

    def on_start(self, ctx: Any) -> None:
        self.seen.append("on_start")

    def on_step(self, ctx: Any, info: Any) -> None:
        self.seen.append(f"on_step {info.step}")

    def before_model_call(self, ctx: Any, request: Any) -> None:
        self.seen.append("before_model_call")

    def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
        self.seen.append("after_model_call")

    def before_tool_call(self, ctx: Any, call: Any) -> None:
        self.seen.append(f"before_tool_call {call.name}")

    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
        self.seen.append(f"after_tool_call {call.name}")

    def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
        self.seen.append("on_tool_phase_complete")

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.seen.append(f"on_finish {info.status}")


def looks_of(look: Looks) -> list[str]:
    """Return what was noted since the last time."""
    seen, look.seen = look.seen, []
    return seen


async def one_waiting(how: str, log: list[Any], **options: Any) -> Played:
    """Play a run that waits for the approval of one call."""
    return await paused(how, agent(calls(("mail", {"to": "bob"})), text("done"), tools=[guarded(log)], **options))


async def waiting(how: str, store: Any, log: list[Any], *turns: Any, **options: Any) -> Played:
    """Play a run on the thread "t1" of *store* that waits for the approval of one call."""
    made = agent(
        calls(("mail", {"to": "bob"})), *(turns or (text("done"),)), tools=[guarded(log)], store=store, **options
    )
    return await paused(how, made, thread_id="t1")


async def by_id(before: Played, answers: Any, other: Agent[Any] | None = None) -> Played:
    """Play what goes on from a run in a store."""
    return await go_on(before, answers, other, parent_run_id=before.result.run_id)


def worker(log: list[Any]) -> Any:
    @tool
    async def work(x: str) -> str:
        """Work on x."""
        log.append(x)
        return f"worked on {x}"

    return work


def said(ctx: Any, reason: str = "ok?") -> Any:
    """Return the payload of the answer; a pause where there is none yet."""
    answer = ctx.answer(reason)
    if answer is None:
        return Pause(reason, {"step": ctx.step})
    return answer.payload if isinstance(answer, Resolved) else answer


class OnStart(Middleware):
    def __init__(self, got: list[Any]) -> None:
        self.got = got

    def on_start(self, ctx: Any) -> Any:
        value = said(ctx)
        return value if isinstance(value, Pause) else self.got.append(value)


class BeforeModel(OnStart):
    on_start = Middleware.on_start

    def before_model_call(self, ctx: Any, request: Any) -> Any:
        if ctx.step > 0:
            return None
        value = said(ctx)
        return value if isinstance(value, Pause) else self.got.append(value)
