"""Calls the model again when the provider fails for a while."""

import math
import random
from typing import TYPE_CHECKING, Any

from interpose.builtin.options import check_number, check_whole
from interpose.errors import ProviderError
from interpose.middleware import Middleware, ModelNext

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.request import ModelRequest, ModelResponse

BACKOFF_S = 0.5


class RetryModelCalls(Middleware[Any]):
    """Calls the model up to *attempts* times while it fails with a `ProviderError` that is `retryable`.

    Between two calls it waits as long as the provider asks (`retry_after_s`), or 0.5 s, 1 s, 2 s, …, and up to a fifth
    more by chance, so that many runs do not come back at once. Where the provider asks for more than *max_wait_s*
    seconds the error is raised at once. Every call counts for usage and limits. What a failed call had shown is
    superseded. A pause, an end or an abort is no failure and goes on up.
    """

    def __init__(self, attempts: int = 3, max_wait_s: float = 60) -> None:
        check_whole("attempts", attempts, 1, ", since the first call counts too")
        check_number("max_wait_s", max_wait_s, 0, " seconds")
        self._attempts = attempts
        self._max_wait_s = max_wait_s

    async def wrap_model_call(
        self, ctx: "RunContext[Any]", request: "ModelRequest", call_next: ModelNext
    ) -> "ModelResponse":
        """Call, and call again."""
        for attempt in range(1, self._attempts):
            try:
                return await call_next.again(request)
            except ProviderError as error:
                if not error.retryable:
                    raise
                wait_s = self._wait_s(error, attempt)
            ctx.meta(retries=attempt)
            await ctx.sleep(wait_s)
        return await call_next(request)

    def _wait_s(self, error: ProviderError, attempt: int) -> float:
        """Return the seconds to wait after failed call *attempt*, or raise *error* where that is too long."""
        hint = error.retry_after_s
        if hint is None or not math.isfinite(hint) or hint < 0:
            hint = min(BACKOFF_S * 2.0 ** (attempt - 1), self._max_wait_s)
        if hint > self._max_wait_s:
            error.add_note(
                f"not tried again: the provider asks to wait {hint:g} s, above max_wait_s={self._max_wait_s:g}"
            )
            raise error
        return hint * random.uniform(1, 1.2)
