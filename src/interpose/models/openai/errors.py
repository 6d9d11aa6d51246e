"""What a failed call means, as an error of ours: from a status and a body, or from an error inside a stream."""

import math
import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from interpose.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    ModelTimeout,
    ProviderDown,
    ProviderError,
    RateLimited,
)

_TOO_LONG_CODES = {"context_length_exceeded", "exceed_context_size_error"}
_TOO_LONG = re.compile(
    r"maximum context length|context (length|window|size)|(prompt|input) is too long|too many (input )?tokens",
    re.IGNORECASE,
)
_NEVER_AGAIN = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}  # waiting does not mend these
_BY_CODE: dict[str, type[ProviderError]] = {
    "invalid_api_key": AuthFailed,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "overloaded": ProviderDown,
    "overloaded_error": ProviderDown,
    "server_error": ProviderDown,
    "internal_error": ProviderDown,
    "invalid_request_error": BadRequest,
}


def error_of(
    message: str,
    *,
    provider: str,
    model: str,
    body: Any = None,
    status_code: int | None = None,
    headers: Mapping[str, str] | None = None,
    now_s: float = 0.0,
) -> ProviderError:
    """Return the error of a refused call, or, without *status_code*, of an error that came inside a stream.

    *body* is the answer's JSON, with the error in it or under `error`; *now_s* is the time since the epoch, from
    which a date in `retry-after` is counted.
    """
    headers = headers or {}
    error = body.get("error", body) if isinstance(body, Mapping) else body
    detail: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    # Some servers put a status where others put a word; the word is then in `type`.
    told = [str(value) for value in (detail.get("code"), detail.get("type")) if value is not None]
    words = [word for word in told if not word.isdigit()]
    inner = next((int(word) for word in told if re.fullmatch(r"[45]\d\d", word)), None)
    kind = _kind(status_code or inner, words, message)
    wait_s = retry_after_s(headers, now_s)
    where = "" if status_code is None else f" with status {status_code}"
    return kind(
        f"{provider}:{model} failed{where}: {message}",
        provider=provider,
        model=model,
        status_code=status_code,
        retry_after_s=wait_s,
        retryable=_retryable(status_code, words),
        request_id=headers.get("x-request-id"),
        code=next(iter([*words, *told]), None),
    )


def _kind(status_code: int | None, words: Iterable[str], message: str) -> type[ProviderError]:
    is_refusal = status_code in (None, 400, 413, 422)
    if _TOO_LONG_CODES.intersection(words) or (is_refusal and _TOO_LONG.search(message)):
        return ContextTooLong
    if status_code is None:
        return next((_BY_CODE[word] for word in words if word in _BY_CODE), ProviderError)
    if status_code in (401, 403):
        return AuthFailed
    if status_code == 429:
        return RateLimited
    if status_code == 408:
        return ModelTimeout
    if status_code >= 500:
        return ProviderDown
    return BadRequest if status_code >= 400 else ProviderError


def _retryable(status_code: int | None, words: Iterable[str]) -> bool | None:
    if _NEVER_AGAIN.intersection(words):
        return False
    if status_code in (409, 425):  # a conflict with another request, or one that came too early
        return True
    return False if status_code == 501 else None  # None leaves it to the kind of error


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return how long the server asks to wait, in seconds: from `retry-after-ms`, or `retry-after` as seconds or date.

    None where it does not ask, or says something that makes no sense; a date that has passed is 0.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    told = headers.get("retry-after")
    seconds = _number(told)
    if seconds is not None or told is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
