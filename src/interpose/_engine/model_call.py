"""The model seam: one model call, from the layers to the provider and back."""

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interpose._engine.chain import Call, Layer, Next, check_entry, rejected, wrong
from interpose._engine.deadline import Deadline
from interpose._engine.legality import problem
from interpose._engine.narrator import Narrator
from interpose._engine.signals import Signal
from interpose._engine.tight import read_text
from interpose.errors import HistoryError, ModelTimeout, ProviderError
from interpose.ids import create_id
from interpose.messages import AssistantMessage, ProviderPart, ToolCall, as_messages
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
from interpose.outcomes import Abort, End, Pause, Retry
from interpose.request import ModelRequest, ModelResponse, ModelSettings, Usage
from interpose.text import clean

if TYPE_CHECKING:
    from interpose._engine.run import Run

MODEL_SEAM = (
    ("record", "a call that is not recorded is worse than no record"),
    ("middleware", "the user's layers, first listed outermost"),
    ("pre-model hooks", "the lighter seam, in registration order; one layer, innermost"),
    ("count", "below the layers: an answer from a cache costs nothing"),
    ("guard", "dead air and timeouts cut the provider's call alone"),
    ("chunk pipeline", "every event that the call produces goes through on_chunk here"),
    ("language-model", "transform_params, wrap_generate and wrap_stream around one provider"),
    ("provider", "the model itself"),
    ("post-model hooks", "on the way back, in registration order; a retry goes back to the pre-model hooks"),
)
"""The stations of a model call, outermost first, with the reason why each stands where it does."""

STEERS: dict[str, tuple[type, ...]] = {
    "before_model_call": (End, Pause, Abort),
    "wrap_model_call": (End, Pause, Abort),
    "after_model_call": (Retry, End, Pause, Abort),
}


class ModelCall(Call):
    """The model call of one step, with all its attempts."""

    seam = "model_call"
    takes = ModelRequest
    gives = ModelResponse
    steers = STEERS

    __slots__ = ("attempts", "made_request", "narrator", "overlap", "own_ids", "reached", "response", "running", "usage")

    def __init__(self, run: "Run", message_id: str) -> None:
        super().__init__(run, run.ctx, run.plan.model_layers, call_model)
        self.attempts = 0
        self.running = 0
        self.overlap = False
        self.usage: Usage | None = None
        self.reached: ModelRequest | None = None
        self.response: ModelResponse | None = None
        self.made_request: ModelRequest | None = None
        self.narrator = Narrator(run.pipe, message_id, run.history.call_ids) if run.pipe.active else None
        if self.narrator is not None and run.announces_output:
            self.narrator.announces = True
        self.own_ids: set[str] = set()

    def made(self, layer: Layer, result: Any) -> Any:
        """Mark a response that a layer made up with the name of its maker."""
        self.answered = True
        index = self.layers.index(layer)
        self.made_request = self.values[index]
        return result if result.made_by is not None else result.replace(made_by=layer.name)

    def retry_value(self, value: ModelRequest, result: ModelResponse, feedback: str) -> ModelRequest:
        """Return the request of another attempt, with what was rejected and why."""
        return value.replace(messages=rejected(value.messages, result.text, feedback), attempt=self.attempts)

    def lift(self, layer: Layer, hook: str, value: Any) -> Any:
        """Refuse: a response is a `ModelResponse`."""
        raise wrong(layer, hook, value, "a ModelResponse (request.answer(text) makes one), End, Pause, Abort")


async def call_model(call: Any, index: int, request: ModelRequest, via: Next | None) -> ModelResponse:
    """Call the provider: the core of the seam."""
    task = None if via is None or (via.owner is not None and via.owner.cr_running) else via.enter_task()
    run: Run = call.run
    if run.noted is not None or request.__class__ is not ModelRequest:
        check_entry(call, index, request)
    call.values[index] = request
    call.running += 1
    told: list[Usage | None] = []
    reservation = None
    counted = False
    try:
        if call.attempts > 0 and call.narrator is not None:
            await begin_again(call)
        call.attempts += 1
        request = admit(call, request)
        model = run.model_for(request)
        reservation = await run.meter.begin_model_call(request, model)
        counted = True
        run.names = (request.provider, request.model)
        call.reached = request
        response = await provide(run, request, model, call, told, task or call.task)
    except BaseException:
        if counted:
            _charge(call, told[0] if told else None, reservation, failed=not told)
        raise
    finally:
        call.running -= 1
        if task is not None:
            via.tasks.discard(task)  # type: ignore[union-attr]  # where there is a task, both are there
    if response.usage is not None or reservation is not None:
        _charge(call, response.usage, reservation, failed=False)
    call.answered = True
    call.response = response
    if run.noted is not None:
        raise Signal(run.noted)
    return response


async def begin_again(call: ModelCall) -> None:
    """Take back what an earlier attempt has shown; while two overlap, neither is shown."""
    if call.running > 1:
        call.overlap = True
    await call.narrator.supersede()  # type: ignore[union-attr]  # called where there is one


def _charge(call: ModelCall, usage: Usage | None, reservation: Any, *, failed: bool) -> None:
    run = call.run
    run.meter.end_model_call(reservation, usage, failed=failed)
    if usage is not None:
        call.usage = usage if call.usage is None else call.usage + usage
        run.add_usage(usage)


def admit(call: ModelCall, request: ModelRequest) -> ModelRequest:
    """Return *request* as it may be sent.

    Raises:
        HistoryError: its messages would be refused by a provider; a middleware that broke them is named.
    """
    if not request.tools and (request.settings.tool_choice or request.settings.parallel_tool_calls is not None):
        request = request.replace(settings=request.settings.replace(tool_choice=None, parallel_tool_calls=None))
    if request.messages is not call.run.history.messages:
        what = problem(request.messages)
        if what is not None:
            raise HistoryError(_blame(call, what))
    return request


def _blame(call: ModelCall, what: str) -> str:
    previous = call.run.checked_config(call)
    if previous is not None:
        return f"{previous} left a history that no provider takes: {what}"
    for index, value in enumerate(call.values):
        if value is not None and index and problem(value.messages) is not None:
            return f"{call.layers[index - 1].name} left a history that no provider takes: {what}"
    return f"the messages are a history that no provider takes: {what}"


async def provide(
    run: "Run", request: ModelRequest, model: Model, call: ModelCall | None, told: list[Usage | None], task: Any
) -> ModelResponse:
    """Call *model*, under the time limit of model calls; what its client alone cancelled is an error of its.

    *told* gets the usage that a call told before it failed.
    """
    before = task.cancelling()
    seconds = run.limits.model_timeout_s
    try:
        if seconds is not None:
            with Deadline(run.clock, seconds):
                return await _answer(run, request, model, call, told)
        if (call is None or call.narrator is None) and run.generates(model):
            return _own(run, await model.generate(request), request, call)
        return await _answer(run, request, model, call, told)
    except TimeoutError as error:
        if seconds is None or not isinstance(error.__cause__, CancelledError):
            raise
        message = f"the model did not answer within model_timeout_s={seconds}"
        raise ModelTimeout(message, provider=request.provider, model=request.model) from error
    except CancelledError as error:
        if run.noted is not None or task.cancelling() > before:
            raise
        message = "the provider's client raised CancelledError, though nobody cancelled the run"
        raise ProviderError(message, provider=request.provider, model=request.model) from error


async def _answer(
    run: "Run", request: ModelRequest, model: Model, call: ModelCall | None, told: list[Usage | None]
) -> ModelResponse:
    narrator = call.narrator if call is not None else None
    if narrator is None and run.generates(model):
        return _own(run, await model.generate(request), request, call)
    assembly = Assembly(AssistantMessage().id, run.history.call_ids) if narrator is None else narrator.begin()
    if call is not None and narrator is None and call.attempts == 1:
        assembly.message_id = run.message_id or assembly.message_id
    stream = aiter(model.stream(request))
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
        call.own_ids.update([one.id for one in assembly.calls])
    return response


def _own(run: "Run", response: Any, request: ModelRequest, call: ModelCall | None) -> ModelResponse:
    """Return a response of a model's own `generate` with clean text, ids that are free, and names filled in."""
    if not isinstance(response, ModelResponse):
        got = type(response).__name__
        raise ProviderError(f"generate() returned {got}, not a ModelResponse", provider=request.provider)
    message = response.message
    if not message.text.isascii():
        text = clean(message.text)
        if text is not message.text:
            message = message.replace(text=text)
    if message.tool_calls:
        message = with_free_ids(message, run.history.call_ids, ())
        if call is not None:
            call.own_ids.update([one.id for one in message.tool_calls])
    if call is not None and call.attempts == 1 and run.message_id and message.id != run.message_id:
        said = (message.text, message.reasoning, message.tool_calls, message.parts)
        message = AssistantMessage(*said, run.message_id, message.metadata)
    if message is response.message and response.provider:
        return response
    names = (response.model or request.model, response.provider or request.provider)
    return ModelResponse(message, response.finish_reason, response.usage, *names)


def with_free_ids(message: AssistantMessage, taken: set[str], own: Any) -> AssistantMessage:
    """Return *message* with every call id that is empty, doubled or *taken* (but for its *own*) replaced."""
    calls: list[ToolCall] = []
    here: set[str] = set()
    for call in message.tool_calls:
        if not call.id or call.id in here or (call.id in taken and call.id not in own):
            call = call.replace(id=create_id("call"))
        here.add(call.id)
        calls.append(call)
    taken |= here
    if all(new is old for new, old in zip(calls, message.tool_calls, strict=True)):
        return message
    return message.replace(tool_calls=tuple(calls))


@asynccontextmanager
async def _closing(stream: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Close *stream* in the end, if it can be closed, as a generator can."""
    try:
        yield
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def read_quietly(
    stream: AsyncIterator[ModelChunk], assembly: Assembly, request: ModelRequest, run: "Run"
) -> None:
    """Read a stream that nobody watches."""
    pieces: list[str] | None = None
    async with _closing(stream):
        async for chunk in stream:
            if chunk.__class__ is TextDelta:
                if pieces is None:
                    pieces = assembly.text_pieces()
                pieces.append(chunk.text)  # type: ignore[union-attr]  # a TextDelta
                continue
            if chunk.__class__ is ToolCallDelta:
                assembly.call(chunk)  # type: ignore[arg-type]  # as it says
            elif chunk.__class__ is ReasoningDelta:
                assembly.reasoning(chunk.text, chunk.signature)  # type: ignore[union-attr]  # as it says
            else:
                take_other(chunk, assembly, request)
            pieces = None
            if run.noted is not None:
                raise Signal(run.noted)
    clean_pieces(assembly)


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
            part = chunk if chunk.provider else chunk.replace(provider=request.provider)
            assembly.items.append(part)
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


async def settle(call: ModelCall, response: ModelResponse) -> ModelResponse:
    """Return the response that the seam gave, told to the reader if it was not yet, with ids that are free."""
    run, narrator = call.run, call.narrator
    if narrator is None and response is call.response:
        return response
    message = response.message
    own = call.own_ids if response.made_by is None else ()
    if narrator is None:
        if message.tool_calls:
            message = with_free_ids(message, run.history.call_ids, own)
        if response.made_by is not None and message.id != run.message_id:
            message = message.replace(id=run.message_id)
        return response if message is response.message else response.replace(message=message)
    told = narrator.told
    if told is not None and not call.overlap and message is told:
        return response
    message = with_free_ids(message, run.history.call_ids, own) if message.tool_calls else message
    if told is not None and not call.overlap:
        if _same(message, told):
            return response.replace(message=message.replace(id=told.id))
        if message.text == told.text and message.reasoning == told.reasoning:
            return response.replace(message=await _other_calls(narrator, message, told))
    await narrator.supersede()
    pipe_narrator, run.pipe.narrator = run.pipe.narrator, narrator
    message = await narrator.narrate(message)
    run.pipe.narrator = pipe_narrator or narrator
    return response.replace(message=message)


def _same(one: AssistantMessage, other: AssistantMessage) -> bool:
    return (
        one.text == other.text
        and one.reasoning == other.reasoning
        and [(c.id, c.name, c.args, c.raw) for c in one.tool_calls]
        == [(c.id, c.name, c.args, c.raw) for c in other.tool_calls]
    )


async def _other_calls(narrator: Narrator, message: AssistantMessage, told: AssistantMessage) -> AssistantMessage:
    """Supersede the calls alone, where a layer changed nothing else, and tell the new ones under new ids."""
    old = {c.id: (c.name, c.args, c.raw) for c in told.tool_calls}
    await narrator.supersede(calls_only=True)
    calls = []
    for call in message.tool_calls:
        fresh = call.replace(id=create_id("call")) if call.id in old else call
        narrator.taken.add(fresh.id)
        await narrator.whole_call(fresh)
        calls.append(fresh)
    await narrator.finish()
    return message.replace(tool_calls=tuple(calls), id=told.id)


async def generate(
    run: "Run", given: Any, model: Any, instructions: str | None, settings: ModelSettings | None, call_class: str
) -> ModelResponse:
    """Make a model call of a middleware's own: counted and recorded, never shown, passed through no layer."""
    if isinstance(given, ModelRequest):
        request = given.replace(call_class=call_class)
    else:
        request = ModelRequest(
            provider=run.agent.model.provider,
            model=run.agent.model.name,
            messages=as_messages(given),
            settings=settings or ModelSettings(),
            call_class=call_class,
            number=run.number,
        )
    if model is not None:
        request = request.with_model(model)
    if instructions is not None:
        request = request.with_instructions(instructions)
    if settings is not None:
        request = request.replace(settings=settings)
    what = problem(request.messages)
    if what is not None:
        raise HistoryError(f"ctx.generate was given a history that no provider takes: {what}")
    if run.noted is not None:
        raise Signal(run.noted)
    target = run.model_for(request)
    reservation = await run.meter.begin_model_call(request, target)
    node = run.record.open("model", request.model, request) if run.record is not None else None
    told: list[Usage | None] = []
    try:
        response = await provide(run, request, target, None, told, asyncio.current_task())
    except BaseException as error:
        spent = told[0] if told else None
        run.meter.end_model_call(reservation, spent, failed=spent is None)
        if spent is not None:
            run.add_usage(spent)
        if node is not None:
            await run.record.close(node, error=error)  # type: ignore[union-attr]  # it is there
        raise
    run.meter.end_model_call(reservation, response.usage)
    if response.usage is not None:
        run.add_usage(response.usage)
    if node is not None:
        await run.record.close(node, content=response)  # type: ignore[union-attr]  # as above
    return response
