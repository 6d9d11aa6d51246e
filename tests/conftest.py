"""What all tests share: an environment in which no key, colour or width of the outside is seen."""

import os

import pytest

OUTSIDE = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
OUTSIDE_ENDINGS = ("_API_KEY", "_BASE_URL")


@pytest.fixture(autouse=True)
def closed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name in OUTSIDE or name.endswith(OUTSIDE_ENDINGS):
            monkeypatch.delenv(name)
