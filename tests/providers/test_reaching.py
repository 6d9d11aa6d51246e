"""What users give to reach a server: addresses, keys and headers are checked, and no error shows a secret."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.providers.wire_server import Asked, Reply, WireServer, json_reply

from interpose.errors import AuthFailed, ConfigurationError, ProviderError
from interpose.messages import UserMessage
from interpose.models import AnthropicMessages, GoogleGemini, Model, OpenAIChat, OpenAIResponses
from interpose.models.google import sdk
from interpose.models.reaching import shown_url
from interpose.request import ModelRequest

ASKED = ModelRequest(messages=(UserMessage("hi"),))
KINDS = pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, AnthropicMessages, GoogleGemini])
Kind = Callable[..., Model]


def refuse(_: Asked) -> Reply:
    return json_reply({"error": {"message": "no"}}, 400)


async def told_by(kind: Kind, request: ModelRequest = ASKED, **given: Any) -> tuple[Exception, list[Asked]]:
    """Return what a call fails with, and what the server was asked."""
    async with WireServer(refuse) as server:
        with pytest.raises((ProviderError, ConfigurationError)) as caught:
            await kind("m", base_url=server.origin, **given).generate(request)
        return caught.value, server.asked


@KINDS
@pytest.mark.parametrize("key", ["secret\n", "  secret ", "secret\r\n"])
async def test_blanks_around_a_key_are_left_out(kind: Kind, key: str) -> None:
    _, (asked,) = await told_by(kind, api_key=key)
    assert {"Bearer secret", "secret"} & {*asked.headers.values()}


@KINDS
@pytest.mark.parametrize("key", ["sec ret", "“secret”", "sec\0ret", "sec\nret"])
async def test_a_key_that_cannot_be_one_is_told_without_showing_it(kind: Kind, key: str) -> None:
    error, asked = await told_by(kind, api_key=key)
    assert type(error) is AuthFailed
    assert "characters that no key has" in str(error)
    assert "ret" not in str(error).replace("secret", "")
    assert asked == []


@KINDS
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000/v1", "Did you mean 'http://localhost:8000/v1'"),
        ("http://", "must be like"),
        ("http://localhost:99999", "must be like"),
        ("ftp://localhost", "must be like"),
        ("http://local host", "must be like"),
        (5, "got int"),
    ],
)
def test_an_address_that_is_none_is_refused_when_it_is_given(kind: Kind, url: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        kind("m", base_url=url)


@KINDS
@pytest.mark.parametrize("headers", [{"x-team": "a\nb"}, {"x-team": "né"}, {"x team": "a"}, {"x-team": 1}, "x-team: a"])
def test_headers_that_cannot_be_sent_are_refused_when_they_are_given(kind: Kind, headers: Any) -> None:
    with pytest.raises(ConfigurationError, match="extra_headers") as caught:
        kind("m", base_url="http://localhost", extra_headers=headers)
    assert "a\nb" not in str(caught.value)


@KINDS
async def test_headers_of_a_request_are_checked_too(kind: Kind) -> None:
    request = ASKED.with_provider_options({"extra_headers": {"x-token": "secret\n"}})
    error, asked = await told_by(kind, request, api_key="k")
    assert isinstance(error, ConfigurationError)
    assert "secret" not in str(error)
    assert asked == []


@KINDS
async def test_what_goes_beside_and_into_the_body_is_the_same_for_all(kind: Kind) -> None:
    extras = {"extra_headers": {"x-a": "1"}, "extra_query": {"q": "2"}, "extra_body": {"zz": 3}}
    _, (asked,) = await told_by(kind, ASKED.with_provider_options(extras), api_key="k")
    assert asked.headers["x-a"] == "1"
    assert "q=2" in asked.path
    assert asked.body["zz"] == 3
    assert not {"extra_headers", "extra_query", "extra_body"} & asked.body.keys()


@KINDS
async def test_errors_do_not_show_a_password_in_the_address(kind: Kind) -> None:
    with pytest.raises(ProviderError, match=r"cannot reach http://127.0.0.1:9 ") as caught:
        await kind("m", base_url="http://ada:secret@127.0.0.1:9", api_key="k").generate(ASKED)
    assert "secret" not in str(caught.value)


def test_an_address_is_shown_without_name_and_password() -> None:
    assert shown_url("http://a:b@[::1]:80/v1?q=1") == "http://[::1]:80/v1?q=1"
    assert shown_url("http://localhost/v1") == "http://localhost/v1"


async def test_google_does_not_wait_for_a_connection_as_long_as_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "CONNECT_S", 0.3)
    async with WireServer(refuse) as server:  # which speaks no TLS
        model = GoogleGemini("m", base_url=server.origin.replace("http://", "https://"), api_key="k")
        with pytest.raises(ProviderError, match="cannot reach"):
            await model.generate(ASKED)
