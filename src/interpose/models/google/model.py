"""The model: sends a request through the official SDK and reads the answer."""

import importlib.util
import os
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from interpose.errors import AuthFailed, ConfigurationError, ProviderError
from interpose.models.base import Finish, Model, ModelChunk, ModelProfile, as_stream, fold
from interpose.models.clients import ClientPerLoop
from interpose.models.connection import close_reading, failure_of, trouble_of
from interpose.models.google.names import wire_names
from interpose.models.google.reading import Reading, from_wire
from interpose.models.google.sdk import GeminiClient, refusal_of
from interpose.models.google.wire import to_wire
from interpose.models.guard import check_real_calls
from interpose.models.profiles import known_profile, profile_for
from interpose.models.provider_errors import error_of
from interpose.models.reaching import checked_headers, checked_key, checked_url, shown_url
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from google.genai import Client

OFFICIAL_HOST = "generativelanguage.googleapis.com"
NO_KEY = "none"  # self-hosted servers ask for no key, but the SDK sends one
_NAME = re.compile(r"[\w.@:/-]+", re.ASCII)


class GoogleGemini(Model):
    """A model behind the Gemini API: Google's own, or a compatible server by *base_url*.

    The key is *api_key*, or the variable GEMINI_API_KEY or GOOGLE_API_KEY; with a *base_url* it may be missing. A ready
    *client* of the SDK (for Vertex AI, proxies and the like) is used as it is and stays the caller's to close.
    *profile* says what the model is; else it is told from its name, on Google's own server or where *provider* is
    named; of others nothing is known. *timeout_s* is the longest silence of the server, ten minutes by default. The
    SDK's own retries are off.

    Raises:
        ConfigurationError: the SDK is not installed, *name* is no name of a model, or *base_url* or *extra_headers* are
            wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "Client | None" = None,
        profile: ModelProfile | None = None,
        timeout_s: float | None = None,
        extra_headers: Mapping[str, str] | None = None,
        provider: str = "google",
    ) -> None:
        _check_name(name)
        if client is None and not _is_installed():
            need = "needs the package 'google-genai': pip install 'interpose[google]'"
            raise ConfigurationError(f"{provider}:{name} {need}")
        self.provider = provider
        self.name = name
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._headers = checked_headers(extra_headers)
        self._given = GeminiClient(client, self._headers, timeout_s) if client is not None else None
        self._clients: ClientPerLoop[GeminiClient] = ClientPerLoop(self._make_client)
        if client is None:
            checked_url(self.base_url)
        self.profile = profile or self._listed_profile()

    def _listed_profile(self) -> ModelProfile | None:
        """Return what is known of the model; nothing where a server of one's own may mean another by its name."""
        plain = self.name.rpartition("/")[2]
        if self._given is None and self._is_official():
            return profile_for("google", plain)
        own = self._given is not None or self.provider != "google"
        return known_profile("google" if self.provider == "google" else self.provider, plain) if own else None

    def _is_official(self) -> bool:
        return urlsplit(self.base_url).hostname == OFFICIAL_HOST

    @property
    def base_url(self) -> str:
        """Where requests go; of a client that was given, where it goes by default."""
        return self._base_url or os.environ.get("GOOGLE_GEMINI_BASE_URL") or f"https://{OFFICIAL_HOST}"

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the answer as it comes. Leaving early closes the connection, which stops the server.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        model, body = self._body(request)
        reading = self._reading(request)
        finish: Finish | None = None
        with self._failures(request) as seen:
            client = await self._client(request)
            stream = await client.stream(model, body, _headers(request), _query(request))
            seen.update(stream.headers)
            chunks = aiter(stream)
            try:
                async for data in chunks:
                    self._check(request, data)
                    for chunk in from_wire(data, reading):
                        if chunk.__class__ is Finish:
                            finish = chunk  # the usage may still come, or another reason
                        else:
                            yield chunk
            finally:
                await close_reading(chunks, stream.close)
        if finish is None and "event-stream" not in seen.get("content-type", ""):
            raise self._no_answer(request, f"an answer of the type {seen.get('content-type')!r}")
        if finish is not None:
            yield finish

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer, asked for as a whole.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        model, body = self._body(request)
        with self._failures(request):
            client = await self._client(request)
            data = await client.generate(model, body, _headers(request), _query(request))
            self._check(request, data)
            chunks = list(from_wire(data, self._reading(request)))
        return await fold(as_stream(chunks), request)

    def _body(self, request: ModelRequest) -> tuple[str, dict[str, Any]]:
        model = request.model or self.name
        check_real_calls(self.provider, model)
        _check_name(model)
        return model, to_wire(request if request.model else request.replace(model=model))

    def _reading(self, request: ModelRequest) -> Reading:
        return Reading({wire: own for own, wire in wire_names(request.tools).items()})

    async def _client(self, request: ModelRequest) -> GeminiClient:
        if self._given is not None:
            return self._given
        try:
            return await self._clients.get()
        except ConfigurationError:
            raise
        except ValueError as error:  # the SDK found no credentials
            raise AuthFailed(
                f"{self.provider}:{self.name} has no API key ({error}). Set the environment variable GEMINI_API_KEY, "
                "or pass GoogleGemini(name, api_key=...); for a server that needs none, pass base_url=... alone.",
                **self._where(request),
            ) from error

    def _make_client(self) -> GeminiClient:
        given = self._api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY") or ""
        key = checked_key(given, self.provider, self.name) or (None if self._is_official() else NO_KEY)
        return GeminiClient.make(key, self._base_url, self._headers, self._timeout_s)

    @contextmanager
    def _failures(self, request: ModelRequest) -> Iterator[dict[str, str]]:
        """Turn what the SDK raises into our errors; yields a dict for the headers of an answer that has begun."""
        headers: dict[str, str] = {}
        try:
            yield headers
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is not None:
                raise self._error(request, **refusal) from error
            if trouble_of(error) is not None:
                raise self._connection_failure(request, error, headers) from error
            if isinstance(error, ConfigurationError) or not isinstance(
                error, ValueError | TypeError | KeyError | AttributeError
            ):
                raise
            raise self._no_answer(request, repr(error)) from error

    def _check(self, request: ModelRequest, data: Any) -> None:
        """Raise the error that came in place of a chunk."""
        if isinstance(data, list) and data and isinstance(data[0], Mapping):
            data = data[0]
        if not isinstance(data, Mapping):
            raise ValueError(f"{str(data)[:200]!r}")
        error = data.get("error")
        if error:
            message = error.get("message") if isinstance(error, Mapping) else error
            raise self._error(request, str(message or error)[:2000], body=data)

    def _error(self, request: ModelRequest, message: str, **told: Any) -> ProviderError:
        return error_of(message, **self._where(request), now_s=time.time(), **told)

    def _no_answer(self, request: ModelRequest, what: str) -> ProviderError:
        message = f"{shown_url(self.base_url)} sent something that is no answer of the API: {what}. Is base_url right?"
        return ProviderError(message, **self._where(request), retryable=True)

    def _connection_failure(
        self, request: ModelRequest, error: BaseException, headers: Mapping[str, str]
    ) -> ProviderError:
        told: dict[str, Any] = {"base_url": self.base_url, "has_begun": bool(headers)}
        return failure_of(error, **told, **self._where(request))

    def _where(self, request: ModelRequest) -> dict[str, Any]:
        return {"provider": self.provider, "model": request.model or self.name}


def _check_name(name: str) -> None:
    if not name:
        raise ConfigurationError("GoogleGemini needs the name of a model, for instance 'google:gemini-3.5-flash'")
    if not _NAME.fullmatch(name) or ".." in name:
        raise ConfigurationError(f"{name!r} is no name of a model: it takes letters, digits and '.', '-', '_', '/'")


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("google.genai") is not None
    except ModuleNotFoundError:  # no package of Google at all
        return False


def _headers(request: ModelRequest) -> dict[str, str]:
    return checked_headers(request.settings.provider_options.get("extra_headers"))


def _query(request: ModelRequest) -> dict[str, str]:
    return {**(request.settings.provider_options.get("extra_query") or {})}
