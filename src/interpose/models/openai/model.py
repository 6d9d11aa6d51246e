"""The model: sends a request through the official SDK and reads the answer."""

import importlib.util
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from interpose.errors import AuthFailed, ConfigurationError, ModelTimeout, ProviderDown, ProviderError
from interpose.models.base import (
    Finish,
    MessageStart,
    Model,
    ModelChunk,
    ModelProfile,
    as_stream,
    fold,
)
from interpose.models.clients import ClientPerLoop
from interpose.models.guard import check_real_calls
from interpose.models.openai.dialect import COMPATIBLE, OFFICIAL, Dialect
from interpose.models.openai.wire import from_wire, to_wire
from interpose.models.profiles import known_profile, profile_for
from interpose.models.provider_errors import error_of
from interpose.models.wire_names import wire_names
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

PATH = "/chat/completions"
OFFICIAL_HOST = "api.openai.com"
NO_KEY = "none"  # self-hosted servers ask for no key, but the SDK sends one


class OpenAIChat(Model):
    """A model behind Chat Completions: OpenAI's own, or any compatible server by *base_url*.

    The key is *api_key* or the variable OPENAI_API_KEY; with a *base_url* it may be missing. A ready *client* of the
    SDK (for Azure, proxies and the like) is used as it is, stays the caller's to close, and belongs to one event loop.
    *profile* says what the model is; else it is told from the names of *provider* and model, of OpenAI's own server or
    where *provider* is named (as "groq"); of others nothing is known.
    *timeout_s* is the longest silence of the server; None leaves it to the SDK. The SDK's own retries are off.
    *dialect* says what the server does differently; by default it is told from *base_url*.

    Raises:
        ConfigurationError: the SDK is not installed, or *name* is empty.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "AsyncOpenAI | None" = None,
        profile: ModelProfile | None = None,
        dialect: Dialect | None = None,
        timeout_s: float | None = None,
        extra_headers: Mapping[str, str] | None = None,
        provider: str = "openai",
    ) -> None:
        if not name:
            raise ConfigurationError("OpenAIChat needs the name of a model, for instance 'openai:gpt-5.5'")
        if client is None and importlib.util.find_spec("openai") is None:
            raise ConfigurationError(f"{provider}:{name} needs the package 'openai': pip install 'interpose[openai]'")
        self.provider = provider
        self.name = name
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._headers = dict(extra_headers or {})
        self._given = client.with_options(max_retries=0, default_headers=self._headers) if client is not None else None
        self._clients: ClientPerLoop[AsyncOpenAI] = ClientPerLoop(self._make_client)
        is_official = urlsplit(self.base_url).hostname == OFFICIAL_HOST
        self.dialect = dialect or (OFFICIAL if is_official or self._given is not None else COMPATIBLE)
        self.profile = profile or self._listed_profile(is_official)

    def _listed_profile(self, is_official: bool) -> ModelProfile | None:
        """Return what is known of the model; nothing where a server of one's own may mean another by its name."""
        if is_official:
            return profile_for("openai", self.name)
        return None if self.provider == "openai" else known_profile(self.provider, self.name)

    @property
    def base_url(self) -> str:
        """Where requests go."""
        if self._given is not None:
            return str(self._given.base_url)
        return self._base_url or os.environ.get("OPENAI_BASE_URL") or f"https://{OFFICIAL_HOST}/v1"

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the answer as it comes. Leaving early closes the connection, which stops the server.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        body = self._body(request)
        body["stream"] = True
        body.setdefault("stream_options", {"include_usage": True})
        names = _own_names(request)
        finish: Finish | None = None
        message_id = ""
        with self._failures(request) as seen:
            stream = await self._open(request, body)
            seen.update(stream.response.headers)
            try:
                async for data in stream:
                    for chunk in _read(data, names):
                        if isinstance(chunk, Finish):
                            finish = chunk  # the usage is still to come
                        elif not isinstance(chunk, MessageStart):
                            yield chunk
                        elif chunk.id != message_id:
                            message_id = chunk.id
                            yield chunk
            finally:
                await stream.close()
        if finish is not None:
            yield finish

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer, asked for as a whole.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        body = self._body(request)
        with self._failures(request):
            client = await self._client(request)
            data = await client.post(PATH, cast_to=object, body=body, options=_options(request))
            chunks = _read(data, _own_names(request))
        if isinstance(data, Mapping) and data.get("error"):
            raise self._error(request, _message(data["error"]), body=data)
        return await fold(as_stream(chunks), request)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        check_real_calls(self.provider, request.model or self.name)
        return to_wire(request if request.model else request.replace(model=self.name), self.dialect)

    async def _open(self, request: ModelRequest, body: dict[str, Any]) -> "AsyncStream[object]":
        from openai import AsyncStream

        client = await self._client(request)
        options = _options(request)
        kind = AsyncStream[object]
        return await client.post(PATH, cast_to=object, body=body, options=options, stream=True, stream_cls=kind)

    async def _client(self, request: ModelRequest) -> "AsyncOpenAI":
        if self._given is not None:
            return self._given
        if not self._key():
            raise AuthFailed(
                f"{self.provider}:{self.name} has no API key. Set the environment variable OPENAI_API_KEY, or pass "
                "OpenAIChat(name, api_key=...); for a server that needs none, pass base_url=... alone.",
                provider=self.provider,
                model=request.model or self.name,
            )
        return await self._clients.get()

    def _key(self) -> str | None:
        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        return key or (None if urlsplit(self.base_url).hostname == OFFICIAL_HOST else NO_KEY)

    def _make_client(self) -> "AsyncOpenAI":
        from openai import NOT_GIVEN, AsyncOpenAI

        timeout = NOT_GIVEN if self._timeout_s is None else self._timeout_s
        return AsyncOpenAI(
            api_key=self._key(),
            base_url=self.base_url,
            max_retries=0,
            default_headers=self._headers,
            timeout=timeout,
        )

    @contextmanager
    def _failures(self, request: ModelRequest) -> Iterator[dict[str, str]]:
        """Turn what the SDK raises into our errors; yields a dict for the headers of an answer that has begun."""
        import openai

        headers: dict[str, str] = {}
        try:
            yield headers
        except openai.APIStatusError as error:
            message = error.message.partition(" - ")[2] or error.response.text[:500] or error.message
            response = error.response
            raise self._error(
                request, message, body=error.body, status_code=response.status_code, headers=response.headers
            ) from error
        except openai.APITimeoutError as error:
            cause = type(error.__cause__).__name__
            if cause == "ConnectTimeout":
                raise self._unreachable(request, cause) from error
            message = f"{self.base_url} was silent for longer than the time limit; timeout_s= sets it"
            raise ModelTimeout(message, **self._where(request)) from error
        except openai.APIConnectionError as error:
            cause = str(error.__cause__ or error) or type(error.__cause__).__name__
            if not headers:
                raise self._unreachable(request, cause) from error
            message = f"the connection to {self.base_url} broke while the answer came in: {cause}"
            raise ProviderDown(message, **self._where(request), request_id=headers.get("x-request-id")) from error
        except openai.APIError as error:
            raise self._error(request, error.message, body=error.body, headers=headers) from error
        except openai.OpenAIError as error:
            raise ConfigurationError(f"{self.provider}:{self.name}: {error}") from error
        except ValueError as error:
            message = f"{self.base_url} sent something that is no chat completion: {error}. Is base_url right?"
            raise ProviderError(message, **self._where(request), retryable=True) from error

    def _error(self, request: ModelRequest, message: str, **told: Any) -> ProviderError:
        return error_of(message, **self._where(request), now_s=time.time(), **told)

    def _unreachable(self, request: ModelRequest, cause: str) -> ProviderDown:
        return ProviderDown(
            f"cannot reach {self.base_url} ({cause}). Check that the server runs there and that base_url is right.",
            **self._where(request),
        )

    def _where(self, request: ModelRequest) -> dict[str, Any]:
        return {"provider": self.provider, "model": request.model or self.name}


def _own_names(request: ModelRequest) -> dict[str, str]:
    return {wire: own for own, wire in wire_names(request.tools).items()}


def _options(request: ModelRequest) -> Any:
    given = request.settings.provider_options
    known = {"headers": given.get("extra_headers"), "params": given.get("extra_query")}
    return {"security": {"bearer_auth": True}, **{key: value for key, value in known.items() if value}}


def _read(data: object, names: Mapping[str, str]) -> list[ModelChunk]:
    try:
        return list(from_wire(cast(Mapping[str, Any], data), names))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{str(data)[:200]!r}") from error


def _message(error: Any) -> str:
    return str(error.get("message") or error) if isinstance(error, Mapping) else str(error)
