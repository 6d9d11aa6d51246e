"""Middleware of one model: layers round its calls that work with an agent and without."""

import difflib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, get_args

from interpose.errors import ConfigurationError, HookError
from interpose.models.base import Model, ModelChunk, fold, has_own_generate, unfold
from interpose.request import ModelRequest, ModelResponse

HOOKS = ("transform_params", "wrap_generate", "wrap_stream")
CHUNKS: frozenset[type] = frozenset(get_args(ModelChunk))


class GenerateNext:
    """What `wrap_generate` gets as `call_next`: calls the rest, as often as one likes."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    async def __call__(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer of the layers inside and the model."""
        return await _generate(self._inner, request)


class StreamNext:
    """What `wrap_stream` gets as `call_next`: calls the rest, as often as one likes.

    Streams that were begun and not read to the end are closed when the layer is left.
    """

    def __init__(self, inner: Model) -> None:
        self._inner = inner
        self._begun: list[AsyncGenerator[ModelChunk, None]] = []

    def __call__(self, request: ModelRequest, /) -> AsyncGenerator[ModelChunk, None]:
        """Return the answer of the layers inside and the model as it comes."""
        chunks = _stream(self._inner, request)
        self._begun.append(chunks)
        return chunks

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer, asked for as a whole; it passes the `wrap_generate` of the layers inside."""
        return await _generate(self._inner, request)

    async def aclose(self) -> None:
        """Close the streams that were begun, the last first."""
        while self._begun:
            await self._begun.pop().aclose()


class LanguageModelMiddleware:
    """A layer round one model, for `wrap_model`; each hook may be left out, and may be `def` or `async def`.

    Whole answers pass `wrap_generate`, streamed ones `wrap_stream`; which of them a run asks for depends on the model
    and on whether somebody watches, so a layer that must see every call has both. An object serves many calls at once.
    """

    name: str | None = None
    """What errors call it; the name of the class, if None."""

    def transform_params(self, request: ModelRequest, /) -> ModelRequest | Awaitable[ModelRequest | None] | None:
        """Return the request to send instead; nothing leaves it as it is. Comes before the own `wrap_*`."""

    def wrap_generate(
        self, request: ModelRequest, call_next: GenerateNext, /
    ) -> ModelResponse | Awaitable[ModelResponse]:
        """Return the answer, as `await call_next(request)` gives it, or another."""
        return call_next(request)

    def wrap_stream(
        self, request: ModelRequest, call_next: StreamNext, /
    ) -> AsyncIterator[ModelChunk] | Awaitable[AsyncIterator[ModelChunk]]:
        """Return the chunks, as `call_next(request)` gives them, or others; mostly an async generator."""
        return call_next(request)


class WrappedModel(Model):
    """A model within one layer; it streams only. `inner` is the model inside."""

    def __init__(self, inner: Model, middleware: LanguageModelMiddleware, hooks: dict[str, Callable[..., Any]]) -> None:
        self.inner = inner
        self.provider = inner.provider
        self.name = inner.name
        self.profile = getattr(inner, "profile", None)
        self._middleware = middleware
        self._transform = hooks.get("transform_params")
        self._wrap_generate = hooks.get("wrap_generate")
        self._wrap_stream = hooks.get("wrap_stream")

    def __repr__(self) -> str:
        return f"{_name(self._middleware)}({self.inner!r})"

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Return the answer as it comes. Leaving early closes every layer and the model.

        Raises:
            HookError: the layer gave what it must not give.
        """
        if self._transform is None and self._wrap_stream is None:
            return _stream(self.inner, request)
        return self._layered(request)

    async def _layered(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        if self._transform is not None:
            request = await self._transformed(request)
        call_next = StreamNext(self.inner)
        chunks: AsyncIterator[ModelChunk] | None = None
        try:
            if self._wrap_stream is None:
                chunks = call_next(request)
                async for chunk in chunks:
                    yield chunk
                return
            chunks = await self._wrapped(request, call_next)
            async for chunk in chunks:
                if chunk.__class__ not in CHUNKS:
                    raise self._wrong("wrap_stream", chunk, "chunks")
                yield chunk
        finally:
            try:
                await _close(chunks)
            finally:
                await call_next.aclose()

    async def _wrapped(self, request: ModelRequest, call_next: StreamNext) -> AsyncIterator[ModelChunk]:
        chunks = self._wrap_stream(request, call_next)  # type: ignore[misc]  # asked before
        if isawaitable(chunks):
            chunks = await chunks
        if not hasattr(chunks, "__anext__"):
            if not hasattr(chunks, "__aiter__"):
                raise self._wrong("wrap_stream", chunks, "an async iterator of chunks, as call_next(request) is one")
            chunks = aiter(chunks)
        return chunks  # type: ignore[no-any-return]  # an async iterator

    async def _transformed(self, request: ModelRequest) -> ModelRequest:
        changed = self._transform(request)  # type: ignore[misc]  # asked before
        if isawaitable(changed):
            changed = await changed
        if changed is None:
            return request
        if not isinstance(changed, ModelRequest):
            raise self._wrong("transform_params", changed, "a ModelRequest or nothing")
        if changed.target is not request.target:
            raise HookError(
                f"{_name(self._middleware)}.transform_params chose another model, and is a layer of {self.name!r} "
                "alone; choose models in a layer of the agent, such as before_model_call"
            )
        return _without_tool_settings(changed)

    def _wrong(self, hook: str, got: Any, expected: str) -> HookError:
        forgotten = "; was `return` forgotten?" if got is None else ""
        return HookError(
            f"{_name(self._middleware)}.{hook} gave {type(got).__name__} ({got!r:.80}); expected {expected}{forgotten}"
        )


class WholeModel(WrappedModel):
    """A model within one layer, that is asked for whole answers too."""

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer.

        Raises:
            HookError: the layer gave what it must not give.
        """
        if self._transform is not None:
            request = await self._transformed(request)
        if self._wrap_generate is None:
            return await _generate(self.inner, request)
        response = self._wrap_generate(request, GenerateNext(self.inner))
        if isawaitable(response):
            response = await response
        if not isinstance(response, ModelResponse):
            raise self._wrong("wrap_generate", response, "a ModelResponse")
        return response


def wrap_model(model: "Model | str", *middleware: LanguageModelMiddleware) -> Model:
    """Return *model*, or the one that "provider:model" names, within *middleware*; the first listed is outermost.

    What comes back is a model with the same name, provider and profile. It has a `generate` of its own if *model* has
    one or a layer wraps it. Where a run changes to another model, the layers stay behind with this one.

    Raises:
        ConfigurationError: *model* is no model, or one of *middleware* has no hook or one that nobody calls.
    """
    if isinstance(model, str):
        from interpose.models import resolve

        model = resolve(model)
    given: Any = model
    if not callable(getattr(given, "stream", None)) and not callable(getattr(given, "generate", None)):
        raise ConfigurationError(f"wrap_model takes a Model or 'provider:model' first, got {model!r:.80}")
    for one in reversed(middleware):
        hooks = _hooks_of(one)
        is_whole = has_own_generate(model) or "wrap_generate" in hooks
        model = (WholeModel if is_whole else WrappedModel)(model, one, hooks)
    return model


def _hooks_of(middleware: LanguageModelMiddleware) -> dict[str, Callable[..., Any]]:
    """Return the hooks that *middleware* has, bound."""
    kind = type(middleware)
    given: Any = middleware
    if isinstance(given, type) or not isinstance(given, LanguageModelMiddleware):
        hint = "write an instance, with parentheses" if isinstance(given, type) else "it goes round one model"
        raise ConfigurationError(f"wrap_model takes LanguageModelMiddleware objects, got {middleware!r:.80}; {hint}")
    for name in dir(kind):
        if name.startswith(("wrap_", "transform_")) and name not in HOOKS and callable(getattr(kind, name)):
            near = difflib.get_close_matches(name, HOOKS, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"hooks are: {', '.join(HOOKS)}."
            raise ConfigurationError(
                f"{kind.__name__}.{name} looks like a hook, but there is none of that name; {hint} "
                "If it is a helper of your own, begin its name with an underscore."
            )
    hooks = {
        name: getattr(middleware, name)
        for name in HOOKS
        if getattr(kind, name) is not getattr(LanguageModelMiddleware, name) or name in vars(middleware)
    }
    if not hooks:
        raise ConfigurationError(f"{kind.__name__} has no hook, so it would do nothing; hooks are: {', '.join(HOOKS)}")
    return hooks


def _without_tool_settings(request: ModelRequest) -> ModelRequest:
    """Return *request* without settings about tools where it offers none: providers refuse them then."""
    settings = request.settings
    if request.tools or (settings.tool_choice is None and settings.parallel_tool_calls is None):
        return request
    return request.replace(settings=settings.replace(tool_choice=None, parallel_tool_calls=None))


def _name(middleware: LanguageModelMiddleware) -> str:
    return middleware.name or type(middleware).__name__


def _stream(model: Model, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    """Return the stream of *model*, so that it can be closed; of one that gives whole answers only, their chunks."""
    if not hasattr(model, "stream"):
        return _unfolded(model, request)
    chunks: Any = aiter(model.stream(request))
    return chunks if hasattr(chunks, "aclose") else _closable(chunks)


async def _closable(chunks: AsyncIterator[ModelChunk]) -> AsyncGenerator[ModelChunk, None]:
    async for chunk in chunks:
        yield chunk


async def _unfolded(model: Model, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    for chunk in unfold(await model.generate(request)):
        yield chunk


async def _generate(model: Model, request: ModelRequest) -> ModelResponse:
    """Return the whole answer of *model*, its stream folded where it only streams."""
    if has_own_generate(model):
        return await model.generate(request)
    async with aclosing(_stream(model, request)) as chunks:
        return await fold(chunks, request)


async def _close(chunks: Any) -> None:
    """Close an async iterator that can be closed, as a generator can."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
