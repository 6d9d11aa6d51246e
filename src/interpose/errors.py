"""Every error of the library, under one root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interpose.result import RunResult


class InterposeError(Exception):
    """The root of all errors of this library.

    An error that ended a run carries `partial`: a `RunResult` of what was done until then.
    """

    partial: RunResult | None = None


class ConfigurationError(InterposeError, ValueError):
    """Something is put together wrongly; found when the agent is built, at `use()`, or before the first step."""


class CapabilityError(ConfigurationError):
    """A capability that is required is not provided, comes too late, or was never provided."""


class HookError(InterposeError):
    """A hook returned something that its seam does not take."""


class NextCalledTwice(InterposeError):
    """A layer awaited `call_next` a second time for one call."""


class HistoryError(InterposeError):
    """The messages to be sent would be refused: a call without its result, or a result without its call."""


class ResumeError(InterposeError):
    """The answers do not fit the questions; nothing ran and the paused run can still be resumed.

    *problems* lists `(interrupt_id, what)`.
    """

    def __init__(self, message: str, problems: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class OutputError(InterposeError):
    """The model's output did not fit the output type; *raw* is its last text."""

    def __init__(self, message: str, raw: str = "") -> None:
        super().__init__(message)
        self.raw = raw


class LimitExceeded(InterposeError):
    """A limit of the run was reached: *limit* is its name as in `Limits`, *value* what it was set to."""

    def __init__(self, limit: str, value: Any, message: str | None = None) -> None:
        super().__init__(message or f"the limit {limit}={value} was reached; raise it in limits=Limits({limit}=...)")
        self.limit = limit
        self.value = value


class RunAborted(InterposeError):
    """The run was stopped from inside or outside; *reason* says why, and may be empty."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class ThreadConflict(InterposeError):
    """Another process extended the thread while this run was under way; nothing of this run was stored."""


class FatalToolError(InterposeError):
    """Raised by a tool to fail the run, instead of letting the model read the error."""


class ProviderError(InterposeError):
    """A model provider failed, or sent something that makes no sense."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        status_code: int | None = None,
        retry_after_s: float | None = None,
        retryable: bool | None = None,
        request_id: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status_code = status_code
        self.retry_after_s = retry_after_s
        self.retryable = self.default_retryable if retryable is None else retryable
        self.request_id = request_id
        self.code = code

    default_retryable = False


class RateLimited(ProviderError):
    """Too many requests or tokens; `retry_after_s` is the provider's hint, if it gave one."""

    default_retryable = True


class ContextTooLong(ProviderError):
    """The request is longer than the model's context window."""


class AuthFailed(ProviderError):
    """The key is missing, wrong, or not allowed to use this model."""


class BadRequest(ProviderError):
    """The provider refused the request as malformed."""


class ProviderDown(ProviderError):
    """The provider could not be reached or failed on its side."""

    default_retryable = True


class ModelTimeout(ProviderError):
    """The model call took longer than `Limits.model_timeout_s`."""

    default_retryable = True


class StoreError(InterposeError):
    """A store could not do what was asked: it is full, damaged, locked, out of reach, or of another release.

    Nothing of what was asked is stored, unless the connection broke while the database was about to say so; every
    write may be sent again.
    """


class ScriptExhausted(InterposeError):
    """A `ScriptedModel` was called more often than it has turns."""
