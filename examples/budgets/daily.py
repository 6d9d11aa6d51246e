"""A daily budget per tenant: what is common to all places where the spent money may be kept."""

import asyncio
import math
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Any, NamedTuple

from interpose import ConfigurationError, LimitExceeded, Usage

MICRO = 1_000_000


class Aside(NamedTuple):
    """What one call has set aside: of which tenant and day, in millionths of a dollar."""

    tenant: str
    day: str
    micro_usd: int


class DailyBudget(ABC):
    """What each tenant may spend in a day of UTC, in USD; the tenant is `ctx.context.tenant`.

    A call is refused where what is spent and set aside, and its own estimate, would pass the limit. So the limit is
    never passed, as far as estimates are not too low, and a little may stay unspent while long answers are under way.
    """

    def __init__(self, limit_usd: float) -> None:
        self.limit_usd = limit_usd

    @abstractmethod
    async def add_within(self, key: Aside, limit_micro_usd: int) -> bool:
        """Add to what is spent, if that stays within the limit, as one act; say whether it was added."""

    @abstractmethod
    async def add(self, tenant: str, day: str, micro_usd: int) -> None:
        """Add to what is spent, or take from it where negative, as one act."""

    @abstractmethod
    async def spent(self, tenant: str, day: str) -> int:
        """Return what is spent and set aside, in millionths of a dollar."""

    async def aclose(self) -> None:  # noqa: B027  # a file has nothing to close
        """Close what it holds open, if anything."""

    async def reserve(self, ctx: Any, estimate: Usage) -> Aside:
        """Set the estimated cost aside, or refuse the call."""
        if estimate.cost_usd is None:
            raise ConfigurationError("a budget in USD needs the price of the model, and it is not known")
        aside = Aside(ctx.context.tenant, datetime.now(UTC).date().isoformat(), math.ceil(estimate.cost_usd * MICRO))
        adding = asyncio.ensure_future(self.add_within(aside, round(self.limit_usd * MICRO)))
        try:
            fits = await asyncio.shield(adding)
        except asyncio.CancelledError:  # the run was stopped while the database was at it: leave nothing behind
            if await adding:
                await self.settle(aside, None)
            raise
        if not fits:
            raise LimitExceeded(
                "daily_usd", self.limit_usd, f"{aside.tenant} may spend {self.limit_usd} USD a day, and that is used up"
            )
        return aside

    async def settle(self, token: Aside, usage: Usage | None) -> None:
        """Correct what was set aside to what the call cost; a call that failed before it told anything cost nothing."""
        cost = 0 if usage is None else round((usage.cost_usd or 0.0) * MICRO)
        await self.add(token.tenant, token.day, cost - token.micro_usd)
