"""What a failed call means, as an error of ours: from a status and a body, or from an error inside a stream.

One mapping for all providers. Vendors agree on the statuses and differ in the words; the words of all of them stand
here side by side, since routers and compatible servers mix them.
"""

import html
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

_TOO_LONG_CODES = {"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"}
_TOO_LONG = re.compile(
    r"maximum context length|context[ _](length|window|size|limit)|(prompt|input|request) is too long"
    r"|too many (input )?tokens|(input )?token count .{0,40}exceeds"
    r"|exceeds? the (model's )?(maximum|context|input token)"
    r"|input length and `?max_tokens`? exceed|reduce the length of the (messages|prompt|input)",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"api[ _-]?key.{0,20}(invalid|not valid|expired|missing)|(invalid|expired).{0,12}api[ _-]?key", re.I
)
_NO_MONEY = re.compile(r"credit balance is too low|insufficient (credit|balance|fund)", re.I)
_WAIT = re.compile(
    r"(?:try again|retry) in (?=\d)(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s|(\d+(?:\.\d+)?)ms)?\b", re.I
)
"""Hours, minutes, seconds or milliseconds, as vendors write a wait into the message of an error."""
_PAGE = re.compile(r"\s*<(!doctype html|html|head|body)\b", re.I)
_NEVER_AGAIN = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"}

# Sources: the vendors' pages on errors (platform.openai.com/docs/guides/error-codes, docs.claude.com/en/api/errors,
# ai.google.dev/gemini-api/docs/troubleshooting), read 2026-11.
_BY_CODE: dict[str, type[ProviderError]] = {
    "invalid_api_key": AuthFailed,
    "authentication_error": AuthFailed,
    "permission_error": AuthFailed,
    "permission_denied": AuthFailed,
    "unauthenticated": AuthFailed,
    "billing_error": AuthFailed,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "rate_limit_reached": RateLimited,
    "insufficient_quota": RateLimited,
    "too_many_requests": RateLimited,
    "resource_exhausted": RateLimited,
    "overloaded": ProviderDown,
    "overloaded_error": ProviderDown,
    "server_error": ProviderDown,
    "server_overloaded": ProviderDown,
    "service_unavailable": ProviderDown,
    "internal_error": ProviderDown,
    "internal_server_error": ProviderDown,
    "internal": ProviderDown,
    "unavailable": ProviderDown,
    "api_error": ProviderDown,
    "vector_store_timeout": ProviderDown,
    "timeout_error": ProviderDown,
    "deadline_exceeded": ProviderDown,
    "invalid_request_error": BadRequest,
    "invalid_argument": BadRequest,
    "failed_precondition": BadRequest,
    "invalid_prompt": BadRequest,
    "not_found_error": BadRequest,
    "not_found": BadRequest,
    "model_not_found": BadRequest,
    "request_too_large": ContextTooLong,
}

_ADVICE: dict[type[ProviderError], str] = {
    RateLimited: "Try again later, as RetryModelCalls() does, or send less at once.",
    ContextTooLong: "Send less: ContextWindow(...) cuts the history, Summarization(...) sums it up.",
    AuthFailed: "Check the key, and that it may use this model.",
    BadRequest: "The request itself has to change; the same one will be refused again.",
    ProviderDown: "Try again later, as RetryModelCalls() does, or turn to another model with Fallback(...).",
    ModelTimeout: "Try again, or allow more time.",
}
_BILLING = "Waiting does not mend this: see the account's plan and billing."


def error_of(
    message: str,
    *,
    provider: str,
    model: str,
    body: Any = None,
    status_code: int | None = None,
    headers: Mapping[str, str] | None = None,
    now_s: float = 0.0,
    request_id: str | None = None,
) -> ProviderError:
    """Return the error of a refused call, or, without *status_code*, of an error that came inside a stream.

    *body* is the answer's JSON, with the error in it or under `error`; *now_s* is the time since the epoch, from
    which a date in `retry-after` is counted; keys of *headers* are in lower case. *request_id* is one told elsewhere.
    """
    headers = headers or {}
    body = body[0] if isinstance(body, list) and body else body  # as Gemini's compatible server wraps its errors
    error = body.get("error") or body if isinstance(body, Mapping) else body
    detail: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    # Some servers put a status where others put a word; the word is then in `type` or `status`.
    told = [str(value) for value in map(detail.get, ("code", "type", "status")) if value is not None]
    words = [word for word in told if not word.isdigit()]
    inner = next((int(word) for word in told if re.fullmatch(r"[45]\d\d", word)), None)
    kind = _kind(status_code or inner, [word.lower() for word in words], message)
    wait_s = retry_after_s(headers, now_s)
    wait_s = _wait_in(detail) if wait_s is None else wait_s
    wait_s = _wait_told(message) if wait_s is None and kind in (RateLimited, ProviderDown) else wait_s
    retryable = _retryable(status_code, [word.lower() for word in words], headers.get("x-should-retry"))
    where = "" if status_code is None else f" with status {status_code}"
    is_unpaid = status_code == 402 or (kind is AuthFailed and _NO_MONEY.search(message) is not None)
    advice = _BILLING if is_unpaid else _advice(kind, status_code, retryable, wait_s)
    return kind(
        f"{provider}:{model} failed{where}: {_readable(message).rstrip('.')}. {advice}".rstrip(),
        provider=provider,
        model=model,
        status_code=status_code,
        retry_after_s=wait_s,
        retryable=retryable,
        request_id=request_id or headers.get("x-request-id") or headers.get("request-id"),
        code=next(iter([*words, *told]), None),
    )


def _advice(kind: type[ProviderError], status_code: int | None, retryable: bool | None, wait_s: float | None) -> str:
    if kind is RateLimited and retryable is False:
        return _BILLING
    if kind is BadRequest and status_code == 404:
        return "Check the model's name, and base_url where one is set."
    if kind is BadRequest and retryable:
        return _ADVICE[ProviderDown]
    if kind is RateLimited and wait_s is not None:
        return f"The provider asks to wait {wait_s:g} s; RetryModelCalls() does so."
    return _ADVICE.get(kind, "")


def _kind(status_code: int | None, words: list[str], message: str) -> type[ProviderError]:
    is_refusal = status_code in (None, 400, 413, 422)
    if _TOO_LONG_CODES.intersection(words) or (is_refusal and _TOO_LONG.search(message)):
        return ContextTooLong
    if status_code is None:
        return next((_BY_CODE[word] for word in words if word in _BY_CODE), ProviderError)
    is_no_access = _BAD_KEY.search(message) or _NO_MONEY.search(message)
    if status_code in (401, 402, 403) or (status_code == 400 and is_no_access):
        return AuthFailed
    if status_code == 413:
        return ContextTooLong
    if status_code == 429:
        return RateLimited
    if status_code == 408:
        return ModelTimeout
    if status_code >= 500 or status_code == 499:  # 499: the vendor itself gave the request up
        return ProviderDown
    return BadRequest if status_code >= 400 else ProviderError


def _retryable(status_code: int | None, words: Iterable[str], told: str | None) -> bool | None:
    if told in ("true", "false"):
        return told == "true"
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


def _wait_in(error: Mapping[str, Any]) -> float | None:
    """Return the wait that an error's own details ask for, as Google writes it: `{"retryDelay": "34s"}`."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str):
            return _number(delay.removesuffix("s"))
    return None


def _wait_told(message: str) -> float | None:
    """Return the wait that a message asks for in words, in seconds."""
    found = _WAIT.search(message)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds, milliseconds = (float(one or 0) for one in found.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _readable(message: str) -> str:
    """Return *message*, or of a page that a proxy sent instead its title, else the beginning of its text."""
    if _PAGE.match(message) is None:
        return message.strip()
    title = re.search(r"<title[^>]*>(.*?)</title>", message, re.I | re.S)
    text = title[1] if title else re.sub(r"<(script|style)\b.*?(</\1>|$)", " ", message, flags=re.I | re.S)
    plain = " ".join(html.unescape(re.sub(r"<[^>]*>?", " ", text)).split())
    return plain[:200] or "an HTML page without text"


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
