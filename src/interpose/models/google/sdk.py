"""The official SDK as this adapter uses it: bodies go in and chunks come out as they are on the wire.

The SDK's own methods turn each chunk into a model of pydantic, which drops parts that it does not know, writes
signatures anew, and takes many times as long as reading the chunk. So requests go through the layer below them, which
finds the address, the credentials and the version of the API, and makes errors.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self
from urllib.parse import urlencode

from interpose.errors import ConfigurationError

SILENCE_S = 600.0  # as the other vendors' SDKs have it; this one has no limit of its own
CONNECT_S = 5.0  # the same


class GeminiClient:
    """A client of the SDK; *client* is one that somebody else made and closes.

    *headers* go along with each request; *timeout_s* is the longest silence of the server.
    """

    def __init__(self, client: Any, headers: Mapping[str, str], timeout_s: float | None, http: Any = None) -> None:
        self._client = client
        self._http = http
        self._headers = dict(headers)
        self._timeout_ms = int((timeout_s or SILENCE_S) * 1000)
        self._api: Any = getattr(client, "_api_client", None)
        if not hasattr(self._api, "_build_request") or not hasattr(self._api, "_async_request"):
            raise ConfigurationError(
                "this release of 'google-genai' is not known here; install 'interpose[google]' anew"
            )

    @classmethod
    def make(
        cls, api_key: str | None, base_url: str | None, headers: Mapping[str, str], timeout_s: float | None
    ) -> Self:
        """Return a client with connections of its own.

        Raises:
            ValueError: the SDK finds no key.
        """
        import httpx2
        from google import genai
        from google.genai.types import HttpOptions

        # A client given is used as it is, while the SDK would turn to another library where it finds one, which tries
        # again unasked, and cuts long answers by its own clock.
        http = httpx2.AsyncClient(
            follow_redirects=True, timeout=timeout_s or SILENCE_S, event_hooks={"request": [_connect_soon]}
        )
        options = HttpOptions(base_url=base_url, httpx_async_client=http)
        return cls(genai.Client(api_key=api_key, http_options=options), headers, timeout_s, http)

    async def close(self) -> None:
        """Close the connections, where they are its own."""
        if self._http is not None:
            await self._http.aclose()
            await asyncio.to_thread(self._client.close)

    async def generate(
        self, model: str, body: dict[str, Any], headers: Mapping[str, str], query: Mapping[str, str] | None = None
    ) -> Any:
        """Return the whole answer, as JSON."""
        path = f"{self._path(model)}:generateContent"
        answer = await self._request(f"{path}?{urlencode(query)}" if query else path, body, headers, is_stream=False)
        return answer.json

    async def stream(
        self, model: str, body: dict[str, Any], headers: Mapping[str, str], query: Mapping[str, str] | None = None
    ) -> "GeminiStream":
        """Return an answer that has begun."""
        path = f"{self._path(model)}:streamGenerateContent?{urlencode({**(query or {}), 'alt': 'sse'})}"
        return GeminiStream(await self._request(path, body, headers, is_stream=True))

    async def _request(self, path: str, body: dict[str, Any], headers: Mapping[str, str], is_stream: bool) -> Any:
        from google.genai.types import HttpOptions, HttpRetryOptions

        options = HttpOptions(
            headers={**self._headers, **headers},
            timeout=self._timeout_ms,
            retry_options=HttpRetryOptions(attempts=1),  # none but the first
        )
        request = self._api._build_request("post", path, body, options)
        return await self._api._async_request(http_request=request, http_options=options, stream=is_stream)

    def _path(self, model: str) -> str:
        if not self._api.vertexai:
            return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        if model.startswith(("projects/", "models/", "publishers/")):
            return model
        publisher, slash, name = model.partition("/")
        return f"publishers/{publisher}/models/{name}" if slash else f"publishers/google/models/{model}"


async def _connect_soon(request: Any) -> None:
    """Limit the time to connect, for which the SDK has the same limit as for the answer."""
    times = request.extensions.get("timeout") or {}
    request.extensions["timeout"] = {**times, "connect": min(CONNECT_S, times.get("connect") or CONNECT_S)}


class GeminiStream:
    """Chunks of an answer as they come, as JSON."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.headers: dict[str, str] = {name.lower(): value for name, value in answer.headers.items()}

    def __aiter__(self) -> AsyncIterator[Any]:
        chunks: AsyncIterator[Any] = self._answer.async_segments()
        return chunks

    async def close(self) -> None:
        """Close the connection, also where the answer has not ended."""
        response = self._answer.response_stream
        if hasattr(response, "aclose"):
            await response.aclose()
        elif hasattr(response, "close"):  # of aiohttp
            response.close()


def refusal_of(error: Exception) -> dict[str, Any] | None:
    """Return what *error* tells, as `error_of` takes it, where it is an answer of the server; else None."""
    from google.genai.errors import APIError

    if not isinstance(error, APIError):
        return None
    headers = getattr(error.response, "headers", None) or {}
    return {
        "message": str(error.message or error.details or error)[:2000],
        "body": error.details,
        "status_code": error.code,
        "headers": {name.lower(): value for name, value in headers.items()},
    }
