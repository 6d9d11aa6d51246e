"""Responses as a model: sends a request through the official SDK and reads the answer."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interpose.models.base import Model, ModelChunk, ModelProfile, as_stream, fold
from interpose.models.guard import check_real_calls
from interpose.models.openai.responses.reading import Failed, ResponsesReader
from interpose.models.openai.responses.wire import to_wire
from interpose.models.openai.sdk import Connection
from interpose.models.profiles import profile_for
from interpose.models.wire_names import wire_names
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PATH = "/responses"


class OpenAIResponses(Model):
    """A model behind OpenAI's Responses, or a server that speaks it by *base_url*.

    Reasoning is kept and sent back, so that the model goes on with its own thoughts between tool calls. Nothing is
    stored at the vendor: the reasoning comes encrypted and lives in the messages; with *store* the vendor keeps
    answers, and knows its reasoning by its ids. What the vendor's own tools did comes as `ProviderPart`s and goes back
    untouched. Key, client, profile, time limit and headers are as those of `OpenAIChat`.

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
        store: bool = False,
        timeout_s: float | None = None,
        extra_headers: Mapping[str, str] | None = None,
        provider: str = "openai-responses",
    ) -> None:
        self._connection = Connection(
            "OpenAIResponses",
            provider,
            name,
            api_key=api_key,
            base_url=base_url,
            client=client,
            timeout_s=timeout_s,
            extra_headers=extra_headers,
            says="response",
        )
        self.provider = provider
        self.name = name
        self.store = store
        self.profile = profile or (profile_for("openai", name) if self._connection.is_official else None)

    @property
    def base_url(self) -> str:
        """Where requests go."""
        return self._connection.base_url

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the answer as it comes. Leaving early closes the connection, which stops the server.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        request = self._own(request)
        body = {**to_wire(request, store=self.store), "stream": True}
        reader = self._reader(request)
        options = request.settings.provider_options
        async with self._connection.stream(PATH, body, options, request.model) as events:
            with self._failed(request.model, events.headers):
                async for event in events:
                    for chunk in reader.read(event):
                        yield chunk
        for chunk in reader.end():
            yield chunk

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer, asked for as a whole.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        request = self._own(request)
        body = to_wire(request, store=self.store)
        reader = self._reader(request)
        with self._failed(request.model), self._connection.failures(request.model):
            data = await self._connection.post(PATH, body, request.settings.provider_options, request.model)
            chunks = reader.read_whole(data)
        return await fold(as_stream([*chunks, *reader.end()]), request)

    @contextmanager
    def _failed(self, model: str, headers: Mapping[str, str] | None = None) -> Iterator[None]:
        """Turn a response that failed into an error of ours."""
        try:
            yield
        except Failed as failure:
            raise self._connection.error(model, str(failure), body=failure.error, headers=headers) from failure

    def _own(self, request: ModelRequest) -> ModelRequest:
        """Return *request* with the names of this model where it has none."""
        check_real_calls(self.provider, request.model or self.name)
        if request.model and request.provider:
            return request
        return request.replace(model=request.model or self.name, provider=request.provider or self.provider)

    def _reader(self, request: ModelRequest) -> ResponsesReader:
        names = {wire: own for own, wire in wire_names(request.tools).items()}
        return ResponsesReader(names, request.provider)
