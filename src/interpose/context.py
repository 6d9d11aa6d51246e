"""What hooks and tools are given of the run that they serve."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interpose.errors import CapabilityError
from interpose.ids import create_id

if TYPE_CHECKING:
    from interpose._engine.open_node import OpenNode
    from interpose._engine.run import Run
    from interpose.capabilities import Capability
    from interpose.info import FileEvent
    from interpose.interrupts import Answer
    from interpose.messages import Message, ToolCall
    from interpose.middleware import ContextT, Middleware
    from interpose.request import ModelRequest, ModelResponse, ModelSettings, Usage
    from interpose.tools import Tool
else:
    ContextT = TypeVar("ContextT")

T = TypeVar("T")


class Emitted:
    """What `emit` gives back: it need not be awaited; awaiting it waits until the reader has room again."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, None]:
        return self._run.flush().__await__()


class RunContext(Generic[ContextT]):
    """The run, as its hooks see it. A tool call's hooks get one of their own over the same run."""

    __slots__ = ("__weakref__", "_call", "_node", "_run")

    def __init__(self, run: Run, call: ToolCall | None = None, node: OpenNode | None = None) -> None:
        self._run = run
        self._call = call
        self._node = node

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def thread_id(self) -> str:
        """The id of the thread that the run belongs to."""
        return self._run.thread_id

    @property
    def parent_run_id(self) -> str | None:
        """The id of the outer run of a nested one."""
        return self._run.parent_run_id

    @property
    def resumed_from(self) -> str | None:
        """The id of the paused run that this one goes on with."""
        return self._run.resumed_from

    @property
    def request_id(self) -> str:
        """An id of this call of the agent, for logs that span nested runs."""
        return self._run.request_id

    @property
    def agent_name(self) -> str:
        """The name of the agent."""
        return self._run.agent.name

    @property
    def phase(self) -> str:
        """Where the run is.

        `init`, `before_model`, `model_stream`, `after_model`, `before_tools`, `after_tools` or `structured_output`.
        """
        return self._run.phase

    @property
    def step(self) -> int:
        """The number of the step, from 0."""
        return self._run.number

    @property
    def chunk_index(self) -> int:
        """How many events have entered `on_chunk` before this one."""
        return max(int(self._run.pipe.index), 0)

    @property
    def context(self) -> ContextT:
        """The caller's object, as it was given."""
        return self._run.context  # type: ignore[no-any-return]  # the caller says what it is

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the thread so far, with the run's own; read-only."""
        return self._run.history.messages

    @property
    def usage(self) -> Usage:
        """What the run has used so far, nested runs included."""
        return self._run.usage

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the run."""
        return self._run.config.tools

    @property
    def provider(self) -> str:
        """The provider of the model of this step."""
        return self._run.names[0]

    @property
    def model(self) -> str:
        """The name of the model of this step."""
        return self._run.names[1]

    @property
    def current_message_id(self) -> str | None:
        """The id of the assistant message of this step."""
        return self._run.message_id

    @property
    def accumulated_text(self) -> str:
        """The text of the open message so far, as it left `on_chunk`."""
        return str(self._run.pipe.open_text())

    @property
    def streaming(self) -> bool:
        """Whether somebody reads the events of this run."""
        return self._run.buffer is not None

    @property
    def tool_call(self) -> ToolCall | None:
        """The tool call, in the hooks of the tool seam."""
        return self._call

    @property
    def state(self) -> MutableMapping[str, Any]:
        """A JSON-able dict that all middleware of this run and its resumptions share."""
        return self._run.state

    @property
    def thread_state(self) -> MutableMapping[str, Any]:
        """A JSON-able dict that lives with the thread."""
        return self._run.thread_state

    def private(self, middleware: Middleware[Any]) -> Any:
        """Return what *middleware* keeps of this run: a dict, or what its `run_state` makes."""
        states = self._run.private
        state = states.get(id(middleware))
        if state is None:
            state = states[id(middleware)] = {} if middleware.run_state is None else type(middleware).run_state()  # type: ignore[misc]  # is callable
        return state

    def provide(self, capability: Capability[T], value: T) -> None:
        """Share *value* with the middleware of this run; called from `setup`."""
        self._run.capabilities[capability] = value

    def get(self, capability: Capability[T]) -> T:
        """Return the value of *capability*.

        Raises:
            CapabilityError: nothing was provided in this run.
        """
        try:
            return self._run.capabilities[capability]  # type: ignore[no-any-return]  # keyed by its type
        except KeyError:
            there = ", ".join(repr(cap.name) for cap in self._run.capabilities) or "none"
            raise CapabilityError(
                f"capability {capability.name!r} was never provided in this run; provided: {there}"
            ) from None

    def get_optional(self, capability: Capability[T]) -> T | None:
        """Return the value of *capability*, or None."""
        return self._run.capabilities.get(capability)

    def answer(self, reason: str) -> Answer | None:
        """Return what a person answered to the `Pause` with this *reason*, or None where it was not asked yet.

        In a hook of the tool seam, to the pause of this call.
        """
        call_id = None if self._call is None else self._call.id
        for one in self._run.answers:
            asked = one.interrupt.tool_call
            if one.interrupt.reason == reason and call_id == (None if asked is None else asked.id):
                return one.answer
        return None

    def abort(self, reason: str = "") -> None:
        """Stop the run at once: the provider call and running tools are cancelled. Returns; works from any thread."""
        self._run.abort(reason)

    def defer(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Start work now and wait for it after the terminal hook; its failure is logged."""
        self._run.defer(coroutine)

    async def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter *manager* and leave it after the terminal hook, last entered first."""
        return await self._run.enter(manager)  # type: ignore[no-any-return]  # what the manager gives

    def meta(self, **data: Any) -> None:
        """Write telemetry on the record node that is open now; nothing happens where nobody records."""
        record = self._run.record
        if record is not None:
            (self._node or record.current).meta.update(data)

    def emit(self, name: str, value: Any = None) -> Awaitable[None]:
        """Send a `CUSTOM` event; it passes `on_chunk`. Awaiting what comes back is only for back-pressure."""
        self._run.emit(name, value)
        return Emitted(self._run)

    async def tell_file(self, event: FileEvent) -> None:
        """Tell the `on_file*` hooks of the run, and its stream, that a file changed; for what provides a sandbox.

        Returns when all hooks have been called; one that fails is logged.
        """
        from interpose._engine.files import tell_file

        await tell_file(self._run, event)

    def hears_files(self) -> tuple[bool, bool]:
        """Return whether a hook of the run is told of files, and whether somebody sees its events."""
        from interpose._engine.files import hears_files

        return hears_files(self._run)

    def create_id(self, prefix: str) -> str:
        """Return a new id that begins with *prefix*."""
        return create_id(prefix)

    def now(self) -> float:
        """Return the time in seconds since 1970, UTC, by the agent's clock."""
        return self._run.clock.now()

    async def sleep(self, seconds: float) -> None:
        """Wait by the agent's clock."""
        await self._run.clock.sleep(seconds)

    def release_stream(self) -> None:
        """Send what `holds_stream` has kept back of this model call, and hold no more of it."""
        self._run.pipe.release()

    async def generate(
        self,
        messages_or_request: str | Sequence[Any] | ModelRequest,
        *,
        model: Any = None,
        instructions: str | None = None,
        settings: ModelSettings | None = None,
        call_class: str = "summary",
    ) -> ModelResponse:
        """Call a model for the middleware's own use: counted and recorded, never shown, and passed through no layer.

        It has no tools and no output schema, unless a whole request is given.
        """
        from interpose._engine.own_call import generate

        return await generate(self._run, messages_or_request, model, instructions, settings, call_class, self._node)


class ToolContext(RunContext[ContextT]):
    """The run, as one of its tools sees it."""

    __slots__ = ()

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same when this very call is run again after a crash."""
        call = self._call
        return "" if call is None else call.idempotency_key or f"{self.thread_id}:{call.id}"

    @property
    def tool_call_id(self) -> str:
        """The id of the call."""
        return "" if self._call is None else self._call.id
