"""Play one agent in both ways, `run` and `stream`, and hold them against each other and the standing checks."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from interpose import Agent, BadRequest, Middleware, ModelRequest, RunResult, ToolMessage
from interpose.testing import ScriptedModel, assert_events_valid, collect, text_of

Make = Callable[[list[Any]], Agent[Any]]
PATIENCE_S = 20.0


def agent_of(*turns: Any, **options: Any) -> Agent[Any]:
    """An agent over a script; a middleware list, tools and the like as options."""
    model = options.pop("model", None) or ScriptedModel(*turns)
    return Agent(model, **{"post_model_hooks": (), **options})


class Ends(Middleware):
    """Counts the terminal hooks, and keeps what they were told."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.info: list[Any] = []

    def _note(self, name: str, info: Any) -> None:
        self.seen.append(name)
        self.info.append(info)

    def on_finish(self, ctx: Any, info: Any) -> None:
        self._note("on_finish", info)

    def on_abort(self, ctx: Any, info: Any) -> None:
        self._note("on_abort", info)

    def on_error(self, ctx: Any, info: Any) -> None:
        self._note("on_error", info)


@dataclass
class Played:
    """What one way of calling came to."""

    agent: Agent[Any]
    log: list[Any]
    ends: Ends
    outcome: RunResult | None = None
    error: BaseException | None = None
    events: list[Any] = field(default_factory=list)

    @property
    def result(self) -> RunResult:
        if self.outcome is None:
            raise AssertionError(f"the run raised {self.error!r}") from self.error
        return self.outcome

    @property
    def partial(self) -> RunResult:
        assert self.error is not None, "the run did not fail"
        partial = getattr(self.error, "partial", None)
        assert isinstance(partial, RunResult), f"{self.error!r} carries no partial result"
        return partial

    @property
    def model(self) -> Any:
        return self.agent.model

    @property
    def requests(self) -> list[ModelRequest]:
        return self.model.requests  # type: ignore[no-any-return]  # of a scripted model

    @property
    def end(self) -> str:
        """The terminal hook that was called."""
        return self.ends.seen[0]

    @property
    def info(self) -> Any:
        """What it was told."""
        return self.ends.info[0]


async def run_once(make: Make, prompt: Any = "go", **options: Any) -> Played:
    """Play `agent.run`."""
    log: list[Any] = []
    ends = Ends()
    played = Played(make(log), log, ends)
    before = asyncio.all_tasks()
    more = options.pop("middleware", [])
    try:
        async with asyncio.timeout(PATIENCE_S):
            played.outcome = await played.agent.run(prompt, middleware=[*more, ends], **options)
    except Exception as error:
        played.error = error
    check(played, before)
    return played


async def stream_once(make: Make, prompt: Any = "go", **options: Any) -> Played:
    """Play `agent.stream`, read to the end."""
    log: list[Any] = []
    ends = Ends()
    played = Played(make(log), log, ends)
    before = asyncio.all_tasks()
    more = options.pop("middleware", [])
    stream = played.agent.stream(prompt, middleware=[*more, ends], **options)
    try:
        async with asyncio.timeout(PATIENCE_S), stream:
            played.events = await collect(stream)
            played.outcome = await stream.result()
    except Exception as error:
        played.error = error
    assert_events_valid(played.events)
    if played.outcome is not None and played.outcome.status == "finished":
        said, text = text_of(played.events), played.outcome.text
        assert said.endswith(text), f"the reader saw {said[-200:]!r}, the run remembers {text[-200:]!r}"
    check(played, before)
    return played


async def both(make: Make, prompt: Any = "go", **options: Any) -> Played:
    """Play both ways, check that they agree, and return the streamed one, which has events.

    *make* is called once a way, with the list that its hooks log to.
    """
    ran = await run_once(make, prompt, **options)
    streamed = await stream_once(make, prompt, **options)
    assert repr(type(ran.error)) == repr(type(streamed.error)), f"run: {ran.error!r}, stream: {streamed.error!r}"
    assert without_ids(str(ran.error)) == without_ids(str(streamed.error))
    assert seen_of(ran) == seen_of(streamed)
    assert ran.log == streamed.log
    assert ran.ends.seen == streamed.ends.seen
    return streamed


def check(played: Played, before: set[Any]) -> None:
    """Hold one finished way against the standing checks."""
    assert not isinstance(played.error, BadRequest), f"the model refused a request: {played.error}"
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert not left, f"tasks are left: {left}"
    assert getattr(played.model, "open_streams", 0) == 0, "a provider stream is left open"
    assert len(played.ends.seen) == 1, f"terminal hooks: {played.ends.seen}"
    result = played.outcome or getattr(played.error, "partial", None)
    if result is not None:
        assert_paired(result)


def assert_paired(result: RunResult) -> None:
    """Each call id has exactly one result in the history, or is asked about."""
    asked = [call.id for message in result.messages for call in message.tool_calls]
    answered = Counter(m.tool_call_id for m in result.messages if m.role == "tool")
    open_ids = {one.tool_call.id for one in result.interrupts if one.tool_call is not None}
    assert len(asked) == len(set(asked)), f"a call id is used twice: {asked}"
    for call_id in asked:
        if call_id not in open_ids:
            assert answered[call_id] == 1, f"call {call_id} has {answered[call_id]} results"
    assert set(answered) <= set(asked), f"results without calls: {set(answered) - set(asked)}"


def seen_of(played: Played) -> Any:
    """What both ways must agree on, without ids."""
    result = played.outcome or getattr(played.error, "partial", None)
    if result is None:
        return None
    return {
        "text": result.text,
        "output": result.output,
        "history": shape(result.messages),
        "new": shape(result.new_messages),
        "usage": result.usage,
        "finish_reason": result.finish_reason,
        "status": result.status,
        "steps": [(s.number, s.response.text, [without_ids(r.text) for r in s.tool_results]) for s in result.steps],
        "interrupts": [(one.reason, one.value) for one in result.interrupts],
    }


def shape(messages: Any) -> list[Any]:
    """Messages without ids: role, text, reasoning, calls, and which call a result answers."""
    numbers: dict[str, int] = {}
    shaped = []
    for message in messages:
        for call in message.tool_calls:
            numbers.setdefault(call.id, len(numbers))
        shaped.append(
            (
                message.role,
                without_ids(message.text),
                getattr(message, "reasoning", None),
                [(numbers[call.id], call.name, call.args_json) for call in message.tool_calls],
                numbers.get(message.tool_call_id) if message.role == "tool" else None,
                getattr(message, "is_error", False),
            )
        )
    return shaped


def without_ids(text: str) -> str:
    """Text with made-up ids blanked."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x*", text)
    return re.sub(r"\b(call|msg|run|thread|step|node|int)_[0-9a-f]{8,}", r"\1_*", text)


def roles(messages: Any) -> list[str]:
    """The roles, in order."""
    return [message.role for message in messages]


def results_of(result: RunResult) -> list[str]:
    """The texts of the tool messages, in order."""
    return [message.text for message in result.messages if message.role == "tool"]


def errors_of(result: RunResult) -> list[bool]:
    """Whether each tool message is an error, in order."""
    return [message.is_error for message in result.messages if isinstance(message, ToolMessage)]


async def echo(x: str) -> str:
    """Give x back."""
    return x
