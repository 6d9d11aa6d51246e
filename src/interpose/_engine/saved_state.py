"""Private state that is saved with checkpoints, and read again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from interpose.errors import ConfigurationError
from interpose.output import as_type
from interpose.text import to_jsonable


def state_of(middleware: Any, data: Any) -> Any:
    """Return saved private state, *data*, as what the middleware's `run_state` makes, where that is a type.

    Raises:
        ValueError: it does not fit.
    """
    kind = type(middleware).run_state
    if not isinstance(kind, type):
        return data
    if issubclass(kind, dict | list | set) or kind.__module__ == "collections":
        return kind(data)
    return as_type(data, kind, strict=False)


def check_saved_state(middleware: Any, name: str) -> None:
    """Check that what a middleware wants saved can be read again.

    Raises:
        ConfigurationError: it cannot.
    """
    kind = type(middleware).run_state
    if not middleware.saved or not isinstance(kind, type):
        return
    try:
        fresh = kind()
    except TypeError:
        return  # a run finds out, and says so
    try:
        read = state_of(middleware, to_jsonable(fresh))
    except (ValueError, TypeError) as error:
        read, why = None, str(error)
    else:
        why = f"it reads back as {type(read).__name__}"
    if type(read) is not kind or (isinstance(fresh, Collection) and read != fresh):
        raise ConfigurationError(
            f"{name} is saved = True, and its run_state {kind.__name__} cannot be read back from JSON ({why}); "
            f"use a dict, a dataclass, a msgspec struct or a pydantic model"
        )
