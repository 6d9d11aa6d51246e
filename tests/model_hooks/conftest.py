"""Both ways of calling an agent, for claims that hold in both."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from interpose import Agent, RunResult
from interpose.testing import assert_events_valid, collect, text_of

Play = Callable[..., Awaitable[RunResult]]


async def by_run(agent: Agent, prompt: Any = "go", **options: Any) -> RunResult:
    return await agent.run(prompt, **options)


async def by_stream(agent: Agent, prompt: Any = "go", **options: Any) -> RunResult:
    """Play as a stream, and hold what the reader saw against what the run remembers."""
    async with agent.stream(prompt, **options) as run:
        events = await collect(run)
        result = await run.result()
    assert_events_valid(events)
    assert text_of(events).endswith(result.text)
    return result


@pytest.fixture(params=[by_run, by_stream], ids=["run", "stream"])
def play(request: pytest.FixtureRequest) -> Play:
    """Play an agent and return its result."""
    given: Play = request.param
    return given
