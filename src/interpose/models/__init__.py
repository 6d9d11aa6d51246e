"""Models: the protocol, and the providers by name, each imported when it is first used."""

from interpose.models.base import Model

PROVIDERS = {"openai": "interpose.models.openai", "local": "interpose.models.local"}


def is_provider(name: str) -> bool:
    """Whether *name* is a provider that `resolve` knows."""
    return name in PROVIDERS


def resolve(spec: str) -> Model:
    """Return the model that "provider:model" names."""
    raise KeyError(spec)
