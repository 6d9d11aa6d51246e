"""What clients read of what went wrong: a general text and an id; the whole of it is in the server's log alone."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from interpose.errors import (
    ContextTooLong,
    LimitExceeded,
    ModelTimeout,
    ProviderDown,
    ProviderError,
    RateLimited,
    RunAborted,
    ThreadConflict,
)

logger = logging.getLogger("interpose.server")


@dataclass(frozen=True, kw_only=True)
class ShownError:
    """What `show_error` makes a text from. *text* may hold secrets; *public* is what is shown without it."""

    kind: Literal["run", "tool", "request"]
    code: str
    text: str
    error_id: str
    public: str


ShowError = Callable[[ShownError], str]


def error_id(*parts: object) -> str:
    """Return the id of an error: the same for the same place in the same run, so that all its readers are told one."""
    return "err_" + hashlib.blake2s("\0".join(map(str, parts)).encode("utf-8", "replace"), digest_size=8).hexdigest()


LIMIT = ("limit", 400, "the run has reached a limit")
CODES: tuple[tuple[type[BaseException], str, int, str], ...] = (
    (RateLimited, "rate_limited", 429, "the model's provider is asked too much just now; try again later"),
    (ContextTooLong, "context_too_long", 400, "the conversation is too long for the model"),
    (ModelTimeout, "model_timeout", 504, "the model took too long"),
    (ProviderDown, "provider_down", 503, "the model's provider cannot be reached just now; try again later"),
    (ProviderError, "provider_error", 502, "the model's provider refused or failed"),
    (LimitExceeded, *LIMIT),
    (ThreadConflict, "thread_conflict", 409, "another run was on this thread meanwhile; run it again"),
    (RunAborted, "aborted", 503, "the run was stopped"),
)
"""Kinds of errors, the first that fits: a code for programs, an HTTP status, and a text with nothing of the error."""
OTHER = ("error", 500, "the run failed")


def classified(error: BaseException | None) -> tuple[str, int, str]:
    """Return the code, the HTTP status and the public text of an error."""
    return next(((code, status, text) for kind, code, status, text in CODES if isinstance(error, kind)), OTHER)


def told(shown: ShownError, show: ShowError | None) -> str:
    """Return the text that a client reads; one that cannot be made is the general one."""
    if show is not None:
        try:
            return str(show(shown))
        except Exception:
            logger.exception("show_error failed on %s; the general text is sent", shown.error_id)
    return f"{shown.public} (error id {shown.error_id})"
