"""The call of a provider: its answer read, aloud where somebody watches, with its failures told apart."""

from __future__ import annotations

from asyncio import CancelledError, current_task
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interpose._engine.dead_air import heard, listening, silent_response
from interpose._engine.deadline import Deadline, Expired
from interpose._engine.free_ids import with_free_ids
from interpose._engine.narrator import Narrator
from interpose._engine.signals import Signal
from interpose._engine.tight import read_text
from interpose.errors import ModelTimeout, ProviderError
from interpose.messages import AssistantMessage, ProviderPart
from interpose.models.base import (
    Assembly,
    Finish,
    MessageStart,
    Model,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
    cut_off,
    response_of,
)
from interpose.request import ModelRequest, ModelResponse, Usage
from interpose.text import clean

if TYPE_CHECKING:
    from interpose._engine.model_call import ModelCall
    from interpose._engine.run import Run


async def provide(
    run: Run, request: ModelRequest, model: Model, call: ModelCall | None, told: list[Usage | None]
) -> ModelResponse:
    """Call *model*, under the time limit of model calls; what its client alone cancelled is an error of its.

    *told* gets the usage that a call told before it failed.
    """
    task = current_task()
    before = task.cancelling()  # type: ignore[union-attr]  # a coroutine of ours always runs in a task
    seconds = run.limits.model_timeout_s
    try:
        if seconds is not None:
            with Deadline(run.clock, seconds):
                return await _answer_or_silence(run, request, model, call, told)
        if (call is None or call.narrator is None) and run.generates(model):
            return _own(run, await model.generate(request), request, call)
        if run.limits.dead_air_s is not None:
            return await _answer_or_silence(run, request, model, call, told)
        return await _answer(run, request, model, call, told)
    except Expired as error:
        message = f"the model did not answer within model_timeout_s={seconds}"
        raise ModelTimeout(message, provider=request.provider, model=request.model) from error
    except CancelledError as error:
        if run.noted is not None or task.cancelling() > before:  # type: ignore[union-attr]  # as above
            raise
        message = "the provider's client raised CancelledError, though nobody cancelled the run"
        raise ProviderError(message, provider=request.provider, model=request.model) from error


async def _answer_or_silence(
    run: Run, request: ModelRequest, model: Model, call: ModelCall | None, told: list[Usage | None]
) -> ModelResponse:
    """Answer, and cut a model that is silent for too long: once more where nothing was said, else what there is."""
    for attempt in (0, 1):
        deadline = heard(run)
        if deadline is None:
            break
        try:
            with deadline:
                return await _answer(run, request, model, call, told, deadline)
        except Expired:
            if not deadline.fired:
                raise
        assembly = run.heard
        if deadline.restarted or attempt:  # what a guard holds back was said too
            if call is not None and call.narrator is not None:
                await call.narrator.finish()
            response = silent_response(assembly, request)
            if call is not None and call.narrator is not None:
                call.narrator.told = response.message
            return response
        await run.meter.end_model_call(await run.meter.begin_model_call(request, model), None, failed=True)
    return await _answer(run, request, model, call, told)


async def _answer(
    run: Run,
    request: ModelRequest,
    model: Model,
    call: ModelCall | None,
    told: list[Usage | None],
    deadline: Deadline | None = None,
) -> ModelResponse:
    narrator = call.narrator if call is not None else None
    if narrator is None and run.generates(model):
        return _own(run, await model.generate(request), request, call)
    assembly = Assembly(AssistantMessage().id, run.history.call_ids) if narrator is None else narrator.begin()
    if call is not None and narrator is None and call.attempts == 1:
        assembly.message_id = run.message_id
    stream = aiter(model.stream(request))
    if deadline is not None:
        run.heard = assembly
        stream = listening(stream, deadline)
    run.partial_assembly = assembly if call is not None else run.partial_assembly
    try:
        if narrator is None or call is None:
            await read_quietly(stream, assembly, request, run)
        else:
            await read_aloud(stream, narrator, assembly, request, call)
    finally:
        if assembly.usage is not None:
            told.append(assembly.usage)
    if assembly.finish_reason is None:
        raise cut_off(request)
    response = response_of(assembly, request)
    if narrator is not None:
        narrator.told = response.message
    if call is not None and assembly.calls:
        call.own_ids = {*call.own_ids, *[one.id for one in assembly.calls]}
    return response


def _own(run: Run, response: Any, request: ModelRequest, call: ModelCall | None) -> ModelResponse:
    """Return a response of a model's own `generate` with clean text, ids that are free, and names filled in."""
    if not isinstance(response, ModelResponse):
        got = type(response).__name__
        raise ProviderError(f"generate() returned {got}, not a ModelResponse", provider=request.provider)
    message = response.message
    if message.tool_calls:
        message = with_free_ids(message, run.history.call_ids, ())
        if call is not None:
            call.own_ids = {*call.own_ids, *[one.id for one in message.tool_calls]}
    if call is not None and call.attempts == 1 and message.id != run.told_id:
        if run.told_id is None and message.id not in run.history.said:
            run.told_id = message.id  # nobody was told another
        else:
            said = (message.text, message.reasoning, message.tool_calls, message.parts)
            message = AssistantMessage(*said, run.message_id, message.metadata)
    if message.parts and any(part.__class__ is ProviderPart and not part.provider for part in message.parts):
        message = message.replace(parts=tuple([_owned(part, request.provider) for part in message.parts]))
    if message is response.message and response.provider:
        return response
    names = (response.model or request.model, response.provider or request.provider)
    return ModelResponse(message, response.finish_reason, response.usage, *names)


@asynccontextmanager
async def _closing(stream: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Close *stream* in the end, if it can be closed, as a generator can."""
    try:
        yield
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def read_quietly(stream: AsyncIterator[ModelChunk], assembly: Assembly, request: ModelRequest, run: Run) -> None:
    """Read a stream that nobody watches."""
    pieces: list[str] | None = None
    async with _closing(stream):
        async for chunk in stream:
            if chunk.__class__ is TextDelta:
                if pieces is None:
                    pieces = assembly.text_pieces()
                pieces.append(chunk.text)
                continue
            if chunk.__class__ is ToolCallDelta:
                assembly.call(chunk)
            elif chunk.__class__ is ReasoningDelta:
                assembly.reasoning(chunk.text, chunk.signature)
            else:
                take_other(chunk, assembly, request)
            pieces = None
            if run.noted is not None:
                raise Signal(run.noted)
    clean_pieces(assembly)


def _owned(part: Any, provider: str) -> Any:
    """Return *part* with the name of its provider, where it is a provider's own and says none."""
    return part.replace(provider=provider) if part.__class__ is ProviderPart and not part.provider else part


def clean_pieces(assembly: Assembly) -> None:
    """Join the halves of characters that came in two pieces of text or reasoning."""
    for item in assembly.items:
        pieces = item if item.__class__ is list else getattr(item, "pieces", None)
        if pieces:
            joined = "".join(pieces)
            pieces[:] = [clean(joined)]


def take_other(chunk: Any, assembly: Assembly, request: ModelRequest) -> None:
    """Take a chunk that has no event."""
    match chunk:
        case UsageUpdate():
            assembly.report(chunk.usage)
        case Finish():
            assembly.finish(chunk)
        case MessageStart():
            assembly.start(chunk, request)
        case ProviderPart():
            assembly.items.append(_owned(chunk, request.provider))
        case _:
            got = type(chunk).__name__
            raise ProviderError(f"the model's stream gave a {got}, which is no chunk", provider=request.provider)


async def read_aloud(
    stream: AsyncIterator[ModelChunk], narrator: Narrator, assembly: Assembly, request: ModelRequest, call: ModelCall
) -> None:
    """Read a stream and tell it as events; text has a tight loop of its own."""
    run, pipe = call.run, call.run.pipe
    pipe.narrator = narrator
    async with _closing(stream):
        while True:
            chunk = await read_text(stream, narrator, call)
            if chunk is None:
                break
            if run.noted is not None:
                raise Signal(run.noted)
            if call.overlap:
                _take_unseen(chunk, assembly, request)
            elif chunk.__class__ is TextDelta:
                await narrator.text(chunk.text)
            elif chunk.__class__ is ToolCallDelta:
                await narrator.call(assembly.call(chunk), chunk.args)
            elif chunk.__class__ is ReasoningDelta:
                await narrator.reasoning(chunk.text, chunk.signature)
            else:
                if chunk.__class__ is ProviderPart:
                    await narrator.flush_message()  # what follows it is another piece of the message
                take_other(chunk, assembly, request)
            if pipe.emitted:
                await pipe.flush()
    if assembly.finish_reason is not None and not call.overlap:
        await narrator.finish()


def _take_unseen(chunk: Any, assembly: Assembly, request: ModelRequest) -> None:
    """Take a chunk of an attempt that overlaps with another: neither is shown."""
    if chunk.__class__ is TextDelta:
        assembly.text_pieces().append(chunk.text)
    elif chunk.__class__ is ToolCallDelta:
        assembly.call(chunk)
    elif chunk.__class__ is ReasoningDelta:
        assembly.reasoning(chunk.text, chunk.signature)
    else:
        take_other(chunk, assembly, request)
