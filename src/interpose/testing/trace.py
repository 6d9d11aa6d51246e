"""A middleware that writes down which hooks were called."""

from collections.abc import Callable
from typing import Any

from interpose.middleware import HOOKS, Middleware


class Trace(Middleware[Any]):
    """Has every hook, changes nothing, and appends `(hook, detail)` to `entries` for each call of one.

    The detail is what the hook is about: the event of `on_chunk`, the response of `after_model_call`, the last argument
    besides the context and `call_next` in general, and None where there is none.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[str, Any]] = []

    def names(self) -> list[str]:
        """Return the hooks that were called, in order."""
        return [hook for hook, _ in self.entries]


def _recorder(hook: str) -> Callable[..., Any]:
    wraps, first = hook.startswith("wrap_"), 0 if hook == "open" else 1

    def record(self: Trace, *args: Any) -> Any:
        told = args[first:-1] if wraps else args[first:]
        self.entries.append((hook, told[-1] if told else None))
        return args[-1](*told) if wraps else None

    record.__name__, record.__qualname__ = hook, f"Trace.{hook}"
    return record


for _hook in HOOKS:
    setattr(Trace, _hook, _recorder(_hook))
