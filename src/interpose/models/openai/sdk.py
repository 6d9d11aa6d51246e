"""Calls of one server through the official SDK, and what fails in them as errors of ours."""

import importlib.util
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from interpose.errors import (
    AuthFailed,
    BadRequest,
    ConfigurationError,
    ModelTimeout,
    ProviderDown,
    ProviderError,
)
from interpose.models.clients import ClientPerLoop
from interpose.models.connection import close_reading
from interpose.models.openai.reading import Nonsense
from interpose.models.provider_errors import error_of
from interpose.models.reaching import checked_headers, checked_key, checked_url, shown_url
from interpose.text import clean_value

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

OFFICIAL_HOST = "api.openai.com"
_NO_STREAM = ("application/json", "text/html")
NO_KEY = "none"  # self-hosted servers ask for no key, but the SDK sends one


class Events:
    """The events of a stream, each as JSON, and the *headers* that came before them.

    It reads the SDK's own iterator. A loop over the SDK's stream would stand in a generator more, which nobody closes.
    """

    __slots__ = ("_next", "headers")

    def __init__(self, stream: "AsyncStream[object]") -> None:
        self.headers: Mapping[str, str] = stream.response.headers
        self._next: Callable[[], Awaitable[object]] = stream.__anext__

    @classmethod
    def of_whole(cls, data: object, headers: Mapping[str, str]) -> Self:
        """Return the stream of a server that does not stream, and answers with *data* alone."""
        events = cls.__new__(cls)
        left = [data]

        async def next_one() -> object:
            if not left:
                raise StopAsyncIteration
            return left.pop()

        events.headers, events._next = headers, next_one
        return events

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[object]:
        return self._next()


class Connection:
    """The way to one server: its address and key, and a client of the SDK for each event loop, without retries.

    *kind* is the class of the model, *provider* and *name* are those of the model, for errors. A ready *client* is
    used as it is. *says* is what the server answers with, as errors name it.

    Raises:
        ConfigurationError: the SDK is not installed, *name* is empty, or *base_url* or *extra_headers* are wrong.
    """

    def __init__(
        self,
        kind: str,
        provider: str,
        name: str,
        *,
        api_key: str | None,
        base_url: str | None,
        client: "AsyncOpenAI | None",
        timeout_s: float | None,
        extra_headers: Mapping[str, str] | None,
        says: str,
    ) -> None:
        if not name or not isinstance(name, str):
            raise ConfigurationError(f"{kind} needs the name of a model, for instance '{provider}:gpt-5.5'")
        if client is None and importlib.util.find_spec("openai") is None:
            raise ConfigurationError(f"{provider}:{name} needs the package 'openai': pip install 'interpose[openai]'")
        self._kind = kind
        self._provider = provider
        self._name = name
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._says = says
        self._headers = checked_headers(extra_headers)
        self._given = client.with_options(max_retries=0, default_headers=self._headers) if client is not None else None
        self._clients: ClientPerLoop[AsyncOpenAI] = ClientPerLoop(self._make_client)
        if client is None:
            checked_url(self.base_url)

    @property
    def is_given(self) -> bool:
        """Whether the client is the caller's own."""
        return self._given is not None

    @property
    def is_official(self) -> bool:
        """Whether the server is the vendor's own."""
        return urlsplit(self.base_url).hostname == OFFICIAL_HOST

    @property
    def _shown_url(self) -> str:
        return shown_url(self.base_url)

    @property
    def base_url(self) -> str:
        """Where requests go."""
        if self._given is not None:
            return str(self._given.base_url)
        return self._base_url or os.environ.get("OPENAI_BASE_URL") or f"https://{OFFICIAL_HOST}/v1"

    async def post(self, path: str, body: dict[str, Any], options: Mapping[str, Any], model: str) -> Any:
        """Return the JSON that the server answers with.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        with self.failures(model):
            client = await self._client(model)
            try:
                return await client.post(path, cast_to=object, body=body, options=_options(options))
            except UnicodeEncodeError:
                return await client.post(path, cast_to=object, body=clean_value(body), options=_options(options))

    @asynccontextmanager
    async def stream(
        self, path: str, body: dict[str, Any], options: Mapping[str, Any], model: str
    ) -> "AsyncIterator[Events]":
        """Give the events of a stream, each as JSON; leaving the block closes the connection, which stops the server.

        Raises:
            ProviderError: the call failed; its kind says how. Raised while events are read too.
        """
        from openai import AsyncStream

        with self.failures(model) as seen:
            client = await self._client(model)
            how: dict[str, Any] = {"cast_to": object, "stream": True, "stream_cls": AsyncStream[object]}
            try:
                stream = await client.post(path, body=body, options=_options(options), **how)
            except UnicodeEncodeError:
                stream = await client.post(path, body=clean_value(body), options=_options(options), **how)
            events = Events(stream)
            seen.update(events.headers)
            try:
                kind = events.headers.get("content-type", "")
                if not kind.startswith(_NO_STREAM):
                    yield events
                else:
                    yield Events.of_whole(self._whole(await stream.response.aread(), model), events.headers)
            finally:
                await close_reading(events, stream.close)

    def _whole(self, raw: bytes, model: str) -> object:
        """Return the answer of a server that was asked for a stream and does not stream.

        Raises:
            ProviderError: it tells of an error.
            ValueError: it is no JSON.
        """
        try:
            data = json.loads(raw)
        except ValueError as error:
            raise Nonsense(repr(raw[:200].decode("utf-8", "replace"))) from error
        if isinstance(data, Mapping) and data.get("error"):
            raise self.error(model, message_of(data) or str(data["error"]), body=data)
        return data

    def error(self, model: str, message: str, **told: Any) -> ProviderError:
        """Return the error that *message* and what else was *told* make, as `error_of` takes it."""
        return error_of(message, **self._where(model), now_s=time.time(), **told)

    async def _client(self, model: str) -> "AsyncOpenAI":
        if self._given is not None:
            return self._given
        if not self._key():
            raise AuthFailed(
                f"{self._provider}:{self._name} has no API key. Set the environment variable OPENAI_API_KEY, or pass "
                f"{self._kind}(name, api_key=...); for a server that needs none, pass base_url=... alone.",
                **self._where(model),
            )
        return await self._clients.get()

    def _key(self) -> str | None:
        given = self._api_key or os.environ.get("OPENAI_API_KEY") or ""
        return checked_key(given, self._provider, self._name) or (None if self.is_official else NO_KEY)

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
    def failures(self, model: str) -> Iterator[dict[str, str]]:
        """Turn what the SDK raises into our errors; yields a dict for the headers of an answer that has begun."""
        import openai

        headers: dict[str, str] = {}
        try:
            yield headers
        except ConfigurationError:
            raise
        except openai.APIStatusError as error:
            raise self._refused(error, model) from error
        except openai.APITimeoutError as error:
            cause = type(error.__cause__).__name__
            if cause == "ConnectTimeout":
                raise self._unreachable(model, cause) from error
            message = f"{self._shown_url} was silent for longer than the time limit; timeout_s= sets it"
            raise ModelTimeout(message, **self._where(model)) from error
        except openai.APIConnectionError as error:
            cause = str(error.__cause__ or error) or type(error.__cause__).__name__
            if not headers:
                raise self._unreachable(model, cause) from error
            message = f"the connection to {self._shown_url} broke while the answer came in: {cause}"
            raise ProviderDown(message, **self._where(model), request_id=headers.get("x-request-id")) from error
        except openai.APIError as error:
            message = message_of(error.body) or error.message
            raise self.error(model, message, body=error.body, headers=headers) from error
        except openai.OpenAIError as error:
            raise ConfigurationError(f"{self._provider}:{model}: {error}") from error
        except (Nonsense, json.JSONDecodeError, UnicodeDecodeError) as error:
            message = f"{self._shown_url} sent something that is no {self._says}: {error}. Is base_url right?"
            raise ProviderError(message, **self._where(model), retryable=True) from error
        except ValueError as error:
            if headers:
                raise
            message = f"{self._provider}:{model}: the request cannot be written as JSON: {error}"
            raise BadRequest(message, **self._where(model)) from error

    def _refused(self, error: Any, model: str) -> ProviderError:
        response = error.response
        told = message_of(error.body) or error.message.partition(" - ")[2] or response.text
        message = told[:500] or error.message
        return self.error(model, message, body=error.body, status_code=response.status_code, headers=response.headers)

    def _unreachable(self, model: str, cause: str) -> ProviderDown:
        return ProviderDown(
            f"cannot reach {self._shown_url} ({cause}). Check that the server runs there and that base_url is right.",
            **self._where(model),
        )

    def _where(self, model: str) -> dict[str, Any]:
        return {"provider": self._provider, "model": model}


def message_of(body: object) -> str:
    """Return the message of an error in the JSON of an answer, in the shapes that servers give it; else no text."""
    if isinstance(body, list) and body:
        return message_of(body[0])
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else ""
    for key in ("message", "detail", "error_description", "msg"):
        told = body.get(key)
        if isinstance(told, str) and told:
            return told
    return message_of(body.get("error"))


def _options(given: Mapping[str, Any]) -> Any:
    """Return the SDK's options of one call, from the provider options of a request."""
    known = {"headers": checked_headers(given.get("extra_headers")), "params": given.get("extra_query")}
    return {"security": {"bearer_auth": True}, **{key: value for key, value in known.items() if value}}
