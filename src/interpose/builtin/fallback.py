"""Asks another model when one fails."""

from typing import TYPE_CHECKING, Any

from interpose.builtin.options import model_or_name
from interpose.errors import ProviderError
from interpose.middleware import Middleware, ModelNext

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.models.base import Model
    from interpose.request import ModelRequest, ModelResponse


class Fallback(Middleware[Any]):
    """Asks *models* in order when the model of the request fails with a `ProviderError`; the first answer counts.

    A model is a `Model`, "provider:name", or a name of the same provider. If all fail, the first error is raised, with
    the others as notes. Every call counts for usage and limits. List it outside `RetryModelCalls` to try each model
    several times. What a failed call had shown is superseded.

    Raises:
        ConfigurationError: a provider is not in this release, or needs a package that is not installed.
    """

    def __init__(self, *models: "str | Model") -> None:
        if not models:
            raise ValueError("Fallback needs at least one model to fall back to: Fallback('provider:name')")
        self._models = tuple([model_or_name(model) for model in models])

    async def wrap_model_call(
        self, ctx: "RunContext[Any]", request: "ModelRequest", call_next: ModelNext
    ) -> "ModelResponse":
        """Ask one model after the other."""
        try:
            return await call_next(request)
        except ProviderError as error:
            first = error
        try:
            return await self._ask_others(ctx, request, call_next, first)
        finally:
            del first  # its traceback holds this frame

    async def _ask_others(
        self, ctx: "RunContext[Any]", request: "ModelRequest", call_next: ModelNext, first: ProviderError
    ) -> "ModelResponse":
        for model in self._models:
            other = request.with_model(model)
            name = f"{other.provider}:{other.model}"
            try:
                response = await call_next.again(other)
            except ProviderError as error:
                first.add_note(f"the fallback to {name} failed: {type(error).__name__}: {error}")
            else:
                ctx.meta(fallback=name, fallback_after=f"{type(first).__name__}: {first}")
                return response
        raise first
