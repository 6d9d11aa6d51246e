"""Databases as for the tests of stores, and processes that are killed."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.crash.played import Nursery
from tests.stores.conftest import postgres, postgres_server, sqlite, url

__all__ = ["postgres", "postgres_server", "sqlite", "url"]  # are fixtures


@pytest.fixture(scope="session")
def nurseries() -> Iterator[list[Nursery]]:
    """One for each processor, and two at least."""
    made = [Nursery() for _ in range(min(max(os.cpu_count() or 1, 2), 4))]
    yield made
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def threads(nurseries: list[Nursery]) -> Iterator[ThreadPoolExecutor]:
    """One for each nursery."""
    with ThreadPoolExecutor(len(nurseries)) as pool:
        yield pool
