"""Microsoft Agent Framework, as its documentation says: a client of one's own with its function and chat layers.

Its telemetry layer is left out of the client. Layers are chat middleware (each model call) and function middleware
(each tool call); streamed updates are seen by the transform hooks that chat middleware adds.
"""
# ruff: noqa: ARG001, ARG002  # hooks and fakes take the arguments of their seam, used or not

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentMiddleware,
    BaseChatClient,
    ChatMiddleware,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionMiddleware,
    Message,
    tool,
)

from bench.cases import (
    CHUNKS,
    LOOP_STEPS,
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


class BenchClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers from a script; counts what it is asked."""

    def __init__(self, case: Case, counted: bool, gate: asyncio.Event | None) -> None:
        super().__init__(function_invocation_configuration={"max_iterations": LOOP_STEPS + 1})
        self.script = Script(case)
        self.counted = counted
        self.gate = gate

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        return self._build_response_stream(self._updates()) if stream else self._response(messages)

    async def _response(self, messages: Sequence[Message]) -> ChatResponse[Any]:
        turn = self.script.next()
        if self.counted:
            kinds = [content.type for message in messages for content in message.contents]
            TALLY.results_seen = kinds.count("function_result")
        if self.gate is not None:
            await self.gate.wait()
        return ChatResponse(messages=[Message("assistant", _contents(turn))])

    async def _updates(self) -> AsyncIterator[ChatResponseUpdate]:
        self.script.next()
        for _ in range(CHUNKS):
            yield ChatResponseUpdate(contents=[Content.from_text(PIECE)], role="assistant")


def _contents(turn: Turn) -> list[Any]:
    calls = [Content.from_function_call(call_id(), TOOL, arguments=args) for args in turn.calls]
    return calls or [turn.text]


class WrapChat(ChatMiddleware):
    """A layer around model calls."""

    async def process(self, context: Any, call_next: Any) -> None:
        """Pass on."""
        await call_next()


class WrapFunction(FunctionMiddleware):
    """A layer around tool calls."""

    async def process(self, context: Any, call_next: Any) -> None:
        """Pass on."""
        await call_next()


class WrapAgent(AgentMiddleware):
    """A layer around a run."""

    async def process(self, context: Any, call_next: Any) -> None:
        """Pass on."""
        await call_next()


class CountChat(ChatMiddleware):
    """Counts model calls."""

    async def process(self, context: Any, call_next: Any) -> None:
        """Count and pass on."""
        TALLY.model_hooks += 1
        await call_next()


class CountFunction(FunctionMiddleware):
    """Counts tool calls."""

    async def process(self, context: Any, call_next: Any) -> None:
        """Count and pass on."""
        TALLY.tool_hooks += 1
        await call_next()


class SeeUpdates(ChatMiddleware):
    """Sees every update of a stream by *hook*."""

    def __init__(self, hook: Callable[[Any], Any]) -> None:
        self.hook = hook

    async def process(self, context: Any, call_next: Any) -> None:
        """Add the hook and pass on."""
        context.stream_transform_hooks.append(self.hook)
        await call_next()


def _see(update: Any) -> None:
    """Do nothing."""


async def _see_async(update: Any) -> None:
    """Do nothing."""


def _count(update: Any) -> None:
    TALLY.chunk_hooks += 1


async def _count_async(update: Any) -> None:
    TALLY.chunk_hooks += 1


def _middleware(case: Case, counted: bool) -> list[Any]:
    asynchronous = case.form == "async"
    hook = (_count_async if asynchronous else _count) if counted else _see_async if asynchronous else _see
    kinds: list[Callable[[], Any]] = []
    if case.hooks == "all":
        kinds = [WrapAgent, CountChat if counted else WrapChat, CountFunction if counted else WrapFunction]
    elif case.workload != "W4":
        kinds = [CountChat if counted else WrapChat]
        if wraps_tools(case):
            kinds.append(CountFunction if counted else WrapFunction)
    if case.workload == "W4":
        kinds.append(lambda: SeeUpdates(hook))
    return [kind() for kind in kinds for _ in range(case.n)]


def build(case: Case, *, counted: bool = False, gate: asyncio.Event | None = None) -> Callable[[], Awaitable[str]]:
    """Return what makes one run of *case* and returns its text."""
    tools = [tool(add_stock, approval_mode="never_require")] if wraps_tools(case) else None
    agent = Agent(BenchClient(case, counted, gate), tools=tools, middleware=_middleware(case, counted))
    prior = [_message(index, role, text) for index, (role, text) in enumerate(prior_messages(case.prior))]

    async def run() -> str:
        response = await agent.run([*prior, Message("user", [PROMPT])] if prior else PROMPT)
        return response.text

    async def streamed() -> str:
        return "".join([update.text async for update in agent.run(PROMPT, stream=True)])

    return streamed if case.workload == "W4" else run


def _message(index: int, role: str, text: str) -> Message:
    match role:
        case "call":
            arguments = {"item": text, "count": index}
            return Message("assistant", [Content.from_function_call(f"prior_{index}", TOOL, arguments=arguments)])
        case "result":
            return Message("tool", [Content.from_function_result(f"prior_{index - 1}", result=text)])
        case _:
            return Message(role, [text])
