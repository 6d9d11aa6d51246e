"""The guard of tests: while it is up, no provider may be called. Every provider asks it before each call."""

from collections.abc import Iterator
from contextlib import contextmanager

from interpose.errors import ConfigurationError

_guards = 0


@contextmanager
def refuse_real_calls() -> Iterator[None]:
    """Refuse every provider call of the process until the block is left; blocks may be nested."""
    global _guards
    _guards += 1
    try:
        yield
    finally:
        _guards -= 1


def check_real_calls(provider: str, model: str) -> None:
    """Let a call of *model* pass, unless real calls are refused.

    Raises:
        ConfigurationError: they are. It is no `ProviderError`, so that no retry or fallback takes it for an outage.
    """
    if _guards:
        raise ConfigurationError(
            f"a test tried to call a real model, '{provider}:{model}', under no_real_models(). "
            "Give the agent a ScriptedModel, or use `with agent.override(model=...)` around the test."
        )
