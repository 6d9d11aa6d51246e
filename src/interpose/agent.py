"""The agent: a model, instructions, tools and middleware; what a user configures, and runs many times at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from interpose._engine.arguments import check_arguments, check_tools
from interpose._engine.beginning import begin_run, make_run
from interpose._engine.buffer import Buffer, Log
from interpose._engine.copies import copied
from interpose._engine.explain import Explanation, explain
from interpose._engine.meter import limits_spending
from interpose._engine.model_hooks import ModelHooks, register
from interpose._engine.models import as_model
from interpose._engine.nested import agent_tool
from interpose._engine.opening import Openings
from interpose._engine.plan import Plan, as_list, as_middleware, is_factory, model_hooks_layer, tool_hooks_layer
from interpose._engine.registry import Registry
from interpose._engine.run import Run
from interpose._engine.waiting import pending, unfinished
from interpose.clock import REAL_CLOCK, Clock
from interpose.errors import ConfigurationError
from interpose.hooks import DEFAULT_POST_MODEL_HOOKS
from interpose.info import RunConfig
from interpose.interrupts import OpenInterrupt
from interpose.limits import Limits
from interpose.middleware import Middleware
from interpose.models.base import has_own_generate
from interpose.output import OutputType
from interpose.request import ModelSettings
from interpose.result import RunResult, RunStream

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from interpose.models.base import Model
    from interpose.tools import Tool

    ContextT = DefaultTypeVar("ContextT", default=Any)
else:
    ContextT = TypeVar("ContextT")


"""Seals the checkpoints of agents without a key of their own: they can be resumed in this process alone."""
HookT = TypeVar("HookT", bound=Callable[..., Any])


class Agent(Generic[ContextT]):
    """A model with instructions, tools and middleware; holds nothing of a run and nothing bound to an event loop.

    *model* is a `Model` or "provider:model". *middleware* is a list (the first is the outermost), a `MiddlewareStack`,
    or an async factory that returns one and is awaited once, before the first run. *output* is a type, or a JSON
    schema, for a structured answer.

    Raises:
        ConfigurationError: something does not fit together; the text says what to change.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        instructions: str = "",
        tools: Sequence[Any] = (),
        middleware: Any = (),
        output: Any = None,
        output_retries: int = 1,
        settings: ModelSettings | None = None,
        limits: Limits | None = None,
        store: Any = None,
        before_tool: Callable[..., Any] | None = None,
        after_tool: Callable[..., Any] | None = None,
        post_model_hooks: Sequence[Any] = DEFAULT_POST_MODEL_HOOKS,
        redact: Sequence[Any] = (),
        checkpoint_key: bytes | None = None,
        clock: Clock | None = None,
        name: str = "agent",
    ) -> None:
        self.model: Model = as_model(model)
        self.instructions = instructions
        self.own_tools = tuple(check_tools(tools))
        self.settings = settings or ModelSettings()
        self.limits = limits or Limits()
        self.store = store
        self.before_tool = before_tool
        self.after_tool = after_tool
        self.post_model_hooks = list(post_model_hooks)
        self.pre_model_hooks: list[Any] = []
        self.redact: Any = redact
        self.clock = clock or REAL_CLOCK
        self.checkpoint_key = checkpoint_key
        self.name = name
        self.output = output
        self.output_retries = output_retries
        self._factory: Callable[..., Awaitable[Any]] | None = None
        self._middleware: list[Middleware[Any]] = []
        if is_factory(middleware):
            self._factory = middleware
        else:
            self._middleware = [as_middleware(one) for one in as_list(middleware)]
        self._begin_life()
        self._build()

    def _begin_life(self) -> None:
        """Set what is the agent's own and not copied: its runs, and what it has opened."""
        self._openings = Openings()
        self._runs = Registry()
        self._override: ContextVar[Agent[Any] | None] = ContextVar("override", default=None)
        self._lock = threading.Lock()

    def _build(self) -> None:
        """Lower middleware, tools and output into what runs need; all checks of assembly are here."""
        check_arguments(self)
        tool_hooks = tool_hooks_layer(self.before_tool, self.after_tool)
        model_hooks = None
        if self.pre_model_hooks or self.post_model_hooks:
            model_hooks = model_hooks_layer(ModelHooks(self.pre_model_hooks, self.post_model_hooks))
        self._plan = Plan(self._middleware, self.own_tools, tool_hooks, model_hooks)
        self._output = OutputType(self.output) if self.output is not None else None
        profile = getattr(self.model, "profile", None)
        self._generates = has_own_generate(self.model)
        self._limits_spending = limits_spending(self.limits)
        self._native_output = bool(self._output and profile is not None and profile.supports_structured_output)
        self._config = RunConfig(
            model=self.model,
            instructions=self.instructions,
            tools=self._plan.tools,
            settings=self.settings,
            output_schema=self._output.schema if self._output is not None and self._native_output else None,
        )

    # Copies.

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def copy(self, **changes: Any) -> Self:
        """Return a whole agent, new and unopened, with *changes*: any argument of `Agent`.

        Raises:
            TypeError: a name is no argument of `Agent`.
        """
        return copied(self, changes)

    # Middleware.

    @property
    def middleware(self) -> tuple[Middleware[Any], ...]:
        """The middleware of the agent, the outermost first; what a factory makes is there after the first run."""
        return self._plan.middleware

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the agent, with those that its middleware brings."""
        return self._plan.tools

    async def use(self, middleware: Any) -> None:
        """Append a middleware, innermost, and open it.

        Raises:
            ConfigurationError: the agent has run already, or the middleware does not fit or cannot be opened.
        """
        if self._openings.ran:
            raise ConfigurationError("use() came after the first run; add middleware before it, or give it to the run")
        one = as_middleware(middleware)
        await self._ready(first_run=False)
        before = self._middleware
        self._middleware = [*before, one]
        try:
            self._build()
            await self._openings.open_one(one, self)
        except BaseException:
            self._middleware = before
            self._build()
            raise

    def register_pre_model_hook(self, hook: HookT) -> HookT:
        """Append a hook that sees each model call before it is made; also a decorator.

        Raises:
            ConfigurationError: the agent has run already.
        """
        return register(self, self.pre_model_hooks, hook)

    def register_post_model_hook(self, hook: HookT) -> HookT:
        """Append a hook that sees each model call after it was made; also a decorator.

        Raises:
            ConfigurationError: the agent has run already.
        """
        return register(self, self.post_model_hooks, hook)

    def explain(self) -> Explanation:
        """Return, per seam, who acts in which order; who holds the stream; who brings which tools and capabilities.

        It prints as a text, and `to_dict()` gives it as data.
        """
        return explain(self, self._plan)

    # Runs.

    async def run(
        self,
        prompt_or_messages: Any = None,
        *,
        context: ContextT | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
        parent_run_id: str | None = None,
        resume: Any = None,
        middleware: Sequence[Any] = (),
        limits: Limits | None = None,
    ) -> RunResult:
        """Run to the end and return the result.

        Raises:
            RunAborted: the run was aborted.
            LimitExceeded: a limit was reached that is to raise.
            Exception: what failed the run; it carries `partial`, what was done until then.
        """
        run = self._make(
            prompt_or_messages, None, context, thread_id, run_id, parent_run_id, resume, middleware, limits
        )
        await run.agent._begin(run)
        await run.over()
        return run.outcome()

    async def resume(
        self,
        run_id: str | Mapping[str, Any],
        answers: Any = None,
        *,
        context: ContextT | None = None,
        middleware: Sequence[Any] = (),
        limits: Limits | None = None,
    ) -> RunResult:
        """Go on with a run that is paused, was killed or failed, and return the result.

        *run_id* is that of a run in the store, or the `checkpoint` of its result. *answers* are `Resolved`, `Approved`,
        `Rejected` or `Cancelled` by the id of each interrupt, or AG-UI's resume entries.

        Raises:
            ResumeError: the answers do not fit the questions; lists each. Nothing ran, and it can still be resumed.
        """
        run = self._make(None, None, context, None, None, None, None, middleware, limits)
        run.to_resume = (run_id, answers)
        await run.agent._begin(run)
        await run.over()
        return run.outcome()

    async def pending(self, thread_id: str | None = None) -> list[OpenInterrupt]:
        """Return what paused runs of the store wait for, of one thread or of all.

        Raises:
            ConfigurationError: the agent has no store.
        """
        return await pending(self._now(), thread_id)

    async def unfinished(self, thread_id: str | None = None) -> list[str]:
        """Return the ids of runs of the store that `resume` may go on with, unless they live in other processes.

        Raises:
            ConfigurationError: the agent has no store.
        """
        return await unfinished(self._now(), thread_id)

    def stream(
        self,
        prompt_or_messages: Any = None,
        *,
        context: ContextT | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
        parent_run_id: str | None = None,
        resume: Any = None,
        middleware: Sequence[Any] = (),
        limits: Limits | None = None,
    ) -> RunStream:
        """Return a run to be read event by event inside `async with`; entering starts it."""
        names = (thread_id, run_id, parent_run_id)
        return RunStream(self._make(prompt_or_messages, Buffer(), context, *names, resume, middleware, limits))

    def run_sync(self, prompt_or_messages: Any = None, **options: Any) -> RunResult:
        """Run in an event loop of its own; for scripts. Takes the options of `run`, closes the agent after.

        Raises:
            ConfigurationError: an event loop is running already; await `run` there.
        """
        with suppress(RuntimeError):  # there is no running loop, as it should be
            asyncio.get_running_loop()
            raise ConfigurationError("run_sync() was called inside a running event loop; write `await agent.run(...)`")
        return asyncio.run(self._run_and_close(prompt_or_messages, options))

    async def _run_and_close(self, given: Any, options: dict[str, Any]) -> RunResult:
        async with self:
            return await self.run(given, **options)

    async def start(
        self,
        prompt_or_messages: Any = None,
        *,
        context: ContextT | None = None,
        thread_id: str | None = None,
        run_id: str | None = None,
        parent_run_id: str | None = None,
        resume: Any = None,
        middleware: Sequence[Any] = (),
        limits: Limits | None = None,
    ) -> RunStream:
        """Start a run that the agent owns until it ends: a reader who leaves does not cancel it.

        The stream that comes back can be read at once; `attach` gives others.
        """
        run = self._make(
            prompt_or_messages, Log(), context, thread_id, run_id, parent_run_id, resume, middleware, limits
        )
        await run.agent._begin(run)
        return await RunStream(run, owned=False).__aenter__()

    def attach(self, run_id: str, after: int = -1) -> RunStream:
        """Return a reader of a run of `start`, from the event after *after* on; of one that ended, for a while.

        Raises:
            KeyError: there is no such run.
        """
        return RunStream(self._now()._runs.find(run_id), owned=False, after=after)

    def as_tool(self, name: str, description: str) -> Tool:
        """Return a tool that runs this agent with one argument, `prompt`, as a nested run."""
        return agent_tool(self, name, description)

    @contextmanager
    def override(self, **changes: Any) -> Iterator[Agent[Any]]:
        """Swap parts of the agent (any argument of `Agent`) for the runs of this context, as tests of an app do."""
        new = self._now().copy(**changes)
        token = self._override.set(new)
        try:
            yield new
        finally:
            self._override.reset(token)

    def _now(self) -> Agent[Any]:
        return self._override.get() or self

    def _make(self, *options: Any) -> Run:
        return make_run(self._override.get() or self, *options)

    async def _begin(self, run: Run) -> None:
        await self._be_ready()
        await begin_run(self, run)

    async def _be_ready(self) -> None:
        if not self._openings.ready:
            await self._ready(first_run=True)

    async def _ready(self, *, first_run: bool) -> None:
        """Await the factory and open middleware, once, before the first run."""
        async with self._openings.turn():
            if self._factory is not None:
                made = self._factory
                self._middleware = [as_middleware(one) for one in as_list(await made())]
                self._build()
                self._factory = None
            await self._openings.open_all(self._plan.middleware, self)
            if first_run:
                self._openings.ran = self._openings.ready = True

    # The end.

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop runs in flight (`RunAborted("closed")`), then close middleware, last first; a failure is logged.

        From within a run that run is stopped too, but not waited for.
        """
        runs = [run for run in self._runs.runs if run.loop is asyncio.get_running_loop()]
        for run in list(self._runs.runs):
            run.abort("closed")
        for run in runs:
            if not run.is_inside():
                await run.over()
        await self._openings.close_all()
