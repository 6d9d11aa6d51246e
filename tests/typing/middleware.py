"""Middleware of every shape that must type-check; nothing here is run."""

from collections.abc import Sequence
from typing import assert_type

from interpose import (
    DROP,
    Abort,
    Agent,
    Capability,
    End,
    Middleware,
    MiddlewareStack,
    ModelRequest,
    ModelResponse,
    Retry,
    RunContext,
    RunResult,
    Skip,
    ToolCall,
    ToolResult,
    Usage,
    before_model_call,
    wrap_tool_call,
)
from interpose.events import Event, TextMessageContentEvent
from interpose.info import ContinueState, FinishInfo, RunConfig
from interpose.middleware import ModelNext, RunNext, ToolNext
from interpose.outcomes import Drop


class User:
    name: str


CLOCK: Capability[float] = Capability("clock")


class Plain(Middleware[User]):
    """Hooks as `def`, with the caller's context typed."""

    provides = (CLOCK,)

    def setup(self, ctx: RunContext[User]) -> None:
        ctx.provide(CLOCK, 1.0)

    def on_config(self, ctx: RunContext[User], config: RunConfig) -> RunConfig:
        return config.replace(instructions=f"The user is {ctx.context.name}.")

    def before_model_call(self, ctx: RunContext[User], request: ModelRequest) -> ModelRequest | ModelResponse | End:
        if request.is_final_step:
            return End("I have to stop here.")
        return request.append_instructions("Be brief.") if request.is_first_step else request.answer("Enough.")

    def on_chunk(self, ctx: RunContext[User], event: Event) -> Event | Sequence[Event] | Drop | None:
        if isinstance(event, TextMessageContentEvent):
            return event.replace(delta=event.delta.upper()) if event.delta else DROP
        return None

    def before_tool_call(self, ctx: RunContext[User], call: ToolCall) -> ToolCall | ToolResult | Skip | Abort:
        match call.name:
            case "rename":
                return call.replace(name="other")
            case "refuse":
                return call.refuse("not today")
            case "skip":
                return Skip(3)
        return Abort("unknown tool")

    def on_should_continue(self, ctx: RunContext[User], state: ContinueState) -> bool:
        return state.tool_call_count < 10


class Waiting(Middleware):
    """Hooks as `async def`, with no context of their own."""

    requires = (CLOCK,)

    async def wrap_run(self, ctx: RunContext, call_next: RunNext) -> RunResult:
        return await call_next()

    async def wrap_model_call(self, ctx: RunContext, request: ModelRequest, call_next: ModelNext) -> ModelResponse:
        assert_type(ctx.get(CLOCK), float)
        assert_type(ctx.get_optional(CLOCK), float | None)
        response = await call_next(request)
        return response if response.text else await call_next.again(request.with_temperature(0))

    async def wrap_tool_call(self, ctx: RunContext, call: ToolCall, call_next: ToolNext) -> ToolResult:
        return await call_next(call)

    async def after_model_call(
        self, ctx: RunContext, request: ModelRequest, response: ModelResponse
    ) -> ModelResponse | Retry:
        return Retry("Say more.") if not response.text else response.with_text(response.text.strip())

    async def on_usage(self, ctx: RunContext, usage: Usage) -> None:
        await ctx.sleep(0)

    async def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
        ctx.meta(seconds=info.duration_ms / 1000)


@before_model_call
def brief(ctx: RunContext, request: ModelRequest) -> ModelRequest:
    return request.with_max_tokens(100)


@wrap_tool_call
async def timed(ctx: RunContext, call: ToolCall, call_next: ToolNext) -> ToolResult:
    return await call_next(call)


async def function(ctx: RunContext, request: ModelRequest, call_next: ModelNext) -> ModelResponse:
    return await call_next(request)


async def factory() -> list[Middleware]:
    return [Waiting()]


def agents() -> list[Agent]:
    return [
        Agent("openai:gpt-5.5", middleware=[Plain(), Waiting(), brief, timed, function]),
        Agent("openai:gpt-5.5", middleware=MiddlewareStack().use(Plain()).use(Waiting())),
        Agent("openai:gpt-5.5", middleware=factory),
    ]
