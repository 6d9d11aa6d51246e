"""Ready-made layers for `wrap_model`: default settings, reasoning in tags, streams of models that do not, a log."""

import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing

from interpose.models.base import (
    Finish,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    UsageUpdate,
    as_stream,
    fold,
    unfold,
)
from interpose.models.language_model import GenerateNext, LanguageModelMiddleware, StreamNext
from interpose.request import ModelRequest, ModelResponse, ModelSettings, Usage

__all__ = ["DefaultSettings", "ExtractReasoning", "LogModelCalls", "SimulateStreaming"]


class DefaultSettings(LanguageModelMiddleware):
    """Fills in what a request leaves open; what it says itself holds, also among the provider's options."""

    def __init__(self, settings: ModelSettings) -> None:
        if not isinstance(settings, ModelSettings):
            raise TypeError(f"DefaultSettings takes a ModelSettings, got {settings!r:.80}")
        self._settings = settings

    def transform_params(self, request: ModelRequest, /) -> ModelRequest:
        """Return the request with the settings filled in."""
        given, ours = request.settings, self._settings
        options = {**ours.provider_options, **given.provider_options}
        told = {name: getattr(given, name) for name in given.__struct_fields__ if getattr(given, name) is not None}
        return request.replace(settings=ours.replace(**{**told, "provider_options": options}))


class ExtractReasoning(LanguageModelMiddleware):
    """Makes reasoning of text between `<think>` and `</think>`, however the tags are split over chunks.

    *tag* is another name than `think`; with *starts_inside* the answer begins with reasoning, as that of models whose
    template has opened the tag already. White space right behind a tag goes. Reasoning that is never closed goes on to
    the end.
    """

    def __init__(self, tag: str = "think", *, starts_inside: bool = False) -> None:
        if not tag or not tag.isprintable() or set(tag) & set("<>/ "):
            raise ValueError(f"tag is a name without brackets, such as 'think', got {tag!r}")
        self._tag = tag
        self._starts_inside = starts_inside

    async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext, /) -> ModelResponse:
        """Return the answer with its reasoning apart."""
        response = await call_next(request)
        if f"{self._tag}>" not in response.text and not self._starts_inside:
            return response
        made = await fold(as_stream(self._parted(unfold(response))), request)
        message = made.message.replace(id=response.message.id, metadata=response.message.metadata)
        return response.replace(message=message)

    async def wrap_stream(self, request: ModelRequest, call_next: StreamNext, /) -> AsyncIterator[ModelChunk]:
        """Yield the answer with its reasoning apart; held back is only what may be the beginning of a tag."""
        parts = _Tagged(self._tag, self._starts_inside)
        async with aclosing(call_next(request)) as chunks:
            async for chunk in chunks:
                for made in parts.take(chunk):
                    yield made
        for made in parts.rest():
            yield made

    def _parted(self, chunks: Iterable[ModelChunk]) -> Iterator[ModelChunk]:
        parts = _Tagged(self._tag, self._starts_inside)
        for chunk in chunks:
            yield from parts.take(chunk)


class _Tagged:
    """Text on its way, told apart by tags."""

    def __init__(self, tag: str, inside: bool) -> None:
        self._tags = {False: f"<{tag}>", True: f"</{tag}>"}
        self._inside = inside
        self._after_tag = inside
        self._held = ""

    def take(self, chunk: ModelChunk) -> Iterator[ModelChunk]:
        """Yield what is certain with *chunk*; what is no text goes behind all text before it."""
        if isinstance(chunk, TextDelta):
            yield from self._text(chunk.text)
            return
        if not isinstance(chunk, UsageUpdate):
            yield from self.rest()
        yield chunk

    def rest(self) -> Iterator[ModelChunk]:
        """Yield what was held back and turned out to be no tag."""
        held, self._held = self._held, ""
        yield from self._say(held)

    def _text(self, text: str) -> Iterator[ModelChunk]:
        text = self._held + text
        while (place := text.find(tag := self._tags[self._inside])) >= 0:
            yield from self._say(text[:place])
            text = text[place + len(tag) :]
            self._inside, self._after_tag = not self._inside, True
        sure = len(text) - _length_of_beginning(tag, text)
        self._held = text[sure:]
        yield from self._say(text[:sure])

    def _say(self, text: str) -> Iterator[ModelChunk]:
        if self._after_tag:
            text = text.lstrip()
        if text:
            self._after_tag = False
            yield ReasoningDelta(text) if self._inside else TextDelta(text)


def _length_of_beginning(tag: str, text: str) -> int:
    """Return how long the beginning of *tag* is with which *text* ends."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)


class SimulateStreaming(LanguageModelMiddleware):
    """Asks for the whole answer and streams it in one go, for servers that cannot stream, or not with tools."""

    async def wrap_stream(self, request: ModelRequest, call_next: StreamNext, /) -> AsyncIterator[ModelChunk]:
        """Yield the chunks of the whole answer."""
        for chunk in unfold(await call_next.generate(request)):
            yield chunk


class LogModelCalls(LanguageModelMiddleware):
    """Logs each call when it is over: model, messages, time, how it ended, tokens; texts only with *content*.

    A call that fails is logged as a warning with its error, one that its reader left as such.
    """

    def __init__(
        self, logger: logging.Logger | None = None, *, level: int = logging.INFO, content: bool = False
    ) -> None:
        self._logger = logger or logging.getLogger("interpose.models")
        self._level = level
        self._content = content

    async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext, /) -> ModelResponse:
        """Log the call of a whole answer."""
        started = time.perf_counter()
        try:
            response = await call_next(request)
        except BaseException as error:
            self._failed(request, started, error)
            raise
        self._ended(request, started, response.finish_reason, response.usage, response.text)
        return response

    async def wrap_stream(self, request: ModelRequest, call_next: StreamNext, /) -> AsyncIterator[ModelChunk]:
        """Log the call of a streamed answer."""
        started = time.perf_counter()
        how, usage = "cut off", Usage()
        said: list[str] = []
        try:
            async with aclosing(call_next(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Finish | UsageUpdate):
                        usage = usage.merge(chunk.usage or Usage())
                        how = chunk.reason if isinstance(chunk, Finish) else how
                    elif self._content and isinstance(chunk, TextDelta):
                        said.append(chunk.text)
                    yield chunk
        except BaseException as error:
            self._failed(request, started, error)
            raise
        self._ended(request, started, how, usage, "".join(said))

    def _ended(self, request: ModelRequest, started: float, how: str, usage: Usage | None, text: str) -> None:
        counted = usage or Usage()
        tokens = f"{counted.input_tokens} in, {counted.output_tokens} out" if counted != Usage() else "unknown"
        said = f"; said: {text}" if self._content else ""
        self._logger.log(
            self._level, "%s after %d ms: %s; tokens: %s%s", _named(request), _ms_since(started), how, tokens, said
        )

    def _failed(self, request: ModelRequest, started: float, error: BaseException) -> None:
        if isinstance(error, Exception):
            level, what = logging.WARNING, f"{type(error).__name__}: {error}"
        else:
            level, what = self._level, "left early"
        self._logger.log(level, "%s after %d ms: %s", _named(request), _ms_since(started), what)


def _named(request: ModelRequest) -> str:
    return f"{request.provider}:{request.model}, {len(request.messages)} messages"


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
