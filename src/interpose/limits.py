"""Limits: how far a run may go, and what happens at the end of the rope."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from interpose.errors import ConfigurationError
from interpose.request import Usage

OnExceeded = Literal["stop", "raise"]


class Budget(Protocol):
    """A user's own limit, asked once for every paid model call, internal ones and those of nested runs too."""

    async def reserve(self, ctx: Any, estimate: Usage, /) -> Any:
        """Set *estimate* aside and return a token for it, or raise `LimitExceeded`.

        `estimate.cost_usd` is None where the model's price is not known. Any other exception fails the run.
        """
        ...

    async def settle(self, token: Any, usage: Usage | None, /) -> None:
        """Give back what *token* set aside and charge *usage*; None where the call failed and nothing is known.

        Called once for each `reserve` that returned, however the call ended, also while its run is cancelled. An
        exception is logged and the run goes on: the call was made.
        """
        ...


class Limits(Struct, frozen=True, kw_only=True):
    """How far a run may go. None is no limit; 0 is refused, as it could mean either.

    Reaching a limit counts: work is refused when what is spent is at the limit or over it. Durations are in seconds,
    costs in USD. `on_exceeded="stop"` ends the run in good order with what there is, `"raise"` raises `LimitExceeded`.
    The two timeouts cut one call: a tool's becomes an error result, a model's raises `ModelTimeout`.

    Raises:
        ConfigurationError: a limit is not above 0, a budget is none, or `on_exceeded` is neither word.
    """

    max_steps: int | None = 25
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_total_tokens: int | None = None
    max_cost_usd: float | None = None
    max_duration_s: float | None = None
    model_timeout_s: float | None = None
    tool_timeout_s: float | None = None
    dead_air_s: float | None = None
    tool_concurrency: int | None = None
    budgets: Sequence[Budget] = ()
    on_exceeded: OnExceeded = "stop"

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigurationError(f"Limits({name}={value!r}): expected a number above 0, or None for no limit")
            if isinstance(value, float) and name in _COUNTS and not value.is_integer():
                raise ConfigurationError(f"Limits({name}={value!r}): expected a whole number, or None for no limit")
        force_setattr(self, "budgets", _budgets(self.budgets))
        if self.on_exceeded not in get_args(OnExceeded):
            raise ConfigurationError(f"Limits(on_exceeded={self.on_exceeded!r}): expected 'stop' or 'raise'")


_NUMBERS = tuple(name for name in Limits.__struct_fields__ if name not in ("budgets", "on_exceeded"))
_COUNTS = ("max_steps", "max_model_calls", "max_tool_calls", "max_total_tokens", "tool_concurrency")


def _budgets(given: Any) -> tuple[Budget, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"Limits(budgets={given!r:.80}): expected a list of budgets")
    budgets = tuple(given)
    for one in budgets:
        missing = [name for name in ("reserve", "settle") if not callable(getattr(one, name, None))]
        if isinstance(one, type) or missing:
            lack = (
                "it is a class: write an instance, with parentheses" if isinstance(one, type) else f"no {missing[0]}()"
            )
            raise ConfigurationError(f"Limits(budgets=...): {one!r:.80} is no budget ({lack})")
    return budgets
