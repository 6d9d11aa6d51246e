"""What a model call costs, in USD."""

import functools
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from interpose.errors import ConfigurationError
from interpose.models.base import ModelProfile
from interpose.models.profiles import known_profile, listed, profile_of
from interpose.request import Usage

MILLION = 1_000_000
Price = Callable[[Usage], float | None]
"""Gives what a usage costs in USD, or None where too little is known of it."""

log = logging.getLogger("interpose")


def cost_usd(usage: Usage, profile: ModelProfile | None) -> float | None:
    """Return what *usage* costs by the prices of *profile*, or None where they or the tokens are not known.

    Cached input is charged at its own price where there is one, else as input.
    """
    if profile is None or profile.input_price is None or profile.output_price is None or not _has_tokens(usage):
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
    if usage.cost_usd is not None or not _has_tokens(usage):
        return usage
    price = price_of(model, name)
    cost = price(usage) if price is not None else None
    return usage if cost is None else usage.replace(cost_usd=cost)


def price_of(model: Any, name: str) -> Price | None:
    """Return the prices of *model*, or of the other model of its provider that *name* asks for; None where unknown.

    The prices of a profile that somebody wrote go first. Then come those of the package genai-prices, where it is
    installed: it knows tiers and dates. Last those of the list that comes with the library.
    """
    profile = profile_of(model, name)
    by_profile: Price | None = None
    if profile is not None and profile.input_price is not None and profile.output_price is not None:
        by_profile = functools.partial(_by_profile, profile)
        if profile is not known_profile(model.provider, name or model.name):
            return by_profile
    return _listed_price(model, name or model.name, by_profile) or by_profile


def required_price(model: Any, provider: str, name: str) -> Price:
    """Return the prices of *model*, called by *name*.

    Raises:
        ConfigurationError: they are not known, so a limit on the cost could not be kept.
    """
    price = price_of(model, name)
    if price is not None:
        return price
    install = "" if _is_installed() else "pip install 'interpose[prices]' for a longer list of prices, or "
    raise ConfigurationError(
        f"max_cost_usd is set, but the price of {provider}:{name} is not known; {install}"
        f"give the model profile=ModelProfile(input_price=..., output_price=...), in USD per million tokens"
    )


def _has_tokens(usage: Usage) -> bool:
    return usage.input_tokens is not None or usage.output_tokens is not None


def _by_profile(profile: ModelProfile, usage: Usage) -> float | None:
    return cost_usd(usage, profile)


# The package genai-prices: its list is in the wheel, and it is never asked to fetch another.


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("genai_prices") is not None


def read_ahead() -> None:
    """Read the package's list in a thread, where it is installed and not read yet: that takes half a second.

    A provider's client calls this when it is made. While the first answer is on its way nothing else is to be done, and
    the loop, which would read the list when that answer is priced, stays free.
    """
    if _is_installed() and "genai_prices" not in sys.modules:
        threading.Thread(
            target=_knows, args=("gpt-4o",), kwargs={"provider_id": "openai"}, name="interpose-prices"
        ).start()


def _listed_price(model: Any, name: str, by_profile: Price | None) -> Price | None:
    """Return the prices of the package for what *model* calls by *name*, if it is there and has them.

    A server of one's own may mean another model by the name: then the address counts, not the provider's name.
    """
    url = getattr(model, "base_url", None)
    provider = model.provider
    if not isinstance(url, str):
        url = ""
    if not _is_installed() or not (url or provider in listed().profiles):
        return None
    where = {"provider_api_url": url} if url else {"provider_id": provider}
    if not _knows(name, **where):
        named = url and provider != "openai" and provider in listed().profiles
        where = {"provider_id": provider}
        if not named or not _knows(name, **where):
            return None
    return functools.partial(_by_package, name, where, by_profile)


@functools.lru_cache(maxsize=1000)
def _knows(name: str, **where: str) -> bool:
    """Whether the package has prices for input and output of the model."""
    return _calculated(name, where, {"input_tokens": 1, "output_tokens": 1}) is not None


def _by_package(name: str, where: Mapping[str, str], by_profile: Price | None, usage: Usage) -> float | None:
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    tokens = {
        "input_tokens": max(usage.input_tokens or 0, read + written),
        "output_tokens": usage.output_tokens or 0,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }
    cost = _calculated(name, where, tokens)
    return by_profile(usage) if cost is None and by_profile is not None else cost


def _calculated(name: str, where: Mapping[str, str], tokens: Mapping[str, int]) -> float | None:
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    try:
        return float(calc_price(Counted(**tokens), name, **where).total_price)  # type: ignore[call-overload]  # one key
    except LookupError:
        return None
    except Exception:  # what it makes of odd figures must not cost an answer that is paid for
        log.warning("genai-prices could not price %s of %s", dict(tokens), name, exc_info=True)
        return None
