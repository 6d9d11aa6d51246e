"""A context for calling one hook, or one tool, by hand."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import SimpleNamespace
from typing import Any

from interpose.clock import Clock
from interpose.context import ToolContext
from interpose.errors import ConfigurationError
from interpose.info import FileEvent
from interpose.inputs import as_messages
from interpose.messages import ToolCall
from interpose.models.base import Model, fold
from interpose.request import ModelRequest, ModelResponse, ModelSettings, Usage
from interpose.testing.clock import FakeClock


class _HandRun:
    """As much of a run as a context reads."""

    def __init__(
        self,
        *,
        run_id: str = "run",
        thread_id: str = "thread",
        parent_run_id: str | None = None,
        resumed_from: str | None = None,
        request_id: str = "run",
        agent_name: str = "agent",
        phase: str = "init",
        step: int = 0,
        chunk_index: int = 0,
        context: Any = None,
        messages: Sequence[Any] | str = (),
        usage: Usage | None = None,
        tools: Sequence[Any] = (),
        provider: str = "scripted",
        model: Model | str = "scripted",
        current_message_id: str | None = None,
        accumulated_text: str = "",
        streaming: bool = False,
        state: dict[str, Any] | None = None,
        thread_state: dict[str, Any] | None = None,
        capabilities: dict[Any, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.run_id = run_id
        self.thread_id = thread_id
        self.parent_run_id = parent_run_id
        self.resumed_from = resumed_from
        self.request_id = request_id
        self.agent = SimpleNamespace(name=agent_name)
        self.phase = phase
        self.number = step
        self.pipe = SimpleNamespace(index=chunk_index, open_text=lambda: accumulated_text, release=lambda: None)
        self.context = context
        self.history = SimpleNamespace(messages=as_messages(messages))
        self.usage = usage or Usage()
        self.config = SimpleNamespace(tools=tuple(tools))
        self.model = None if isinstance(model, str) else model
        self.names = (provider, model) if isinstance(model, str) else (model.provider, model.name)
        self.message_id = current_message_id
        self.buffer = object() if streaming else None
        self.state = {} if state is None else state
        self.thread_state = {} if thread_state is None else thread_state
        self.capabilities = {} if capabilities is None else capabilities
        self.private: dict[int, Any] = {}
        self.clock = clock or FakeClock(auto=True)
        self.record = SimpleNamespace(current=SimpleNamespace(meta={}))
        self.emitted: list[tuple[str, Any]] = []
        self.files: list[FileEvent] = []
        self.aborted: str | None = None
        self.deferred: list[asyncio.Task[Any]] = []
        self.entered = AsyncExitStack()

    def abort(self, reason: str) -> None:
        self.aborted = reason

    def emit(self, name: str, value: Any) -> None:
        self.emitted.append((name, value))

    async def flush(self) -> None:
        await asyncio.sleep(0)

    def defer(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.deferred.append(asyncio.get_running_loop().create_task(coroutine))

    async def enter(self, manager: AbstractAsyncContextManager[Any]) -> Any:
        return await self.entered.enter_async_context(manager)


class HandContext(ToolContext[Any]):
    """A context without a run: what the hook does with it can be read off it."""

    _run: Any

    @property
    def emitted(self) -> list[tuple[str, Any]]:
        """The events that were emitted, as `(name, value)`."""
        return self._run.emitted  # type: ignore[no-any-return]  # of the run by hand

    @property
    def written(self) -> dict[str, Any]:
        """What `meta` wrote."""
        return self._run.record.current.meta  # type: ignore[no-any-return]  # as above

    @property
    def aborted(self) -> str | None:
        """The reason of `abort`, or None; nothing is cancelled here."""
        return self._run.aborted  # type: ignore[no-any-return]  # as above

    @property
    def files(self) -> list[FileEvent]:
        """The file events that were told."""
        return self._run.files  # type: ignore[no-any-return]  # as above

    async def tell_file(self, event: FileEvent) -> None:
        """Note *event* in `files`."""
        self._run.files.append(event)

    def hears_files(self) -> tuple[bool, bool]:
        """Say that everything is heard."""
        return True, True

    async def finish(self) -> None:
        """Wait for deferred work, then leave what was entered, as the end of a run does; failures are raised."""
        async with self._run.entered:
            await asyncio.gather(*self._run.deferred)

    async def generate(
        self,
        messages_or_request: str | Sequence[Any] | ModelRequest,
        *,
        model: Any = None,
        instructions: str | None = None,
        settings: ModelSettings | None = None,
        call_class: str = "summary",
    ) -> ModelResponse:
        """Call *model*, or else the model that `make_context` was given.

        Raises:
            ConfigurationError: there is none.
        """
        target = self._run.model if model is None or isinstance(model, str) else model
        if target is None:
            raise ConfigurationError(
                "this context has no model to generate with; give it one: make_context(model=ScriptedModel(...))"
            )
        if isinstance(messages_or_request, ModelRequest):
            request = messages_or_request
        else:
            request = ModelRequest(messages=as_messages(messages_or_request), call_class=call_class)
        name = model if isinstance(model, str) else target.name
        changes: dict[str, Any] = {"instructions": instructions, "settings": settings}
        told = {key: value for key, value in changes.items() if value is not None}
        request = request.replace(provider=target.provider, model=name, **told)
        return await fold(target.stream(request), request)


def make_context(*, tool_call: ToolCall | None = None, **fields: Any) -> HandContext:
    """Return a context for calling one hook by hand; *fields* are those of `RunContext`, all optional.

    *model* may also be a `Model`, which `ctx.generate` then calls. `capabilities` is a dict of what was provided,
    *clock* tells the time: a `FakeClock` by default, on which sleeps pass at once.
    """
    return HandContext(_HandRun(**fields), tool_call)  # type: ignore[arg-type]  # stands in for a run
