"""The contract: every seam of a run as a method, in the order in which a run meets them.

Every hook is optional and may be `def` or `async def`. One return rule: nothing means unchanged, a value of the seam's
type replaces, an outcome steers, anything else raises `HookError`. The two `wrap_*` hooks of model and tool must return
a result. An exception in a hook fails the run, unless its docstring says that the hook is isolated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from interpose.capabilities import Capability
from interpose.errors import ConfigurationError
from interpose.outcomes import Abort, Drop, End, Pause, Retry, Skip

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from interpose.agent import Agent
    from interpose.context import RunContext
    from interpose.events import Event
    from interpose.info import (
        AbortInfo,
        ContinueState,
        ErrorInfo,
        FileEvent,
        FinishInfo,
        Node,
        RunConfig,
        StepInfo,
        ToolPhaseInfo,
    )
    from interpose.interrupts import Interrupt, InterruptRequest
    from interpose.messages import ToolCall, ToolResult
    from interpose.request import ModelRequest, ModelResponse, Usage
    from interpose.result import RunResult

    ContextT = DefaultTypeVar("ContextT", default=Any)
else:
    ContextT = TypeVar("ContextT")

T = TypeVar("T")
Maybe: TypeAlias = T | Awaitable[T]
"""What a hook gives: a value from a `def`, or an awaitable of it from an `async def`."""


class ModelNext(Protocol):
    """`call_next` of the model seam: the inner layers and the model.

    Called once per layer and call; a second time raises `NextCalledTwice`. `again` is for trying again on purpose.
    """

    def __call__(self, request: ModelRequest, /) -> Coroutine[Any, Any, ModelResponse]:
        """Return the response of what is inside."""
        ...

    def again(self, request: ModelRequest, /) -> Coroutine[Any, Any, ModelResponse]:
        """Call what is inside, any number of times, also first."""
        ...

    def then(
        self, request: ModelRequest, callback: Callable[[ModelResponse], Any], /
    ) -> Coroutine[Any, Any, ModelResponse]:
        """Call what is inside, and *callback* with the response before its tool calls run."""
        ...


class ToolNext(Protocol):
    """`call_next` of the tool seam, with the same rules as `ModelNext`."""

    def __call__(self, call: ToolCall, /) -> Coroutine[Any, Any, ToolResult]:
        """Return the result of what is inside."""
        ...

    def again(self, call: ToolCall, /) -> Coroutine[Any, Any, ToolResult]:
        """Call what is inside, any number of times, also first."""
        ...

    def then(self, call: ToolCall, callback: Callable[[ToolResult], Any], /) -> Coroutine[Any, Any, ToolResult]:
        """Call what is inside, and *callback* with the result."""
        ...


class RunNext(Protocol):
    """`call_next` of `wrap_run`: takes nothing, gives the result of a run that finishes."""

    def __call__(self) -> Coroutine[Any, Any, RunResult]:
        """Return the result of the run."""
        ...


class Middleware(Generic[ContextT]):
    """What cuts across all agents, as one class with the seams that it needs.

    An instance serves many runs at once and keeps nothing of a run on `self`: that is what `ctx.private(self)` is for.
    """

    name: str = ""
    """What errors and `explain()` call it; the class's name where it is empty."""
    requires: ClassVar[Sequence[Capability[Any]]] = ()
    """Capabilities that an earlier middleware must provide."""
    optional_requires: ClassVar[Sequence[Capability[Any]]] = ()
    """Capabilities that it uses where they are there."""
    provides: ClassVar[Sequence[Capability[Any]]] = ()
    """Capabilities that its `setup` provides."""
    interrupts: Sequence[Interrupt[Any, Any]] = ()
    """Questions that it may ask a person."""
    tools: Sequence[Any] = ()
    """Tools that it brings."""
    holds_stream: bool = False
    """Keep every event of a model call back until the model seam has returned, or `ctx.release_stream()`."""
    nested: bool = False
    """Take part in nested runs too, outermost."""
    reads_content: bool = True
    """Whether its `on_node` looks at the contents of nodes; they are made only where somebody does."""
    run_state: Callable[[], Any] | None = None
    """What makes `ctx.private(self)` for a run; a dict where it is None."""
    saved: bool = False
    """Save `ctx.private(self)` with checkpoints, under the name and `state_version`."""
    state_version: int = 1

    # Before any run.

    def open(self, agent: Agent[Any]) -> Maybe[None]:
        """Acquire what outlives runs, before the first run of the first agent that uses it, in order.

        An exception refuses the first run (or `use()`) with a `ConfigurationError` that has it as its cause.
        """

    def close(self) -> Maybe[None]:
        """Release it, when the last agent that uses it closes, in reverse order. An exception is logged."""

    # A run begins; phase `init`.

    def setup(self, ctx: RunContext[ContextT]) -> Maybe[None]:
        """Provide capabilities for this run, in order."""

    def on_config(self, ctx: RunContext[ContextT], config: RunConfig) -> Maybe[RunConfig | None]:
        """Change what the run starts from; piped: each sees what the one before left.

        Runs once with phase `init` (changes last for the run), before each step with phase `before_model` (changes
        hold for that step), and with phase `structured_output` before a call for the output.
        """

    def on_start(self, ctx: RunContext[ContextT]) -> Maybe[End | Pause | Abort | None]:
        """Look at the run before anything is sent, in order."""

    def wrap_run(self, ctx: RunContext[ContextT], call_next: RunNext) -> Maybe[RunResult | None]:
        """Stand around the run; an onion.

        `call_next()` gives the result of every run that finishes in good order, also ended early, cut by a limit with
        "stop", or paused; errors, aborts and cancellations pass through. Returning nothing keeps that result.
        """

    # A step; phases `before_model`, `model_stream`, `after_model`.

    def on_step(self, ctx: RunContext[ContextT], info: StepInfo) -> Maybe[None]:
        """Learn that a step begins, in order."""

    def on_interrupt_boundary(self, ctx: RunContext[ContextT]) -> Maybe[Sequence[InterruptRequest] | None]:
        """Ask a person: at the four boundaries `before_model`, `after_model`, `before_tools`, `after_tools`.

        The requests of all middleware at one boundary are one batch, and pause the run.
        """

    def on_interrupt_resolution(
        self, ctx: RunContext[ContextT], resolutions: Any
    ) -> Maybe[Literal["continue", "cancel", "stop"] | None]:
        """See the answers when a run resumes; the strictest vote wins."""

    def before_model_call(
        self, ctx: RunContext[ContextT], request: ModelRequest
    ) -> Maybe[ModelRequest | ModelResponse | End | Pause | Abort | None]:
        """Change the request, or answer it with a `ModelResponse`: the inner layers and the model are not called."""

    def wrap_model_call(
        self, ctx: RunContext[ContextT], request: ModelRequest, call_next: ModelNext
    ) -> Maybe[ModelResponse | End | Pause | Abort]:
        """Stand around the model call; an onion whose outermost layer is listed first. Must return a response."""
        return call_next(request)

    def on_chunk(self, ctx: RunContext[ContextT], event: Event) -> Maybe[Event | Sequence[Event] | Drop | None]:
        """See, change, expand or `DROP` each event of the run, in order; piped.

        What is dropped, later middleware do not see. Text and reasoning are remembered as they leave this hook.
        `RUN_*` and `STEP_*` can only be watched.
        """

    def after_model_call(
        self, ctx: RunContext[ContextT], request: ModelRequest, response: ModelResponse
    ) -> Maybe[ModelResponse | Retry | End | Pause | Abort | None]:
        """Judge or change the response; runs from the innermost layer to the outermost."""

    def on_usage(self, ctx: RunContext[ContextT], usage: Usage) -> Maybe[None]:
        """Learn what the model calls of a step used, once a step, in order."""

    # Its tool calls; phases `before_tools`, `after_tools`.

    def before_tool_call(
        self, ctx: RunContext[ContextT], call: ToolCall
    ) -> Maybe[ToolCall | ToolResult | Skip | Pause | End | Abort | None]:
        """Change the call, or answer it unexecuted with a `ToolResult` or `Skip(result)`.

        To refuse in a way that the model can work around, return `call.refuse(text)`; an exception ends the run.
        """

    def wrap_tool_call(self, ctx: RunContext[ContextT], call: ToolCall, call_next: ToolNext) -> Maybe[ToolResult | Any]:
        """Stand around a tool call; an onion. Must return a result, or a plain value that becomes one."""
        return call_next(call)

    def after_tool_call(
        self, ctx: RunContext[ContextT], call: ToolCall, result: ToolResult
    ) -> Maybe[ToolResult | End | Abort | None]:
        """Judge or change the result; runs from the innermost layer to the outermost.

        Also for calls that were answered unexecuted further in.
        """

    def on_tool_phase_complete(self, ctx: RunContext[ContextT], info: ToolPhaseInfo) -> Maybe[None]:
        """Learn that all calls of the step are settled, in order."""

    def on_should_continue(self, ctx: RunContext[ContextT], state: ContinueState) -> Maybe[bool | None]:
        """Vote after every step: `False` stops the run. All are asked, in order."""

    # The end.

    def on_structured_output_config(self, ctx: RunContext[ContextT], config: RunConfig) -> Maybe[RunConfig | None]:
        """Change the call for structured output, with its `output_schema`; piped, before `on_config`."""

    def on_finish(self, ctx: RunContext[ContextT], info: FinishInfo) -> Maybe[None]:
        """The run ended in good order, or is paused. In reverse order; all are called, then a failure is raised."""

    def on_abort(self, ctx: RunContext[ContextT], info: AbortInfo) -> Maybe[None]:
        """The run was aborted, cancelled, or left by its reader. In reverse order; isolated: failures are logged."""

    def on_error(self, ctx: RunContext[ContextT], info: ErrorInfo) -> Maybe[None]:
        """The run failed. In reverse order; isolated: failures are logged."""

    # Observers: all are called, isolated (a failure is logged and the run goes on).

    def on_node(self, ctx: RunContext[ContextT], node: Node) -> Maybe[None]:
        """See the start and the end of every entry of the run's record."""

    def on_file(self, ctx: RunContext[ContextT], event: FileEvent) -> Maybe[None]:
        """See every file that changes in the sandbox, in order; before the hook of its kind."""

    def on_file_create(self, ctx: RunContext[ContextT], event: FileEvent) -> Maybe[None]:
        """See files created in the sandbox."""

    def on_file_change(self, ctx: RunContext[ContextT], event: FileEvent) -> Maybe[None]:
        """See files changed in the sandbox."""

    def on_file_delete(self, ctx: RunContext[ContextT], event: FileEvent) -> Maybe[None]:
        """See files deleted in the sandbox."""


HOOKS: dict[str, int] = {
    "open": 1,
    "close": 0,
    "setup": 1,
    "on_config": 2,
    "on_start": 1,
    "wrap_run": 2,
    "on_step": 2,
    "on_interrupt_boundary": 1,
    "on_interrupt_resolution": 2,
    "before_model_call": 2,
    "wrap_model_call": 3,
    "on_chunk": 2,
    "after_model_call": 3,
    "on_usage": 2,
    "before_tool_call": 2,
    "wrap_tool_call": 3,
    "after_tool_call": 3,
    "on_tool_phase_complete": 2,
    "on_should_continue": 2,
    "on_structured_output_config": 2,
    "on_finish": 2,
    "on_abort": 2,
    "on_error": 2,
    "on_node": 2,
    "on_file": 2,
    "on_file_create": 2,
    "on_file_change": 2,
    "on_file_delete": 2,
}
"""Every hook, in the order of a run, with the number of arguments after `self`."""


class MiddlewareStack(list[Any]):
    """A list of middleware that `use` appends to, in chains; order and capabilities are checked by the agent."""

    def use(self, middleware: Any) -> MiddlewareStack:
        """Append *middleware* and return the stack."""
        self.append(middleware)
        return self


class FunctionMiddleware(Middleware[Any]):
    """A middleware made of one function, as the decorators below make it."""

    def __init__(self, hook: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ConfigurationError(f"@{hook} takes a function, got {type(function).__name__}")
        self.name = getattr(function, "__name__", type(function).__name__)
        self.function = function
        setattr(self, hook, function)

    def __repr__(self) -> str:
        return f"<middleware {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)


def _lift(hook: str) -> Callable[[Callable[..., Any]], FunctionMiddleware]:
    def decorator(function: Callable[..., Any]) -> FunctionMiddleware:
        return FunctionMiddleware(hook, function)

    decorator.__name__ = decorator.__qualname__ = hook
    decorator.__doc__ = f"Make a middleware of a function that is `{hook}`; its arguments are those after `self`."
    return decorator


setup = _lift("setup")
on_config = _lift("on_config")
on_start = _lift("on_start")
wrap_run = _lift("wrap_run")
on_step = _lift("on_step")
on_interrupt_boundary = _lift("on_interrupt_boundary")
on_interrupt_resolution = _lift("on_interrupt_resolution")
before_model_call = _lift("before_model_call")
wrap_model_call = _lift("wrap_model_call")
on_chunk = _lift("on_chunk")
after_model_call = _lift("after_model_call")
on_usage = _lift("on_usage")
before_tool_call = _lift("before_tool_call")
wrap_tool_call = _lift("wrap_tool_call")
after_tool_call = _lift("after_tool_call")
on_tool_phase_complete = _lift("on_tool_phase_complete")
on_should_continue = _lift("on_should_continue")
on_structured_output_config = _lift("on_structured_output_config")
on_finish = _lift("on_finish")
on_abort = _lift("on_abort")
on_error = _lift("on_error")
on_node = _lift("on_node")
on_file = _lift("on_file")
on_file_create = _lift("on_file_create")
on_file_change = _lift("on_file_change")
on_file_delete = _lift("on_file_delete")
