"""Strands, as its documentation says: middleware on its model and tool stages, callback handlers for streamed text.

One agent is used again for each run, its messages put back before; runs at the same time need an agent each. All
history is kept (`NullConversationManager`), as with the others.
"""
# ruff: noqa: ARG002  # hooks and fakes take the arguments of their seam, used or not

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.handlers.callback_handler import CompositeCallbackHandler
from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    HookProvider,
    HookRegistry,
    MessageAddedEvent,
)
from strands.middleware import ExecuteToolStage, InvokeModelStage
from strands.models import Model

from bench.cases import (
    CHUNKS,
    PIECE,
    PROMPT,
    TALLY,
    TOOL,
    Case,
    Script,
    Turn,
    add_stock,
    call_id,
    prior_messages,
    wraps_tools,
)


def refuses(case: Case) -> str | None:
    """Return why *case* is not measured here, or None."""
    del case
    return None


class BenchModel(Model):
    """Answers from a script; counts what it is asked."""

    def __init__(self, case: Case, counted: bool, gate: asyncio.Event | None) -> None:
        self.script = Script(case)
        self.streamed = case.workload == "W4"
        self.counted = counted
        self.gate = gate

    def update_config(self, **model_config: Any) -> None:
        """Take nothing: there is nothing to configure."""

    def get_config(self) -> Any:
        """Return no configuration."""
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: the benchmark asks for none."""
        raise TypeError("the model of the benchmark gives text and tool calls alone")

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the next answer in Bedrock's events, which are those of this library."""
        turn = self.script.next()
        if self.counted:
            TALLY.results_seen = len([block for m in messages for block in m["content"] if "toolResult" in block])
        if self.gate is not None:
            await self.gate.wait()
        yield {"messageStart": {"role": "assistant"}}
        if turn.calls:
            for event in _calls(turn):
                yield event
        else:
            yield {"contentBlockStart": {"start": {}}}
            for piece in [PIECE] * CHUNKS if self.streamed else [turn.text]:
                yield {"contentBlockDelta": {"delta": {"text": piece}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if turn.calls else "end_turn"}}


def _calls(turn: Turn) -> list[Any]:
    events: list[Any] = []
    for args in turn.calls:
        events.append({"contentBlockStart": {"start": {"toolUse": {"toolUseId": call_id(), "name": TOOL}}}})
        events.append({"contentBlockDelta": {"delta": {"toolUse": {"input": args}}}})
        events.append({"contentBlockStop": {}})
    return events


async def _wrap(context: Any, next_fn: Any) -> AsyncIterator[Any]:
    async for event in next_fn(context):
        yield event


async def _count_model(context: Any, next_fn: Any) -> AsyncIterator[Any]:
    TALLY.model_hooks += 1
    async for event in next_fn(context):
        TALLY.chunk_hooks += "data" in event
        yield event


async def _count_tool(context: Any, next_fn: Any) -> AsyncIterator[Any]:
    TALLY.tool_hooks += 1
    async for event in next_fn(context):
        yield event


def _handler(**event: Any) -> None:
    """Do nothing."""


def _count_handler(**event: Any) -> None:
    TALLY.chunk_hooks += "data" in event


EVENTS = (
    BeforeInvocationEvent, AfterInvocationEvent, BeforeModelCallEvent, AfterModelCallEvent, BeforeToolsEvent,
    AfterToolsEvent, BeforeToolCallEvent, AfterToolCallEvent, MessageAddedEvent,
)  # fmt: skip  # one line a group reads better


class EveryHook(HookProvider):
    """Has a callback for every event of a run."""

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Add the callbacks."""
        for kind in EVENTS:
            registry.add_callback(kind, self.seen)

    async def seen(self, event: Any) -> None:
        """Do nothing."""


def _agent(case: Case, model: BenchModel, counted: bool, prior: list[Any]) -> Agent:
    handlers = [_count_handler if counted else _handler] * case.n if case.form == "def" else []
    agent = Agent(
        model,
        messages=list(prior),
        tools=[tool(add_stock)] if wraps_tools(case) else [],
        callback_handler=CompositeCallbackHandler(*handlers) if handlers else None,
        conversation_manager=NullConversationManager(),
        hooks=[EveryHook() for _ in range(case.n)] if case.hooks == "all" else None,
    )
    for _ in range(0 if case.form == "def" else case.n):
        agent.add_middleware(InvokeModelStage, _count_model if counted else _wrap)
        if wraps_tools(case) or case.hooks == "all":
            agent.add_middleware(ExecuteToolStage, _count_tool if counted else _wrap)
    return agent


def build(case: Case, *, counted: bool = False, gate: asyncio.Event | None = None) -> Callable[[], Awaitable[str]]:
    """Return what makes one run of *case* and returns its text."""
    model = BenchModel(case, counted, gate)
    prior = [_message(index, role, text) for index, (role, text) in enumerate(prior_messages(case.prior))]
    agent = _agent(case, model, counted, prior)

    async def run() -> str:
        agent.messages = list(prior)
        return _text(await agent.invoke_async(PROMPT))

    async def run_apart() -> str:
        return _text(await _agent(case, model, counted, prior).invoke_async(PROMPT))

    async def streamed() -> str:
        agent.messages = []
        return "".join([event["data"] async for event in agent.stream_async(PROMPT) if "data" in event])

    return streamed if case.workload == "W4" else run_apart if gate is not None else run


def _text(result: Any) -> str:
    return "".join([block["text"] for block in result.message["content"]])


def _message(index: int, role: str, text: str) -> Any:
    match role:
        case "call":
            use = {"toolUseId": f"prior_{index}", "name": TOOL, "input": {"item": text, "count": index}}
            return {"role": "assistant", "content": [{"toolUse": use}]}
        case "result":
            result = {"toolUseId": f"prior_{index - 1}", "status": "success", "content": [{"text": text}]}
            return {"role": "user", "content": [{"toolResult": result}]}
        case _:
            return {"role": role, "content": [{"text": text}]}
