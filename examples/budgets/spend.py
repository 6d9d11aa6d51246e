"""Spends from a tenant's daily budget, in this process and any other that does the same.

    python examples/budgets/spend.py sqlite:///tmp/budgets.db acme [LIMIT_USD [RUNS [AT]]]
    python examples/budgets/spend.py redis://127.0.0.1:6379/0 acme [LIMIT_USD [RUNS [AT]]]

Many runs at once, on a scripted model that takes ten cents a call; they begin AT a time, in seconds since 1970, where
that is given. Prints what came of them as JSON.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from daily import MICRO, DailyBudget

from interpose import Agent, Limits, ModelProfile, ModelSettings, Usage, tool
from interpose.testing import ScriptedModel, calls, text

TEN_CENTS = ModelProfile(input_price=0.0, output_price=10_000.0)
USED = Usage(1, 10)


@dataclass
class Caller:
    """Who a run is for."""

    tenant: str


@tool
async def look(where: str) -> str:
    """Look somewhere, for a moment."""
    await asyncio.sleep(0.001)
    return where


def budget_of(url: str, limit_usd: float) -> DailyBudget:
    """Return the budget kept at *url*."""
    if url.startswith(("redis://", "unix://")):
        from redis_budget import RedisBudget

        return RedisBudget(limit_usd, url)
    from sql_budget import SQLBudget

    return SQLBudget(limit_usd, url.removeprefix("sqlite://"))


async def spend(budget: DailyBudget, tenant: str, runs: int) -> dict[str, object]:
    """Make *runs* runs of two calls each, at once, and return how many calls were made and what it says is spent."""
    turns = [lambda request: text("end", usage=USED) if request.number else calls(("look", {"where": "x"}), usage=USED)]
    model = ScriptedModel(*turns * (2 * runs), profile=TEN_CENTS)
    agent: Agent[Caller] = Agent(
        model, tools=[look], settings=ModelSettings(max_tokens=10), limits=Limits(budgets=[budget])
    )
    async with agent:
        results = await asyncio.gather(*[agent.run("go", context=Caller(tenant)) for _ in range(runs)])
    reasons = [one.finish_reason for one in results]
    spent = await budget.spent(tenant, datetime.now(UTC).date().isoformat())
    made = sum(len(one.steps) for one in results)
    return {"calls": made, "stopped": reasons.count("limit"), "whole": reasons.count("stop"), "spent": spent / MICRO}


async def spend_at(url: str, tenant: str, limit_usd: float, runs: int) -> dict[str, object]:
    """Spend from the budget kept at *url*."""
    budget = budget_of(url, limit_usd)
    try:
        return await spend(budget, tenant, runs)
    finally:
        await budget.aclose()


def main(url: str, tenant: str, limit_usd: str = "2.00", runs: str = "20", at: str = "0") -> None:
    """Spend, and print what came of it."""
    time.sleep(max(float(at) - time.time(), 0))
    print(json.dumps(asyncio.run(spend_at(url, tenant, float(limit_usd), int(runs)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
