"""Models and budgets that the tests of limits play with."""

import asyncio
from collections.abc import Callable
from typing import Any

from interpose import Agent, LimitExceeded, ModelProfile, Usage
from interpose.testing import ScriptedModel, text

DOLLAR_A_TOKEN = ModelProfile(input_price=1_000_000.0, output_price=1_000_000.0, max_output_tokens=10)


class Purse:
    """A budget of *tokens* that sets aside what a call may take, and notes what it was asked."""

    def __init__(self, tokens: int, *, slow_s: float = 0.0) -> None:
        self.tokens = tokens
        self.slow_s = slow_s
        self.spent = 0
        self.aside: dict[int, int] = {}
        self.log: list[tuple[str, Any]] = []
        self.asked = asyncio.Event()

    async def reserve(self, ctx: Any, estimate: Usage) -> int:
        await asyncio.sleep(self.slow_s)
        if self.spent + sum(self.aside.values()) >= self.tokens:
            raise LimitExceeded("purse", self.tokens, f"the purse of {self.tokens} tokens is empty")
        token = len(self.log)
        self.aside[token] = estimate.total_tokens or 0
        self.log.append(("reserve", ctx.run_id))
        self.asked.set()
        return token

    async def settle(self, token: int, usage: Usage | None) -> None:
        await asyncio.sleep(self.slow_s)
        del self.aside[token]
        self.spent += 0 if usage is None else usage.total_tokens or 0
        self.log.append(("settle", usage))


class Busy(ScriptedModel):
    """A model whose calls take a moment, so that calls side by side overlap; it counts them."""

    def __init__(self, *turns: Any, **options: Any) -> None:
        super().__init__(*turns, **options)
        self.begun = 0
        self.at_once = 0
        self.most_at_once = 0

    async def stream(self, request: Any, /) -> Any:
        self.begun += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.005)
            async for chunk in super().stream(request):
                yield chunk
        finally:
            self.at_once -= 1


def children(count: int, used: Usage | None, **options: Any) -> tuple[Busy, Any]:
    """Return a model of *count* answers, and an agent on it as the tool `child`."""
    profile = options.pop("profile", None)
    model = Busy(*[text("x", usage=used)] * count, profile=profile)
    agent: Agent[Any] = Agent(model, post_model_hooks=(), **options)
    return model, agent.as_tool("child", "A child.")


async def both_ways(agent_of: Callable[[], Agent[Any]], prompt: str = "go") -> list[Any]:
    """Return what `agent.run` and `agent.stream` come to: two results, or the errors that they raise."""
    came: list[Any] = []
    try:
        came.append(await agent_of().run(prompt))
    except Exception as error:
        came.append(error)
    try:
        async with agent_of().stream(prompt) as run:
            came.append(await run.result())
    except Exception as error:
        came.append(error)
    return came
