"""interpose itself, with a model of a few lines that answers from a script."""
# ruff: noqa: ARG001, ARG002  # hooks and fakes take the arguments of their seam, used or not

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

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
from interpose import (
    Agent,
    AssistantMessage,
    Limits,
    Message,
    Middleware,
    ModelResponse,
    TextMessageContentEvent,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from interpose.middleware import HOOKS
from interpose.models import Finish, ModelProfile, TextDelta, unfold


def refuses(case: Case) -> str | None:
    """Return why *case* is not measured here, or None."""
    del case
    return None


class BenchModel:
    """Answers from a script; counts what it is asked."""

    provider = "bench"
    name = "bench"
    profile: ModelProfile | None = None

    def __init__(self, case: Case, counted: bool, gate: asyncio.Event | None) -> None:
        self.script = Script(case)
        self.counted = counted
        self.gate = gate
        self.chunks = [TextDelta(PIECE)] * CHUNKS if case.workload == "W4" else None

    async def generate(self, request: Any) -> ModelResponse:
        """Return the next answer whole."""
        turn = self.script.next()
        if self.counted:
            TALLY.results_seen = len([message for message in request.messages if message.role == "tool"])
        if self.gate is not None:
            await self.gate.wait()
        return _response(turn)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Yield the next answer as prepared chunks."""
        if self.chunks is None:
            for chunk in unfold(await self.generate(request)):
                yield chunk
            return
        self.script.next()
        for chunk in self.chunks:
            yield chunk
        yield Finish()


def _response(turn: Turn) -> ModelResponse:
    if not turn.calls:
        return ModelResponse(AssistantMessage(turn.text))
    calls = [ToolCall(call_id(), TOOL, args) for args in turn.calls]  # type: ignore[arg-type]  # JSON text is taken too
    return ModelResponse(AssistantMessage(tool_calls=tuple(calls)))


class WrapModel(Middleware[Any]):
    """A layer around model calls."""

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        """Pass on."""
        return await call_next(request)


class WrapBoth(WrapModel):
    """A layer around model calls and around tool calls."""

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        """Pass on."""
        return await call_next(call)


class SeeChunks(Middleware[Any]):
    """Sees every event."""

    def on_chunk(self, ctx: Any, event: Any) -> None:
        """Do nothing."""


class SeeChunksAsync(Middleware[Any]):
    """Sees every event, with a coroutine function."""

    async def on_chunk(self, ctx: Any, event: Any) -> None:
        """Do nothing."""


async def _none0(self: Any) -> None: ...
async def _none1(self: Any, ctx: Any) -> None: ...
async def _none2(self: Any, ctx: Any, given: Any) -> None: ...
async def _none3(self: Any, ctx: Any, given: Any, came: Any) -> None: ...
async def _wrap_run(self: Any, ctx: Any, call_next: Any) -> Any:
    return await call_next()


def _everything(*bases: type) -> type:
    """Return a middleware class with every hook of the contract; those of *bases* stay as they are."""
    nothing = (_none0, _none1, _none2, _none3)
    own = {"wrap_run": _wrap_run}
    hooks = {name: own.get(name, nothing[arity]) for name, arity in HOOKS.items()}
    present = {name: getattr(base, name) for base in bases for name in HOOKS if name in _defined(base)}
    return type("Everything", (Middleware,), hooks | present)


def _defined(base: type) -> set[str]:
    return {name for cls in base.__mro__ if cls is not Middleware for name in vars(cls)}


class CountBoth(Middleware[Any]):
    """Counts where `WrapBoth` passes on."""

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        """Count and pass on."""
        TALLY.model_hooks += 1
        return await call_next(request)

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        """Count and pass on."""
        TALLY.tool_hooks += 1
        return await call_next(call)


class CountChunks(Middleware[Any]):
    """Counts pieces of text."""

    def on_chunk(self, ctx: Any, event: Any) -> None:
        """Count."""
        TALLY.chunk_hooks += event.type == "TEXT_MESSAGE_CONTENT"


class CountChunksAsync(CountChunks):
    """Counts pieces of text, with a coroutine function."""

    async def on_chunk(self, ctx: Any, event: Any) -> None:  # type: ignore[override]  # a hook is def or async def
        """Count."""
        TALLY.chunk_hooks += event.type == "TEXT_MESSAGE_CONTENT"


def _middleware(case: Case, counted: bool) -> list[Middleware[Any]]:
    if case.hooks == "all":
        kind = _everything(CountBoth, CountChunksAsync) if counted else _everything(WrapBoth)
    elif case.workload == "W4":
        asynchronous = case.form == "async"
        kind = (
            (CountChunksAsync if counted else SeeChunksAsync)
            if asynchronous
            else (CountChunks if counted else SeeChunks)
        )
    else:
        kind = CountBoth if counted else WrapBoth if wraps_tools(case) else WrapModel
    return [kind() for _ in range(case.n)]


def build(case: Case, *, counted: bool = False, gate: asyncio.Event | None = None) -> Callable[[], Awaitable[str]]:
    """Return what makes one run of *case* and returns its text."""
    agent = Agent(
        BenchModel(case, counted, gate),
        tools=[tool(add_stock)] if wraps_tools(case) else [],
        middleware=_middleware(case, counted),
        limits=Limits(max_steps=LOOP_STEPS + 1),
        post_model_hooks=(),
    )
    prior = [_message(index, role, text) for index, (role, text) in enumerate(prior_messages(case.prior))]

    async def run() -> str:
        result = await agent.run([*prior, UserMessage(PROMPT)] if prior else PROMPT)
        return result.text

    async def streamed() -> str:
        pieces = []
        async with agent.stream(PROMPT) as stream:
            async for event in stream:
                if isinstance(event, TextMessageContentEvent):
                    pieces.append(event.delta)
        return "".join(pieces)

    return streamed if case.workload == "W4" else run


def _message(index: int, role: str, text: str) -> Message:
    match role:
        case "user":
            return UserMessage(text)
        case "call":
            return AssistantMessage(tool_calls=(ToolCall(f"prior_{index}", TOOL, {"item": text, "count": index}),))
        case "result":
            return ToolMessage(text, f"prior_{index - 1}")
        case _:
            return AssistantMessage(text)
