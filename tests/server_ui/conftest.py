"""One browser for the tests of a file."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from tests.flow.browser import launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    """One browser for all tests of a file; each test has a context of its own."""
    async with launched() as browser:
        yield browser
