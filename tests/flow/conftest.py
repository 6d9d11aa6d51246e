"""A Flow that is open, on a free port."""

from collections.abc import AsyncIterator

import pytest

from interpose.flow import Flow


@pytest.fixture
async def flow() -> AsyncIterator[Flow]:
    """An open Flow, as an agent that was just opened would have it."""
    flow = Flow(port=0)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    yield flow
    await flow.close()
