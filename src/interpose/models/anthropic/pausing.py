"""Turns that the vendor pauses, gone on with until they are whole."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing

from interpose.messages import AssistantMessage, ProviderPart
from interpose.models.base import Finish, MessageStart, ModelChunk, UsageUpdate, as_stream, fold, unfold
from interpose.models.language_model import GenerateNext, LanguageModelMiddleware, StreamNext
from interpose.request import ModelRequest, ModelResponse, Usage

PAUSE = "pause_turn"


class ContinuePausedTurns(LanguageModelMiddleware):
    """Makes one answer of a turn that the vendor pauses while its own tools are at work (`pause_turn`).

    What there is goes back and the vendor goes on, *max_times* at most; each time is a request that costs. Limits count
    the answer as one call, with the usage of all.

    Raises:
        ValueError: *max_times* is below 1.
    """

    def __init__(self, max_times: int = 10) -> None:
        if max_times < 1:
            raise ValueError(f"max_times must be 1 or more, got {max_times!r}")
        self._max_times = max_times

    async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext, /) -> ModelResponse:
        """Return the whole answer."""
        response = await call_next(request)
        for _ in range(self._max_times):
            if not any(_is_pause(part) for part in response.message.parts):
                break
            so_far = [chunk for chunk in unfold(response) if not _is_end(chunk)]
            more = await call_next(_with(request, await _message_of(so_far)))
            whole = await _message_of([*so_far, *[chunk for chunk in unfold(more) if chunk.__class__ is not Finish]])
            usage = response.usage + more.usage if response.usage and more.usage else more.usage or response.usage
            response = more.replace(message=whole.replace(id=response.message.id), usage=usage)
        return response

    async def wrap_stream(self, request: ModelRequest, call_next: StreamNext, /) -> AsyncIterator[ModelChunk]:
        """Yield the whole answer; of its usage, running totals of all requests."""
        said: list[ModelChunk] = []
        spent = Usage()
        for turn in range(self._max_times + 1):
            is_paused = False
            used = Usage()
            asked = _with(request, await _message_of(said)) if said else request
            async with aclosing(call_next(asked)) as chunks:
                async for chunk in chunks:
                    is_paused = is_paused or (_is_pause(chunk) and turn < self._max_times)
                    if isinstance(chunk, UsageUpdate | Finish) and chunk.usage is not None:
                        used = used.merge(chunk.usage)
                        yield UsageUpdate(spent + used)
                    if (is_paused and _is_end(chunk)) or chunk.__class__ is UsageUpdate:
                        continue
                    if chunk.__class__ is Finish:
                        yield Finish(chunk.reason)
                    elif chunk.__class__ is not MessageStart or not turn:
                        said.append(chunk)
                        yield chunk
            if not is_paused:
                return
            spent = spent + used


def _is_pause(part: object) -> bool:
    if not isinstance(part, ProviderPart) or not isinstance(part.data, Mapping):
        return False
    return part.provider == "anthropic" and part.data.get("stop_reason") == PAUSE


def _is_end(chunk: object) -> bool:
    return isinstance(chunk, Finish) or _is_pause(chunk)


def _with(request: ModelRequest, message: AssistantMessage) -> ModelRequest:
    return request.with_messages((*request.messages, message))


async def _message_of(chunks: Iterable[ModelChunk]) -> AssistantMessage:
    return (await fold(as_stream([*chunks, Finish()]))).message
