"""What makes the calls of a run durable: a layer, and the model that it puts in the place of another.

A call is looked up in the journal and made where it is not there; what it came to is recorded before anyone sees it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from interpose._engine.signals import Rank, Signal
from interpose.durable.journal import Journal, current, place, within
from interpose.durable.records import Errors, response_of, response_record, result_of, result_record
from interpose.errors import ConfigurationError
from interpose.messages import ToolCall, ToolResult
from interpose.middleware import Middleware
from interpose.models.base import Model, ModelChunk, ModelProfile, as_stream, fold, has_own_generate, unfold
from interpose.request import ModelRequest, ModelResponse
from interpose.tools import Tool

UNKNOWN = (
    "not executed again: the process was killed while this call ran, so it may have taken effect, or in part, or not "
    "at all. Find out what holds before you call it again."
)
OnUnknown = Callable[[Any, ToolCall], Any]


def _where(request: ModelRequest) -> str:
    return f"{place()}model:{request.number}:{request.call_class}"


class StepModel:
    """A model whose answers and errors are recorded, and not asked for again by a run that begins anew."""

    def __init__(self, model: Model, errors: Errors) -> None:
        self.real = model
        self.errors = errors

    @property
    def provider(self) -> str:
        """The provider of the real model."""
        return self.real.provider

    @property
    def name(self) -> str:
        """The name of the real model."""
        return self.real.name

    @property
    def profile(self) -> ModelProfile | None:
        """The profile of the real model."""
        return self.real.profile

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the chunks of the real model, or those of a recorded answer."""
        journal = current()
        return self.real.stream(request) if journal is None else self._stream(journal, request)

    async def _stream(self, journal: Journal, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        name = self._record_name(request)
        found = journal.take(name)
        if found is not None:
            for chunk in unfold(self._replay(found)):
                yield chunk
            return
        chunks: list[ModelChunk] = []
        journal.cut[_where(request)] = name
        try:
            async with _closing(self.real.stream(request)) as stream:
                async for chunk in stream:
                    chunks.append(chunk)
                    yield chunk
            response = await fold(as_stream(chunks), request)
        except Exception as error:
            journal.cut.pop(_where(request), None)
            await journal.add(name, self.errors.record(error))
            raise
        journal.cut.pop(_where(request), None)
        await journal.add(name, response_record(response))

    def _record_name(self, request: ModelRequest) -> str:
        return f"{_where(request)}:{self.provider}/{request.model}"

    def _replay(self, found: Any) -> ModelResponse:
        if "error" in found:
            raise self.errors.restore(found)
        return response_of(found)


class GeneratingStepModel(StepModel):
    """A `StepModel` of a model that has a `generate` of its own."""

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the real model's answer, or the recorded one."""
        journal = current()
        if journal is None:
            return await self.real.generate(request)
        name = self._record_name(request)
        found = journal.take(name)
        if found is not None:
            return self._replay(found)
        try:
            response = await self.real.generate(request)
        except Exception as error:
            await journal.add(name, self.errors.record(error))
            raise
        await journal.add(name, response_record(response))
        return response


def step_model(model: Any, errors: Errors) -> StepModel:
    """Return *model* as one whose calls are recorded."""
    if isinstance(model, StepModel):
        return model
    return (GeneratingStepModel if has_own_generate(model) else StepModel)(model, errors)


@asynccontextmanager
async def _closing(stream: AsyncIterator[ModelChunk]) -> AsyncIterator[AsyncIterator[ModelChunk]]:
    """Close *stream* in the end, where it can be closed."""
    try:
        yield aiter(stream)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


class DBOSSteps(Middleware[Any]):
    """Makes each model call and each tool call of a run a step of its workflow; stands innermost.

    A tool with effect "write" that was cut in the middle is not run again: *on_unknown* `(ctx, call)`, perhaps async,
    may find out what came of it and return that, else the model is told that nobody knows. A nested run is gone into
    again, and its own finished calls are not repeated.
    """

    name = "DBOSSteps"
    nested = True

    def __init__(self, errors: Errors | None = None, on_unknown: OnUnknown | None = None) -> None:
        self.errors = errors or Errors()
        self.on_unknown = on_unknown

    def setup(self, ctx: Any) -> None:
        """Check that the run is one of a workflow.

        Raises:
            ConfigurationError: it is not.
        """
        if current() is None:
            raise ConfigurationError(
                f"run {ctx.run_id!r} has DBOSSteps, but is no workflow: start it with DBOSAgents(...).run or .submit"
            )

    async def wrap_model_call(self, ctx: Any, request: ModelRequest, call_next: Any) -> ModelResponse:
        """Put a model that records in the place of the request's."""
        model = ctx._run.model_for(request)
        if not isinstance(model, StepModel):
            request = request.replace(target=step_model(model, self.errors))
        journal = _journal()
        where = _where(request)
        journal.cut.pop(where, None)
        response: ModelResponse = await call_next(request)
        cut = journal.cut.pop(where, None)
        if cut is not None:  # the run went on with what there was, such as after dead air
            await journal.add(cut, response_record(response))
        return response

    async def wrap_tool_call(self, ctx: Any, call: ToolCall, call_next: Any) -> ToolResult:
        """Return the recorded result, or run the tool and record it."""
        journal = _journal()
        name = f"{place()}tool:{ctx.step}:{_index(ctx, call)}"
        found, began = _taken(journal, name)
        if found is not None:
            if found.get("ran"):
                ctx._run.meter.count_tool_call()  # it was allowed then, so what this says is no matter
            if "error" in found:
                raise self.errors.restore(found)
            return result_of(found, call.id)
        if not call.idempotency_key:
            call = call.replace(idempotency_key=f"{journal.run_id}:{name}")
        tool = _tool(ctx, call.name)
        if began:
            ctx._run.meter.count_tool_call()
            result = await self._unknown(ctx, call)
        else:
            if tool is not None and tool.effect == "write" and tool.agent is None and call.error is None:
                await journal.add(name, {"began": True})
            result = await self._run(ctx, call, call_next, journal, name)
        await journal.add(name, result_record(result, ran=began or call_next.call.began))
        return result

    async def _run(self, ctx: Any, call: ToolCall, call_next: Any, journal: Journal, name: str) -> ToolResult:
        try:
            with within(name):
                return await call_next(call)  # type: ignore[no-any-return]  # the seam gives a ToolResult
        except Exception as error:
            await journal.add(name, self.errors.record(error) | {"ran": call_next.call.began})
            raise
        except Signal as signal:
            if signal.note.rank is Rank.PAUSE and ctx.parent_run_id is None:  # nothing ran: an approval stands inside
                await asyncio.shield(journal.add(name, {"began": False}))
            raise

    async def _unknown(self, ctx: Any, call: ToolCall) -> ToolResult:
        """Return what came of a call that was cut in the middle, as far as can be told."""
        if self.on_unknown is not None:
            told = self.on_unknown(ctx, call)
            if isinstance(told, Awaitable):
                told = await told
            if isinstance(told, ToolResult):
                return told.replace(tool_call_id=call.id)
            if told is not None:
                return call.answer(told)
        return call.refuse(UNKNOWN)


def _journal() -> Journal:
    journal = current()
    assert journal is not None, "checked in setup"
    return journal


def _taken(journal: Journal, name: str) -> tuple[Any, bool]:
    """Return the recorded outcome of the next try of a call, if there is one, and whether that try began."""
    began = False
    while (found := journal.take(name)) is not None:
        if "began" not in found:
            return found, began
        began = bool(found["began"])
    return None, began


def _index(ctx: Any, call: ToolCall) -> str:
    """Return the place of *call* among the calls of its message: ids may differ when a run begins anew."""
    for message in reversed(ctx.messages):
        for index, one in enumerate(getattr(message, "tool_calls", ())):
            if one.id == call.id:
                return str(index)
    return call.id


def _tool(ctx: Any, name: str) -> Tool | None:
    sent = ctx._run.sent
    tools: tuple[Tool, ...] = (*(sent.tools if sent is not None else ()), *ctx.tools)
    return next((one for one in tools if one.name == name), None)
