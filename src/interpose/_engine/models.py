"""What a user gives as a model, as a model."""

from __future__ import annotations

from typing import Any

from interpose.errors import ConfigurationError
from interpose.models import resolve
from interpose.models.base import Model


def as_model(given: Any) -> Model:
    """Return a `Model` as it is, and the model that "provider:model" names.

    Raises:
        ConfigurationError: it is neither, or names a provider that is not known.
    """
    if isinstance(given, str):
        return resolve(given)
    if isinstance(given, type):
        raise ConfigurationError(f"model is the class {given.__name__}: write an instance, with parentheses")
    if not callable(getattr(given, "stream", None)) and not callable(getattr(given, "generate", None)):
        raise ConfigurationError(
            f"model must be a Model or 'provider:model', got {given!r}; a Model has provider, name and stream(request)"
        )
    return given  # type: ignore[no-any-return]  # it has what a Model has
