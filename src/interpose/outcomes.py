"""Outcomes: the values that a hook returns to steer a run. See `Middleware` for which hook may return which."""

from typing import Any, Final

from msgspec import Struct

from interpose.text import is_clean


class End(Struct, frozen=True):
    """End the run here, in good order, with what there is; *text*, if given, becomes a last assistant message."""

    text: str | None = None
    finish_reason: str = "stop"


class Pause(Struct, frozen=True):
    """Pause the run and ask a person: *reason* names the question, *value* is what they need to answer it."""

    reason: str
    value: Any = None

    def __post_init__(self) -> None:
        reason: object = self.reason
        if not isinstance(reason, str) or not reason or not is_clean(reason):
            raise TypeError(f"Pause takes a reason, a text by which ctx.answer() finds the answer; got {reason!a:.80}")


class Retry(Struct, frozen=True):
    """Call the model again, with *feedback* as a user message in that attempt only.

    At most *max_retries* times per hook and step; beyond that the response stands.
    """

    feedback: str
    max_retries: int = 1


class Skip(Struct, frozen=True):
    """Do not execute the tool call; answer it with *result*, a `ToolResult` or a plain value."""

    result: Any


class Abort(Struct, frozen=True):
    """Stop the run at once: what is running is cancelled and the caller gets `RunAborted`."""

    reason: str = ""


class Drop:
    """The type of `DROP`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DROP"


DROP: Final = Drop()
"""Returned from `on_chunk`: this event is not sent, and later middleware do not see it."""
