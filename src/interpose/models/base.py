"""What a model is: the protocol, the chunks it streams, and how chunks fold into a response and back."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, MutableSet
from typing import Protocol, get_args

from msgspec import Struct

from interpose.errors import ProviderError
from interpose.ids import create_id
from interpose.messages import AssistantMessage, Part, ProviderPart, ReasoningPart, TextPart, ToolCall
from interpose.request import FinishReason, ModelRequest, ModelResponse, Usage
from interpose.text import clean


class ModelProfile(Struct, frozen=True, kw_only=True):
    """What is known of a model: limits in tokens, prices in USD per million tokens, and what it can do."""

    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None
    supports_parallel_tool_calls: bool = True
    supports_vision: bool = False
    supports_caching: bool = False
    supports_structured_output: bool = False
    weak_tool_schema: bool = False


class MessageStart(Struct, frozen=True, gc=False):
    """The answer begins; *id* is the provider's. A second, other id in one call is refused."""

    id: str


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of text."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of reasoning; *signature* completes the reasoning so far, or stands alone."""

    text: str
    signature: str | None = None


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of a tool call. *index* tells calls apart, else *id*, else the order; *args* is JSON text."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    args: str = ""


class UsageUpdate(Struct, frozen=True):
    """Running totals of the call, not differences."""

    usage: Usage


class Finish(Struct, frozen=True):
    """The answer is complete. A stream that ends without it was cut off."""

    reason: str = "stop"
    usage: Usage | None = None


ModelChunk = MessageStart | TextDelta | ReasoningDelta | ToolCallDelta | UsageUpdate | ProviderPart | Finish


class Model(Protocol):
    """One model that can be called, of one provider.

    Only `stream` must be written; `generate` is used instead, in runs that nobody reads as a stream, by a model that
    has one of its own. The model name to call with is `request.model`, so that a layer can change it.
    """

    provider: str
    name: str
    profile: ModelProfile | None

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the answer as it comes, ending with `Finish`."""
        ...

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        """Return the whole answer."""
        return await fold(self.stream(request), request)


def has_own_generate(model: object) -> bool:
    """Whether *model* has a `generate` that is not the protocol's."""
    own = getattr(type(model), "generate", None)
    return own is not None and own is not Model.generate


FINISH_REASONS = frozenset(get_args(FinishReason))


UNNAMED = "unnamed"
"""The name of a call that came without one: providers refuse an empty name when it is sent back."""


class PendingCall:
    """A tool call while its pieces come in; `id` is final from the start, `name` once it is not empty."""

    __slots__ = ("args", "given_id", "id", "index", "name")

    def __init__(self, id: str, given_id: str, index: int | None, name: str) -> None:
        self.id = id
        self.given_id = given_id
        self.index = index
        self.name = name
        self.args: list[str] = []


class Assembly:
    """Chunks of one answer on their way to a message.

    Providers' indexes and ids are hints: a call goes on where its index says so, else its id, else the order; a name
    that differs from the one there begins a new call. Ids that are missing, or in *taken*, are replaced by new ones.
    """

    def __init__(self, message_id: str, taken: MutableSet[str] | None = None) -> None:
        self.message_id = message_id
        self.provider_id: str | None = None
        self.items: list[list[str] | _Reasoning | PendingCall | ProviderPart] = []
        self.calls: list[PendingCall] = []
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.taken = set() if taken is None else taken

    def start(self, chunk: MessageStart, where: ModelRequest) -> None:
        """Note the provider's message id.

        Raises:
            ProviderError: it is the second one, so two answers were spliced.
        """
        if self.provider_id is not None and chunk.id != self.provider_id:
            message = f"two answers were spliced in one stream: {self.provider_id!r}, then {chunk.id!r}"
            raise ProviderError(message, provider=where.provider, model=where.model)
        self.provider_id = chunk.id

    def text_pieces(self) -> list[str]:
        """Return the list that the next pieces of text are appended to."""
        if self.items and self.items[-1].__class__ is list:
            return self.items[-1]
        pieces: list[str] = []
        self.items.append(pieces)
        return pieces

    def reasoning(self, text: str, signature: str | None) -> None:
        """Append reasoning; a signature closes the part that it signs."""
        last = self.items[-1] if self.items else None
        if last.__class__ is not _Reasoning or last.signature is not None:
            last = _Reasoning()
            self.items.append(last)
        last.pieces.append(text)
        last.signature = signature

    def call(self, delta: ToolCallDelta) -> PendingCall:
        """Return the call that *delta* belongs to, a new one where it begins one, with its pieces added."""
        call = self._find(delta)
        if call is None:
            given = delta.id or ""
            call_id = given if given and given not in self.taken else create_id("call")
            self.taken.add(call_id)
            call = PendingCall(call_id, given, delta.index, "")
            self.calls.append(call)
            self.items.append(call)
        if delta.name:
            call.name = delta.name
        if delta.args:
            call.args.append(delta.args)
        return call

    def _find(self, delta: ToolCallDelta) -> PendingCall | None:
        if delta.index is not None:
            found = next((c for c in reversed(self.calls) if c.index == delta.index), None)
        elif delta.id:
            found = next((c for c in reversed(self.calls) if c.given_id == delta.id), None)
        elif delta.name:
            last = self.calls[-1] if self.calls else None
            found = last if last is not None and not last.name else None
        else:
            found = self.calls[-1] if self.calls else None
        if found is None:
            return None
        other_id = bool(delta.id) and found.given_id not in ("", delta.id)
        other_name = bool(delta.name) and found.name not in ("", delta.name)
        return None if other_id or other_name else found

    def finish(self, chunk: Finish) -> None:
        """Note the end; a word that nobody knows becomes `unknown`."""
        self.finish_reason = chunk.reason if chunk.reason in FINISH_REASONS else "unknown"
        if chunk.usage is not None:
            self.report(chunk.usage)

    def report(self, usage: Usage) -> None:
        """Take running totals."""
        self.usage = usage if self.usage is None else self.usage.merge(usage)

    def message(self) -> AssistantMessage:
        """Return what there is as a message."""
        items = self.items
        if len(items) == 1 and items[0].__class__ is list:
            return AssistantMessage("".join(items[0]), id=self.message_id)
        return self._message_of(tuple([part for part in map(_as_part, items) if part is not None]))

    def _message_of(self, parts: tuple[Part, ...]) -> AssistantMessage:
        kinds = [_RANK.get(part.__class__, -1) for part in parts]
        plain = all(kinds) and kinds == sorted(kinds) and kinds.count(1) < 2 and kinds.count(2) < 2 and -1 not in kinds
        signed = any(part.__class__ is ReasoningPart and part.signature is not None for part in parts)
        if not plain or signed:
            return AssistantMessage(parts=parts, id=self.message_id)
        text = "".join([part.text for part in parts if part.__class__ is TextPart])
        reasoning = "".join([part.text for part in parts if part.__class__ is ReasoningPart]) or None
        calls = tuple([part for part in parts if part.__class__ is ToolCall])
        return AssistantMessage(text, reasoning, calls, id=self.message_id)


class _Reasoning:
    __slots__ = ("pieces", "signature")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.signature: str | None = None


_RANK: dict[type, int] = {ReasoningPart: 1, TextPart: 2, ToolCall: 3}


def _as_part(item: "list[str] | _Reasoning | PendingCall | ProviderPart") -> Part | None:
    if item.__class__ is list:
        text = "".join(item)
        return TextPart(text) if text else None
    if item.__class__ is _Reasoning:
        text = "".join(item.pieces)
        return ReasoningPart(text, item.signature) if text or item.signature is not None else None
    if item.__class__ is PendingCall:
        return ToolCall(item.id, clean(item.name) or UNNAMED, clean("".join(item.args)))  # type: ignore[arg-type]  # as JSON text
    return item  # type: ignore[return-value]  # a ProviderPart


async def fold(chunks: AsyncIterable[ModelChunk], request: ModelRequest | None = None) -> ModelResponse:
    """Return the response that *chunks* make.

    Raises:
        ProviderError: the stream ended without `Finish`, so it was cut off.
    """
    request = request or ModelRequest()
    assembly = Assembly(AssistantMessage().id)
    try:
        async for chunk in chunks:
            match chunk:
                case TextDelta():
                    assembly.text_pieces().append(chunk.text)
                case ReasoningDelta():
                    assembly.reasoning(clean(chunk.text), chunk.signature)
                case ToolCallDelta():
                    assembly.call(chunk)
                case UsageUpdate():
                    assembly.report(chunk.usage)
                case ProviderPart():
                    assembly.items.append(chunk)
                case MessageStart():
                    assembly.start(chunk, request)
                case Finish():
                    assembly.finish(chunk)
    finally:
        close = getattr(chunks, "aclose", None)  # where a chunk was refused, the rest of the answer is still open
        if close is not None:
            await close()
    if assembly.finish_reason is None:
        raise cut_off(request)
    for item in assembly.items:
        if item.__class__ is list:
            item[:] = [clean("".join(item))]
    return response_of(assembly, request)


def cut_off(request: ModelRequest) -> ProviderError:
    """Return the error of a stream that ended without `Finish`."""
    message = "the model's stream ended without a finish signal, so the answer was cut off"
    return ProviderError(message, provider=request.provider, model=request.model, retryable=True)


def response_of(assembly: Assembly, request: ModelRequest) -> ModelResponse:
    """Return the response of a finished assembly."""
    reason = assembly.finish_reason or "unknown"
    return ModelResponse(assembly.message(), reason, assembly.usage, request.model, request.provider)


def unfold(response: ModelResponse) -> Iterator[ModelChunk]:
    """Yield the chunks that make *response*: one a part, then `Finish`."""
    index = 0
    for part in response.message.content():
        match part:
            case TextPart():
                yield TextDelta(part.text)
            case ReasoningPart():
                yield ReasoningDelta(part.text, part.signature)
            case ToolCall():
                yield ToolCallDelta(index, part.id, part.name, part.args_json)
                index += 1
            case ProviderPart():
                yield part
    yield Finish(response.finish_reason, response.usage)


def as_stream(chunks: Iterable[ModelChunk]) -> AsyncIterator[ModelChunk]:
    """Return *chunks* as the async iterator that `Model.stream` gives."""

    async def stream() -> AsyncIterator[ModelChunk]:
        for chunk in chunks:
            yield chunk

    return stream()
