"""Chat Completions as a model: sends a request through the official SDK and reads the answer."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from interpose.models.base import Model, ModelChunk, ModelProfile, as_stream, fold
from interpose.models.guard import check_real_calls
from interpose.models.openai.dialect import COMPATIBLE, OFFICIAL, Dialect
from interpose.models.openai.reading import ChatReader
from interpose.models.openai.sdk import Connection, message_of
from interpose.models.openai.wire import to_wire
from interpose.models.profiles import known_profile, profile_for
from interpose.models.wire_names import wire_names
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PATH = "/chat/completions"


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
        self._connection = Connection(
            "OpenAIChat",
            provider,
            name,
            api_key=api_key,
            base_url=base_url,
            client=client,
            timeout_s=timeout_s,
            extra_headers=extra_headers,
            says="chat completion",
        )
        self.provider = provider
        self.name = name
        is_official = self._connection.is_official
        self.dialect = dialect or (OFFICIAL if is_official or self._connection.is_given else COMPATIBLE)
        self.profile = profile or self._listed_profile(is_official)

    def _listed_profile(self, is_official: bool) -> ModelProfile | None:
        """Return what is known of the model; nothing where a server of one's own may mean another by its name."""
        if is_official:
            return profile_for("openai", self.name)
        return None if self.provider == "openai" else known_profile(self.provider, self.name)

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
        body = {**to_wire(request, self.dialect), "stream": True}
        body.setdefault("stream_options", {"include_usage": True})
        reader = self._reader(request)
        options = request.settings.provider_options
        async with self._connection.stream(PATH, body, options, request.model) as events:
            async for data in events:
                for chunk in reader.read(data):
                    yield chunk
        for chunk in reader.end():
            yield chunk

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer, asked for as a whole.

        Raises:
            ProviderError: the call failed; its kind says how.
        """
        request = self._own(request)
        body = to_wire(request, self.dialect)
        reader = self._reader(request)
        with self._connection.failures(request.model):
            data = await self._connection.post(PATH, body, request.settings.provider_options, request.model)
            if isinstance(data, Mapping) and data.get("error"):
                raise self._connection.error(request.model, message_of(data) or str(data["error"]), body=data)
            chunks = reader.read(data)
        return await fold(as_stream([*chunks, *reader.end()]), request)

    def _own(self, request: ModelRequest) -> ModelRequest:
        """Return *request* with the names of this model where it has none."""
        check_real_calls(self.provider, request.model or self.name)
        if request.model and request.provider:
            return request
        return request.replace(model=request.model or self.name, provider=request.provider or self.provider)

    def _reader(self, request: ModelRequest) -> ChatReader:
        names = {wire: own for own, wire in wire_names(request.tools).items()}
        return ChatReader(names, self.dialect.keep_extras, request.provider)
