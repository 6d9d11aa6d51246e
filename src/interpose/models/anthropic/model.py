"""The model: sends a request through the official SDK and reads the answer."""

import importlib.util
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from interpose.errors import AuthFailed, ConfigurationError, ProviderError
from interpose.models.anthropic.reading import Reading, from_wire
from interpose.models.anthropic.wire import DEFAULT_MAX_TOKENS, forced_output, to_wire
from interpose.models.base import Finish, Model, ModelChunk, ModelProfile, as_stream, fold
from interpose.models.clients import ClientPerLoop
from interpose.models.connection import close_reading, failure_of, trouble_of
from interpose.models.guard import check_real_calls
from interpose.models.profiles import known_profile, profile_for
from interpose.models.provider_errors import error_of
from interpose.models.reaching import checked_headers, checked_key, checked_url, shown_url
from interpose.models.wire_names import wire_names
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream

PATH = "/v1/messages"
OFFICIAL_HOST = "api.anthropic.com"
NO_KEY = "none"  # self-hosted servers ask for no key, but the SDK sends one
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
SAMPLING_VERSION = "2023-06-01"
"""The last version of the API that takes `SAMPLING`, for the models that do; the one that the SDK asks for does not.

Source: the vendor's guide to migrating to API version 2026-10-21, read 2026-11.
"""
MAX_TOKENS_AT_ONCE = 21_333
"""The longest answer that the vendor gives as a whole; longer ones must be streamed, or they outlast the connection.

Source: `_calculate_nonstreaming_timeout` of the `anthropic` package 2.14 (ten minutes at 128,000 tokens an hour).
"""


class AnthropicMessages(Model):
    """A model behind the Messages API: Anthropic's own, or any compatible server by *base_url*.

    The key is *api_key*, or what the SDK finds (ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, a profile); with a *base_url*
    of another server it may be missing. A ready *client* of the SDK (for Bedrock, Vertex, proxies and the like) is used
    as it is, stays the caller's to close, and belongs to one event loop. *profile* says what the model is; else it is
    told from its name, on Anthropic's own server or where *provider* is named; of others nothing is known.
    *timeout_s* is the longest silence of the server; None leaves it to the SDK. The SDK's own retries are off.

    Raises:
        ConfigurationError: the SDK is not installed, *name* is empty, or *base_url* or *extra_headers* are wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "AsyncAnthropic | None" = None,
        profile: ModelProfile | None = None,
        timeout_s: float | None = None,
        extra_headers: Mapping[str, str] | None = None,
        provider: str = "anthropic",
    ) -> None:
        if not name:
            raise ConfigurationError("AnthropicMessages needs the name of a model, as in 'anthropic:claude-sonnet-5'")
        if client is None and importlib.util.find_spec("anthropic") is None:
            need = "needs the package 'anthropic': pip install 'interpose[anthropic]'"
            raise ConfigurationError(f"{provider}:{name} {need}")
        self.provider = provider
        self.name = name
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._headers = checked_headers(extra_headers)
        self._given = client.with_options(max_retries=0, default_headers=self._headers) if client is not None else None
        self._clients: ClientPerLoop[AsyncAnthropic] = ClientPerLoop(self._make_client)
        if client is None:
            checked_url(self.base_url)
        self.profile = profile or self._listed_profile()

    def _listed_profile(self) -> ModelProfile | None:
        """Return what is known of the model; nothing where a server of one's own may mean another by its name."""
        if self._is_official():
            return profile_for("anthropic", self.name)
        by_name = known_profile("anthropic", self.name) if self._given is not None else None
        return by_name or (None if self.provider == "anthropic" else known_profile(self.provider, self.name))

    def _is_official(self) -> bool:
        return urlsplit(self.base_url).hostname == OFFICIAL_HOST

    @property
    def base_url(self) -> str:
        """Where requests go."""
        if self._given is not None:
            return str(self._given.base_url)
        return self._base_url or os.environ.get("ANTHROPIC_BASE_URL") or f"https://{OFFICIAL_HOST}"

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the answer as it comes. Leaving early closes the connection, which stops the server.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        body = {**self._body(request), "stream": True}
        reading = self._reading(request)
        finish: Finish | None = None
        with self._failures(request) as seen:
            stream = await self._open(request, body)
            seen.update(stream.response.headers)
            events = aiter(stream)
            try:
                async for event in events:
                    for chunk in from_wire(cast(Mapping[str, Any], event), reading):
                        if chunk.__class__ is Finish:
                            finish = chunk  # the connection is still to be read to its end
                        else:
                            yield chunk
            finally:
                await close_reading(events, stream.close)
        if finish is None and "event-stream" not in seen.get("content-type", ""):
            raise self._no_answer(request, f"an answer of the type {seen.get('content-type')!r}")
        if finish is not None:
            yield finish

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer, asked for as a whole where it may not get too long for that.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        body = self._body(request)
        if body["max_tokens"] > MAX_TOKENS_AT_ONCE:
            return await fold(self.stream(request), request)
        with self._failures(request):
            client = await self._client(request)
            data = await client.post(PATH, cast_to=object, body=body, options=_options(request, body))
            chunks = list(from_wire(cast(Mapping[str, Any], data), self._reading(request)))
        return await fold(as_stream(chunks), request)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        check_real_calls(self.provider, request.model or self.name)
        profile = self._profile_of(request)
        limit = profile.max_output_tokens if profile is not None else None
        named = request if request.model else request.replace(model=self.name)
        return to_wire(named, max_tokens=limit or DEFAULT_MAX_TOKENS, native_output=self._has_native_output(request))

    def _reading(self, request: ModelRequest) -> Reading:
        names = {wire: own for own, wire in wire_names(request.tools).items()}
        return Reading(names, forced_output(request, native_output=self._has_native_output(request)))

    def _profile_of(self, request: ModelRequest) -> ModelProfile | None:
        other = request.model not in ("", self.name)
        return known_profile("anthropic", request.model) if other else self.profile

    def _has_native_output(self, request: ModelRequest) -> bool:
        profile = self._profile_of(request)
        return profile is not None and profile.supports_structured_output

    async def _open(self, request: ModelRequest, body: dict[str, Any]) -> "AsyncStream[object]":
        from anthropic import AsyncStream

        client = await self._client(request)
        kind = AsyncStream[object]
        options = _options(request, body)
        return await client.post(PATH, cast_to=object, body=body, options=options, stream=True, stream_cls=kind)

    async def _client(self, request: ModelRequest) -> "AsyncAnthropic":
        if self._given is not None:
            return self._given
        client = await self._clients.get()
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise AuthFailed(
                f"{self.provider}:{self.name} has no API key. Set the environment variable ANTHROPIC_API_KEY, or pass "
                "AnthropicMessages(name, api_key=...); for a server that needs none, pass base_url=... alone.",
                **self._where(request),
            )
        return client

    def _make_client(self) -> "AsyncAnthropic":
        from anthropic import NOT_GIVEN, AsyncAnthropic

        more: dict[str, Any] = {"timeout": NOT_GIVEN if self._timeout_s is None else self._timeout_s}
        client = AsyncAnthropic(
            api_key=self._api_key or None, base_url=self.base_url, max_retries=0, default_headers=self._headers, **more
        )
        if client.api_key is not None:
            client.api_key = checked_key(client.api_key, self.provider, self.name) or None
        if client.auth_token is not None:
            client.auth_token = checked_key(client.auth_token, self.provider, self.name) or None
        has_key = client.api_key is not None or client.auth_token is not None or client.credentials is not None
        if not has_key and not self._is_official():
            client.api_key = NO_KEY
        return client

    @contextmanager
    def _failures(self, request: ModelRequest) -> Iterator[dict[str, str]]:
        """Turn what the SDK raises into our errors; yields a dict for the headers of an answer that has begun."""
        import anthropic

        headers: dict[str, str] = {}
        try:
            yield headers
        except anthropic.APIStatusError as error:
            status = error.status_code if error.status_code >= 400 else None  # an error inside a stream has none
            raise self._error(request, error, status) from error
        except anthropic.APIConnectionError as error:
            raise self._connection_failure(request, error.__cause__ or error, headers) from error
        except anthropic.APIError as error:
            raise ProviderError(
                f"{self.provider}:{self.name} failed: {error.message}", **self._where(request)
            ) from error
        except anthropic.CredentialsError as error:
            raise AuthFailed(
                f"{self.provider}:{self.name} has no credentials: {error}", **self._where(request)
            ) from error
        except anthropic.AnthropicError as error:
            raise ConfigurationError(f"{self.provider}:{self.name}: {error}") from error
        except Exception as error:
            if trouble_of(error) is not None:  # the SDK hands on errors that come while an answer is read
                raise self._connection_failure(request, error, headers) from error
            if isinstance(error, ConfigurationError) or not isinstance(
                error, ValueError | TypeError | KeyError | AttributeError
            ):
                raise
            raise self._no_answer(request, repr(error)) from error

    def _error(self, request: ModelRequest, error: Any, status: int | None) -> ProviderError:
        body = error.body
        detail = body.get("error") if isinstance(body, Mapping) else None
        told = detail.get("message") if isinstance(detail, Mapping) else None
        message = str(told or (body if isinstance(body, str) else "") or error.message)[:2000]
        return error_of(
            message,
            **self._where(request),
            body=body,
            status_code=status,
            headers=error.response.headers,
            now_s=time.time(),
            request_id=(body.get("request_id") if isinstance(body, Mapping) else None) or error.request_id,
        )

    def _no_answer(self, request: ModelRequest, what: str) -> ProviderError:
        message = f"{shown_url(self.base_url)} sent something that is no message of the API: {what}. Is base_url right?"
        return ProviderError(message, **self._where(request), retryable=True)

    def _connection_failure(
        self, request: ModelRequest, error: BaseException, headers: Mapping[str, str]
    ) -> ProviderError:
        told: dict[str, Any] = {"base_url": self.base_url, "has_begun": bool(headers)}
        return failure_of(error, **told, **self._where(request), request_id=headers.get("request-id"))

    def _where(self, request: ModelRequest) -> dict[str, Any]:
        return {"provider": self.provider, "model": request.model or self.name}


def _options(request: ModelRequest, body: Mapping[str, Any]) -> Any:
    given = request.settings.provider_options
    headers = checked_headers(given.get("extra_headers"))
    if given.get("betas"):
        headers["anthropic-beta"] = ",".join(given["betas"])
    if SAMPLING & body.keys():
        headers.setdefault("anthropic-version", SAMPLING_VERSION)
    known = {"headers": headers, "params": given.get("extra_query")}
    return {key: value for key, value in known.items() if value}
