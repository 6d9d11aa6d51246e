"""Playing one scenario as `run` and as `stream`, with the checks that hold for every run."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from interpose import Agent, BadRequest, InterposeError, Message, Middleware, RunResult
from interpose.testing import ScriptedModel, assert_events_valid, calls, event_types, text, text_of

ENDS = ("on_finish", "on_abort", "on_error")

PLAIN_HOOKS = [
    "setup",
    "on_config",
    "on_start",
    "on_step",
    "before_model_call",
    "on_chunk",
    "after_model_call",
    "on_usage",
    "before_tool_call",
    "after_tool_call",
    "on_tool_phase_complete",
    "on_should_continue",
    "on_interrupt_boundary",
    "on_finish",
    "on_node",
]
"""The hooks of a run that finishes, without the onions."""


class Endings(Middleware):
    """Notes which terminal hooks were called, by run."""

    def __init__(self) -> None:
        self.called: dict[str, list[str]] = {}

    def on_start(self, ctx: Any) -> None:
        self.called.setdefault(ctx.run_id, [])

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.called.setdefault(ctx.run_id, []).append("on_finish")

    def on_abort(self, ctx: Any, info: Any) -> None:
        self.called.setdefault(ctx.run_id, []).append("on_abort")

    def on_error(self, ctx: Any, info: Any) -> None:
        self.called.setdefault(ctx.run_id, []).append("on_error")


def agent(*turns: Any, middleware: Any = (), **options: Any) -> Agent[Any]:
    """Return an agent on a scripted model whose outermost middleware notes the terminal hooks."""
    model = options.pop("model", None) or ScriptedModel(*turns)
    return Agent(model, middleware=[Endings(), *middleware], **{"post_model_hooks": (), **options})


async def add(a: int, b: int) -> int:
    """Return the sum."""
    return a + b


def hello() -> Any:
    return text("Hello", chunks=("Hel", "lo"))


def two_steps(**options: Any) -> Agent[Any]:
    """Return an agent that asks for add(a=1, b=2) in its first step and says "3" in its second."""
    return agent(calls(("add", {"a": 1, "b": 2})), text("3"), tools=[add], **options)


def logged(name: str, log: list[Any], *hooks: str) -> Middleware:
    """Return a middleware that has just *hooks* and writes `name.hook` to *log* whenever one is called."""

    def hook(called: str) -> Any:
        async def method(self: Any, *args: Any) -> Any:
            log.append(f"{name}.{called}")
            return await args[-1](*args[1:-1]) if called.startswith("wrap_") else None

        async def start(self: Any, ctx: Any) -> None:
            log.append(f"{name}.{called}")

        async def two(self: Any, ctx: Any, given: Any) -> None:
            log.append(f"{name}.{called}")

        async def three(self: Any, ctx: Any, given: Any, came: Any) -> None:
            log.append(f"{name}.{called}")

        if called.startswith("wrap_"):
            return method
        if called in ("setup", "on_start", "open", "on_interrupt_boundary"):
            return start
        return three if called.startswith("after_") else two

    members: dict[str, Any] = {one: hook(one) for one in hooks}
    made: Middleware = type(name, (Middleware,), members)()
    return made


class Played:
    """What came of one run, and of the agent that ran it."""

    def __init__(self, how: str, agent: Agent[Any], log: list[Any]) -> None:
        self.how = how
        self.agent = agent
        self.log = log
        self.events: list[Any] = []
        self.outcome: RunResult | None = None
        self.error: BaseException | None = None

    @property
    def result(self) -> RunResult:
        assert self.error is None, f"the run failed ({self.how}): {self.error!r}"
        assert self.outcome is not None
        return self.outcome

    @property
    def partial(self) -> RunResult:
        """The result, or what a failed run has of one."""
        partial = self.outcome if self.error is None else getattr(self.error, "partial", None)
        assert isinstance(partial, RunResult), f"{self.error!r} carries no partial result"
        return partial

    @property
    def requests(self) -> list[Any]:
        requests: list[Any] = self.agent.model.requests  # type: ignore[attr-defined]  # is scripted
        return requests

    @property
    def types(self) -> list[str]:
        return event_types(self.events)

    @property
    def endings(self) -> list[str]:
        return next(iter(ending_of(self.agent).called.values()))


def ending_of(agent: Agent[Any]) -> Endings:
    first = agent.middleware[0]
    assert isinstance(first, Endings)
    return first


async def play(how: str, agent: Agent[Any], given: Any = "Go", log: list[Any] | None = None, **options: Any) -> Played:
    """Run *agent* to its end, and check what holds for every run."""
    played = Played(how, agent, [] if log is None else log)
    before = asyncio.all_tasks()
    try:
        if how == "run":
            played.outcome = await agent.run(given, **options)
        else:
            async with agent.stream(given, **options) as run:
                async for event in run:
                    played.events.append(event)
                played.outcome = await run.result()
    except Exception as error:
        played.error = error
    check(played, before)
    return played


def check(played: Played, tasks_before: set[Any]) -> None:
    """Check that nothing is left over, that events and history are in order, and the one ending."""
    left = asyncio.all_tasks() - tasks_before
    assert not left, f"left after the {played.how}: {left}"
    assert not isinstance(played.error, BadRequest), played.error
    model: Any = played.agent.model
    assert getattr(model, "open_streams", 0) == 0, "a provider stream is still open"
    if played.events:
        assert_events_valid(played.events)
    ended = list(ending_of(played.agent).called.values()) if played.agent.middleware else []
    assert all(len(names) == 1 for names in ended), f"terminal hooks of each run: {ended}"
    partial = played.outcome or getattr(played.error, "partial", None)
    if partial is not None:
        waiting = [one.tool_call.id for one in partial.interrupts if one.tool_call is not None]
        own = {call.id for message in partial.messages for call in message.tool_calls}
        if partial.interrupts and not own.intersection(waiting):  # asked at a boundary, or by a run within a call
            answered = {message.tool_call_id for message in partial.messages}
            waiting = [id for id in own if id not in answered]
        assert_answered(partial.messages, waiting)


def assert_answered(messages: Sequence[Message], waiting: Sequence[str] = ()) -> None:
    """Check that every call has exactly one result, or is waited for, and that no result lacks its call."""
    asked = [call.id for message in messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in messages if message.tool_call_id is not None]
    assert sorted(answered) == sorted(id for id in asked if id not in waiting), "calls and results do not match"


async def both(make: Callable[[list[Any]], Agent[Any]], given: Any = "Go", **options: Any) -> Played:
    """Play what *make* makes of an empty log as `run` and as `stream`, compare the two, and return the stream."""
    log: list[Any] = []
    ran = await play("run", make(log), given, log, **options)
    log = []
    streamed = await play("stream", make(log), given, log, **options)
    assert without_ids(ran.error) == without_ids(streamed.error)
    assert ran.log == streamed.log, "the hooks of run and stream differ"
    assert summary(ran.outcome or partial_of(ran)) == summary(streamed.outcome or partial_of(streamed))
    assert len(ran.requests) == len(streamed.requests)
    if streamed.outcome is not None and streamed.outcome.status == "finished":
        assert text_of(streamed.events).endswith(streamed.outcome.text), "the reader saw another text"
    return streamed


def without_ids(error: BaseException | None) -> str:
    return re.sub(r"_[0-9a-f]{12,}", "_", repr(error))


def partial_of(played: Played) -> RunResult | None:
    if isinstance(played.error, InterposeError):
        return played.partial
    return getattr(played.error, "partial", None)


def summary(result: RunResult | None) -> Any:
    """Return what `run` and `stream` must agree on."""
    if result is None:
        return None
    return {
        "text": result.text,
        "output": result.output,
        "messages": plain(result.messages),
        "new": plain(result.new_messages),
        "usage": result.usage,
        "reason": result.finish_reason,
        "status": result.status,
        "steps": len(result.steps),
    }


def plain(messages: Sequence[Message]) -> list[Any]:
    """Return messages as dicts with their ids numbered in the order of their coming."""
    numbers: dict[str, int] = {}
    seen: list[Any] = []
    for message in messages:
        data = message.to_dict()
        data.pop("id", None)
        for call in data.get("tool_calls", ()):
            call["id"] = numbers.setdefault(call["id"], len(numbers))
            call.pop("idempotency_key", None)
        if "tool_call_id" in data:
            data["tool_call_id"] = numbers.setdefault(data["tool_call_id"], len(numbers))
        seen.append(data)
    return seen


def deltas(events: Sequence[Any]) -> list[str]:
    """Return the pieces of text, in order."""
    return [event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT"]


def results_of(messages: Sequence[Message]) -> list[str]:
    """Return the texts of the tool messages, in order."""
    return [message.text for message in messages if message.role == "tool"]
