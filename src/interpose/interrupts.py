"""Interrupts: typed questions to a person, what is open, and the answers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from interpose.errors import ConfigurationError
from interpose.messages import ToolCall, Value
from interpose.output import as_type
from interpose.text import is_clean, to_jsonable

PayloadT = TypeVar("PayloadT")
ResponseT = TypeVar("ResponseT")


class Interrupt(Generic[PayloadT, ResponseT]):
    """A kind of question that a middleware may ask: what it shows (*payload*) and what it wants back (*response*).

    A middleware lists it in `interrupts` and asks it with `request` from `on_interrupt_boundary`.
    """

    __slots__ = ("id", "payload", "response")

    def __init__(self, id: str, *, payload: type[PayloadT] | Any = Any, response: type[ResponseT] | Any = Any) -> None:
        if not id:
            raise ConfigurationError("Interrupt needs an id, such as 'review-plan'")
        self.id = id
        self.payload = payload
        self.response = response

    def __repr__(self) -> str:
        return f"Interrupt({self.id!r})"

    def request(
        self,
        key: str,
        message: str = "",
        payload: PayloadT | None = None,
        *,
        reason: str | None = None,
        expires_at: datetime | None = None,
    ) -> "InterruptRequest":
        """Return a question to be asked; *key* tells apart questions of one kind in one batch.

        Raises:
            TypeError: the payload is not of the type of this interrupt, `expires_at` is no aware datetime, or a text is
                none.
        """
        texts: tuple[tuple[str, object], ...] = (("key", key), ("message", message), ("reason", reason or self.id))
        for name, text in texts:
            if not isinstance(text, str) or not is_clean(text):
                raise TypeError(f"{name} of interrupt {self.id!r} must be a text, got {text!a:.80}")
        if self.payload is not Any:
            try:
                as_type(to_jsonable(payload), self.payload, strict=False)
            except (ValueError, TypeError) as error:
                raise TypeError(f"the payload of interrupt {self.id!r} does not fit {self.payload}: {error}") from error
        given: object = expires_at
        if given is not None and (not isinstance(given, datetime) or given.utcoffset() is None):
            raise TypeError(f"expires_at of interrupt {self.id!r} must be a datetime with a zone, got {expires_at!r}")
        return InterruptRequest(self, key, message, payload, reason or self.id, expires_at)


class InterruptRequest(Value, frozen=True):
    """A question on its way to a person."""

    definition: Interrupt[Any, Any]
    key: str
    message: str = ""
    payload: Any = None
    reason: str = ""
    expires_at: datetime | None = None


class OpenInterrupt(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A question that a paused run waits on.

    *tool_call* is there where a call waits for approval or was paused, *definition* is the id of the `Interrupt` that
    was asked, where it was one.
    """

    id: str
    reason: str
    message: str = ""
    value: Any = None
    tool_call: ToolCall | None = None
    expires_at: datetime | None = None
    definition: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the question in AG-UI's shape."""
        wire: dict[str, Any] = {"id": self.id, "reason": self.reason}
        if self.message:
            wire["message"] = self.message
        metadata: dict[str, Any] = {}
        if self.tool_call is not None:
            wire["toolCallId"] = self.tool_call.id
            metadata |= {"tool": self.tool_call.name, "args": dict(self.tool_call.args)}
        if self.value is not None:
            metadata["value"] = self.value
        if self.expires_at is not None:
            wire["expiresAt"] = self.expires_at.isoformat()
        if metadata:
            wire["metadata"] = metadata
        return wire


class Resolved(Value, frozen=True):
    """The answer to a question; *payload* must fit the interrupt's response type. A falsy payload is an answer."""

    payload: Any = None
    by: str | None = None


class Approved(Value, frozen=True):
    """Let the call run, with *edited_args* instead of the model's where they are given.

    *always* spares later questions of the thread: about all calls of the tool (`"tool"`), or about those with the same
    arguments (`"arguments"`).
    """

    edited_args: Mapping[str, Any] | None = None
    by: str | None = None
    always: Literal["tool", "arguments"] | None = None


class Rejected(Value, frozen=True):
    """Do not let the call run; the model reads *reason*."""

    reason: str = ""
    by: str | None = None


class Cancelled(Value, frozen=True):
    """The question is withdrawn; a call that waits on it is answered and the run goes on."""


class Resolution(Value, frozen=True):
    """A question and the answer to it; the payload of a `Resolved` is of the type that its interrupt wants."""

    interrupt: OpenInterrupt
    answer: "Resolved | Approved | Rejected | Cancelled"

    @property
    def payload(self) -> Any:
        """What was answered, of a `Resolved`; None of the others."""
        return self.answer.payload if isinstance(self.answer, Resolved) else None


class Resolutions(Value, frozen=True):
    """For `on_interrupt_resolution`: all that was asked and answered, in the order of asking."""

    entries: tuple[Resolution, ...]

    def all(self) -> tuple[Resolution, ...]:
        """Return everything."""
        return self.entries

    def for_(self, definition: Interrupt[Any, Any]) -> tuple[Resolution, ...]:
        """Return what was asked with *definition*."""
        return tuple([one for one in self.entries if one.interrupt.definition == definition.id])


Answer = Resolved | Approved | Rejected | Cancelled
