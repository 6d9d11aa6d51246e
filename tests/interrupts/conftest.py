"""Every claim here is held against both ways of calling; no test waits long."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.stores import MemoryStore, SQLStore, Store

HERE = Path(__file__).parent


@pytest.fixture(params=["run", "stream"])
def how(request: pytest.FixtureRequest) -> str:
    """The way in which a run, and what goes on from it, is called."""
    way: str = request.param
    return way


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store in memory, and one in a file."""
    if request.param == "memory":
        yield MemoryStore()
        return
    async with SQLStore(f"sqlite:///{tmp_path}/threads.db") as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(10))
