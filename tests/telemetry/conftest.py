"""OpenTelemetry's SDK with everything kept in memory, and nothing of one test left for the next."""

from pathlib import Path

import pytest
from tests.telemetry.memory import Memory

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(15))


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.delenv("OTEL_SEMCONV_STABILITY_OPT_IN", raising=False)
    return Memory()


@pytest.fixture
def latest(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """One whose middleware opts in to the latest conventions."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, gen_ai_latest_experimental")
    return Memory()
