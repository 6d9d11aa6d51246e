"""Ends a run before its next model call."""

from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self

from interpose.builtin.options import check_takes
from interpose.middleware import Middleware
from interpose.outcomes import End

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.request import ModelRequest

Condition = bool | Callable[["ModelRequest"], Any]


class Stop(Middleware[Any]):
    """Ends the run before the next model call, with finish reason `cancelled`, keeping steps and text so far.

    Made by `Stop.when(condition)` and `Stop.unless(condition)`. The condition is a bool, or a callable of the request,
    plain or async: `Stop.when(lambda request: request.number == 3)`.
    """

    def __init__(self, condition: Condition, *, stops_when: bool = True) -> None:
        if not isinstance(condition, bool) and not callable(condition):
            raise TypeError(f"a condition is a bool or a callable of the request, got {condition!r:.80}")
        if not isinstance(condition, bool):
            check_takes("a condition", condition, "request")
        self._condition = condition
        self._stops_when = stops_when

    @classmethod
    def when(cls, condition: Condition) -> Self:
        """Stop when *condition* is true."""
        return cls(condition, stops_when=True)

    @classmethod
    def unless(cls, condition: Condition) -> Self:
        """Stop when *condition* is false."""
        return cls(condition, stops_when=False)

    async def before_model_call(self, _ctx: "RunContext[Any]", request: "ModelRequest") -> End | None:
        """Ask the condition."""
        holds = self._condition if isinstance(self._condition, bool) else self._condition(request)
        if isawaitable(holds):
            holds = await holds
        return End(finish_reason="cancelled") if bool(holds) is self._stops_when else None
