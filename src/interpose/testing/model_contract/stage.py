"""A stage for a model: what the vendor behind it is to answer, and what it was asked, in words that fit every vendor.

The contract in `model_contract` is written in these words; whoever tests a model translates them to its vendor's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from interpose.errors import ProviderError
from interpose.models.base import Model
from interpose.request import Usage

FEATURES = frozenset(
    {
        "broken_arguments",  # the vendor passes on arguments that are no JSON
        "cache_usage",  # it tells how many tokens came from its cache
        "call_ids",  # its calls have ids
        "image_urls",  # it takes pictures by URL
        "images",  # it takes pictures as bytes
        "mixed_calls",  # pieces of parallel calls may come mixed
        "named_tool_choice",  # one tool can be forced by name
        "output_schema",  # it takes a schema for its answer
        "parallel_calls",  # one answer may ask for several calls
        "reasoning",  # it tells what the model thought
        "reasoning_usage",  # it tells how many tokens that took
        "remote",  # it is reached over a connection, which can fail, be cut and be closed
        "request_ids",  # it names each request
        "retry_after",  # it may say how long to wait
        "signatures",  # reasoning is signed, and goes back with its signature
        "stop",  # it takes stop sequences
        "tool_choice",  # tools can be forced or forbidden
    }
)
"""What vendors have and lack; a stage lists what its own has."""


class Thought(Struct, frozen=True):
    """Reasoning in the vendor's answer; *signature* is its proof, any text."""

    text: str
    signature: str | None = None


class Said(Struct, frozen=True):
    """Text in the vendor's answer. With *pieces*, those are its deltas, and *text* is what they make."""

    text: str = ""
    pieces: tuple[str, ...] = ()


class Call(Struct, frozen=True):
    """A tool call in the vendor's answer; *args* is its text, whole or broken, as the vendor sends it."""

    id: str
    name: str
    args: str = "{}"


class Answer(Struct, frozen=True, kw_only=True):
    """One answer of the vendor: *parts* in order, then its *reason* to finish, in our words, and its usage.

    *ends* says how: "well"; "unfinished", in good order but without a reason to finish; "cut", with a broken
    connection; "silent", with nothing more while the connection stays. The last three are said of streams.
    *piece_bytes* is how many bytes are sent at a time, None for all at once; *mixed* mixes the pieces of calls.
    """

    parts: tuple[Thought | Said | Call, ...] = ()
    reason: str = "stop"
    usage: Usage | None = Usage(input_tokens=3, output_tokens=2)
    ends: Literal["well", "unfinished", "cut", "silent"] = "well"
    piece_bytes: int | None = None
    mixed: bool = False


class Refusal(Struct, frozen=True, kw_only=True):
    """The vendor refuses, with an error of *kind*; with *after*, inside a stream, once it has said that text.

    *retry_after* is the text of the header.
    """

    kind: type[ProviderError]
    message: str = "no luck"
    retry_after: str | None = None
    request_id: str | None = None
    after: str = ""


class Heard(Struct, frozen=True, kw_only=True):
    """One request as the vendor got it.

    *turns* are what it was told, a tuple for each piece of content, in order: `("system", text)`, `("user", text)`,
    `("assistant", text)`, `("thought", text, signature)`, `("call", id, name, args)`, `("result", id, text)`,
    `("image", media type, base64)` or `("image", None, url)`. *tool_choice* is "auto", "none", "required", the name of
    a tool on the wire, or None where nothing was said.
    """

    model: str
    turns: tuple[tuple[Any, ...], ...] = ()
    tools: tuple[str, ...] = ()
    tool_choice: str | None = None
    output_schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    is_stream: bool = False

    def of(self, *kinds: str) -> list[tuple[Any, ...]]:
        """Return the turns of these kinds."""
        return [turn for turn in self.turns if turn[0] in kinds]


Play = Answer | Refusal | Callable[[Heard], Answer | Refusal]


class Stage(Protocol):
    """A model and the vendor behind it, for one claim of the contract.

    A stage is strict: it refuses, as the vendor would, what the vendor would refuse.
    """

    @property
    def model(self) -> Model:
        """The model under test, fresh."""
        ...

    @property
    def features(self) -> frozenset[str]:
        """What of `FEATURES` its vendor has."""
        ...

    @property
    def heard(self) -> Sequence[Heard]:
        """The requests so far."""
        ...

    def play(self, *plays: Play) -> None:
        """Say what the next requests are answered with, one each; a function answers by what was heard."""
        ...

    async def left(self) -> None:
        """Return once the client has gone while an answer was being sent."""
        ...

    def unreachable(self) -> Model:
        """Return a model whose server is not there."""
        ...


__all__ = ["Answer", "Call", "FEATURES", "Heard", "Play", "Refusal", "Said", "Stage", "Thought"]
