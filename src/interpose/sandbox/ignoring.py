"""Which files a sandbox passes over when it lists, searches and tells of changes."""

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import Any

from interpose.errors import ConfigurationError

IGNORED = (".git", "node_modules", "__pycache__", ".venv")
"""Folders of which nobody wants to hear: there are thousands of files in them, and a person wrote none."""


def ignoring(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    """Return a function of a relative path and the name at its end that says whether to pass over it.

    A pattern without a slash (`*.pyc`) is compared with the name, one with a slash (`build/*.o`) with the path. Of a
    folder that is passed over, so is all that is in it.

    Raises:
        ConfigurationError: *patterns* is no list of texts.
    """
    given: Any = patterns
    if isinstance(given, str) or not all(isinstance(one, str) and one.strip("/") for one in given):
        raise ConfigurationError(f"ignore must be a list of patterns, such as ['.git', '*.pyc'], got {patterns!r:.80}")
    stripped = [one.strip("/") for one in patterns]
    names = _any_of([one for one in stripped if "/" not in one])
    paths = _any_of([one for one in stripped if "/" in one])

    def is_ignored(path: str, name: str) -> bool:
        return bool((names and names(name)) or (paths and paths(path)))

    return is_ignored


def _any_of(patterns: list[str]) -> Callable[[str], Any] | None:
    return re.compile("|".join([translate(one) for one in patterns])).match if patterns else None
