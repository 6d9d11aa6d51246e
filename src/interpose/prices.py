"""What a model call costs, in USD."""

from typing import Any

from interpose.models.base import ModelProfile
from interpose.models.profiles import profile_of
from interpose.request import Usage

MILLION = 1_000_000


def cost_usd(usage: Usage, profile: ModelProfile | None) -> float | None:
    """Return what *usage* costs by the prices of *profile*, or None where they are not known.

    Cached input is charged at its own price where there is one, else as input.
    """
    if profile is None or profile.input_price is None or profile.output_price is None:
        return None
    read = usage.cache_read_tokens or 0
    written = usage.cache_write_tokens or 0
    read_price = profile.cache_read_price if profile.cache_read_price is not None else profile.input_price
    write_price = profile.cache_write_price if profile.cache_write_price is not None else profile.input_price
    plain = max((usage.input_tokens or 0) - read - written, 0)
    paid = plain * profile.input_price + read * read_price + written * write_price
    return (paid + (usage.output_tokens or 0) * profile.output_price) / MILLION


def with_cost(usage: Usage, model: Any, name: str) -> Usage:
    """Return *usage* with its cost, where the provider did not tell it and the prices are known.

    *name* is what was called: *model*'s own name, or that of another model of its provider.
    """
    if usage.cost_usd is not None:
        return usage
    cost = cost_usd(usage, profile_of(model, name))
    return usage if cost is None else usage.replace(cost_usd=cost)
