"""What failed calls mean, in the words of all vendors, and what each error says to do."""

from typing import Any

import pytest

from interpose.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    ModelTimeout,
    ProviderDown,
    ProviderError,
    RateLimited,
)
from interpose.models.provider_errors import error_of


def told(status: int | None, body: Any, message: str = "no luck", **headers: str) -> ProviderError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return error_of(message, provider="p", model="m", body=body, status_code=status, headers=named)


def anthropic(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "no luck"}, "request_id": "req_1"}


def google(code: int, status: str, *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": "no luck", "status": status, "details": [*details]}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, anthropic("invalid_request_error"), BadRequest, False),
        (401, anthropic("authentication_error"), AuthFailed, False),
        (402, anthropic("billing_error"), AuthFailed, False),
        (403, anthropic("permission_error"), AuthFailed, False),
        (404, anthropic("not_found_error"), BadRequest, False),
        (408, {}, ModelTimeout, True),
        (413, anthropic("request_too_large"), ContextTooLong, False),
        (429, anthropic("rate_limit_error"), RateLimited, True),
        (500, anthropic("api_error"), ProviderDown, True),
        (504, anthropic("timeout_error"), ProviderDown, True),
        (529, anthropic("overloaded_error"), ProviderDown, True),
        (None, anthropic("overloaded_error"), ProviderDown, True),
        (None, anthropic("rate_limit_error"), RateLimited, True),
        (None, anthropic("authentication_error"), AuthFailed, False),
        (400, google(400, "INVALID_ARGUMENT"), BadRequest, False),
        (403, google(403, "PERMISSION_DENIED"), AuthFailed, False),
        (429, google(429, "RESOURCE_EXHAUSTED"), RateLimited, True),
        (503, google(503, "UNAVAILABLE"), ProviderDown, True),
        (None, google(503, "UNAVAILABLE"), ProviderDown, True),
        (None, google(429, "RESOURCE_EXHAUSTED"), RateLimited, True),
        (429, [google(429, "RESOURCE_EXHAUSTED")], RateLimited, True),
        (None, {"code": "server_error", "message": "no luck"}, ProviderDown, True),
        (None, {"code": "invalid_prompt", "message": "no luck"}, BadRequest, False),
        (None, {"code": 502, "message": "no luck"}, ProviderDown, True),
        (200, {}, ProviderError, False),
    ],
)  # fmt: skip
def test_kinds_by_vendor(status: int | None, body: Any, kind: type[ProviderError], retryable: bool) -> None:
    error = told(status, body)
    assert (type(error), error.retryable, error.status_code) == (kind, retryable, status)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "request (9021 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "Input is too long for requested model.",
        "Please reduce the length of the messages or completion.",
    ],
)
def test_requests_that_are_too_long_are_known_by_their_words(message: str) -> None:
    assert type(told(400, {}, message)) is ContextTooLong


@pytest.mark.parametrize("message", ["max_tokens is too large", "Invalid value for 'tokens'", "image exceeds 5 MB"])
def test_other_refusals_are_not_taken_for_too_long(message: str) -> None:
    assert type(told(400, {}, message)) is BadRequest


def test_a_wrong_key_is_known_behind_any_refusal() -> None:
    assert (
        type(told(400, google(400, "INVALID_ARGUMENT"), "API key not valid. Please pass a valid API key."))
        is AuthFailed
    )


def test_waits_in_the_details_are_read() -> None:
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    assert told(429, google(429, "RESOURCE_EXHAUSTED", {"@type": "x"}, wait)).retry_after_s == 34.5
    assert told(429, google(429, "RESOURCE_EXHAUSTED", wait), retry_after="3").retry_after_s == 3


@pytest.mark.parametrize("name", ["x_request_id", "request_id"])
def test_requests_are_named_by_either_header(name: str) -> None:
    assert told(500, {}, **{name: "req_1"}).request_id == "req_1"


@pytest.mark.parametrize(
    ("status", "body", "headers", "advice"),
    [
        (429, {}, {}, "RetryModelCalls"),
        (429, {}, {"retry_after": "5"}, "asks to wait 5 s"),
        (429, {"code": "insufficient_quota"}, {}, "billing"),
        (400, {"code": "context_length_exceeded"}, {}, "ContextWindow"),
        (401, {}, {}, "Check the key"),
        (400, {}, {}, "has to change"),
        (503, {}, {}, "Fallback"),
        (408, {}, {}, "allow more time"),
        (404, {}, {}, "the model's name, and base_url"),
        (409, {}, {}, "Try again"),
        (499, {}, {}, "Try again"),
        (402, {}, {}, "plan and billing"),
    ],
)
def test_each_error_says_what_to_do(status: int, body: Any, headers: dict[str, str], advice: str) -> None:
    error = told(status, body, "no luck.", **headers)
    assert str(error).startswith(f"p:m failed with status {status}: no luck. ")
    assert advice in str(error)


def test_an_error_of_no_kind_says_no_more_than_it_knows() -> None:
    assert str(told(None, {})) == "p:m failed: no luck."


@pytest.mark.parametrize(
    ("message", "wait_s"),
    [
        ("Rate limit reached for m on tokens per min. Please try again in 20s.", 20),
        ("Please try again in 1.5s. Visit the page on limits.", 1.5),
        ("Please try again in 350ms.", 0.35),
        ("Please try again in 6m12.5s.", 372.5),
        ("Please retry in 34.07s.", 34.07),
        ("Please try again in 1h0m2s.", 3602),
        ("Please try again in a moment.", None),
        ("Please try again in 3 days.", None),
    ],
)
def test_waits_that_are_told_in_words_are_read(message: str, wait_s: float | None) -> None:
    assert told(429, {}, message).retry_after_s == wait_s
    assert told(429, {}, message, retry_after="3").retry_after_s == 3


def test_words_about_waiting_count_where_waiting_helps_alone() -> None:
    assert told(400, {}, "The tool said: try again in 5s.").retry_after_s is None


@pytest.mark.parametrize(
    ("status", "word", "retryable"), [(529, "false", False), (400, "true", True), (500, "?", True)]
)
def test_a_server_that_says_whether_to_try_again_is_believed(status: int, word: str, retryable: bool) -> None:
    assert told(status, {}, x_should_retry=word).retryable is retryable


def test_an_account_without_money_is_no_fault_of_the_request() -> None:
    error = told(400, anthropic("invalid_request_error"), "Your credit balance is too low to access the API.")
    assert type(error) is AuthFailed
    assert "plan and billing" in str(error)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<html>\n<head><title>502 Bad\n Gateway</title></head><body><h1>x</h1></body></html>", "502 Bad Gateway"),
        ("<!DOCTYPE html><html><body><h1>Gone &amp; away</h1><p>nginx</p></body></html>", "Gone & away nginx"),
        ("<html><head><script>var a = 1</script><style>p {}</style></head></html>", "an HTML page without text"),
    ],
)
def test_of_a_page_of_a_proxy_its_title_is_told(page: str, said: str) -> None:
    assert str(told(502, page, page)).startswith(f"p:m failed with status 502: {said}. Try again later")
