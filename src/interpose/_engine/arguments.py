"""The arguments of `Agent`, checked where they are given."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from interpose.clock import Clock
from interpose.errors import ConfigurationError
from interpose.limits import Limits
from interpose.request import ModelSettings

CLOCK = ("now", "monotonic", "sleep", "call_later")
STORE = ("load", "commit")


def check_arguments(agent: Any) -> None:
    """Check what was given for an agent.

    Raises:
        ConfigurationError: something is of the wrong kind; the text says what was expected.
    """
    if agent.redact != ():
        from interpose.redaction import as_redactor  # its patterns are a fifth of the import

        agent.redact = as_redactor(agent.redact)
    _is(agent.instructions, str, "instructions")
    _is(agent.settings, ModelSettings, "settings")
    _is(agent.limits, Limits, "limits")
    _is(agent.name, str, "name")
    for name in ("before_tool", "after_tool"):
        value = getattr(agent, name)
        if value is not None and not callable(value):
            raise ConfigurationError(f"{name} must be a function (ctx, call, ...), got {value!r}")
    for hook in (*agent.pre_model_hooks, *agent.post_model_hooks):
        if not callable(hook) or not _takes_one(hook):
            raise ConfigurationError(f"a model hook must be a function of its context alone, got {hook!r}")
    retries = agent.output_retries
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise ConfigurationError(f"output_retries must be a whole number, 0 or more, got {retries!r}")
    if not isinstance(agent.clock, Clock) and not all([callable(getattr(agent.clock, n, None)) for n in CLOCK]):
        raise ConfigurationError(f"clock must have {', '.join(CLOCK)}, as interpose.Clock has; got {agent.clock!r}")
    if agent.store is not None and not all([callable(getattr(agent.store, name, None)) for name in STORE]):
        raise ConfigurationError(f"store must be a Store, such as interpose.stores.MemoryStore(); got {agent.store!r}")
    if agent.checkpoint_key is not None and (not isinstance(agent.checkpoint_key, bytes) or not agent.checkpoint_key):
        raise ConfigurationError("checkpoint_key must be bytes, such as os.urandom(32)")


def _takes_one(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # no signature to be had, as of some built-in callables
        pass
    return True


def check_tools(tools: Any) -> Sequence[Any]:
    """Return *tools* if they are a list.

    Raises:
        ConfigurationError: they are not.
    """
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise ConfigurationError(f"tools must be a list of tools or functions, got {tools!r:.80}")
    return tools


def _is(value: Any, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be a {kind.__name__}, got {type(value).__name__} ({value!r:.60})")
