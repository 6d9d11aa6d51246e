"""The parts of a checkpoint: results, steps and answers as they are saved, in JSON alone."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from interpose.interrupts import Answer, Approved, Cancelled, Rejected, Resolved
from interpose.messages import AssistantMessage, Part, ToolResult, Value
from interpose.request import ModelRequest, ModelResponse, Step, Usage
from interpose.text import readable, to_jsonable


class SavedResult(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A tool result as it is saved: plain data stays plain, parts (text, pictures) stay parts, the rest is its text."""

    tool_call_id: str
    data: Any = None
    parts: tuple[Part, ...] = ()
    is_error: bool = False
    duration_ms: float | None = None

    @classmethod
    def of(cls, result: ToolResult) -> Self:
        """Return *result* in its saved form, which the model will read as it reads the result itself."""
        data = None if result.parts else _plain(result.data)
        return cls(
            tool_call_id=result.tool_call_id,
            data=data,
            parts=result.parts,
            is_error=result.is_error,
            duration_ms=result.duration_ms,
        )

    def result(self) -> ToolResult:
        """Return the tool result."""
        return ToolResult(
            tool_call_id=self.tool_call_id,
            data=self.parts or self.data,
            is_error=self.is_error,
            duration_ms=self.duration_ms,
        )


def _plain(data: Any) -> Any:
    """Return *data* as JSON gives it back; where that would read otherwise, or cannot be, as its text."""
    if isinstance(data, str):
        return data
    try:
        plain = to_jsonable(data)
    except Exception:  # whatever a tool may return, its result is kept
        return readable(data)
    return readable(data) if isinstance(plain, str) else plain


class SavedStep(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A step as it is saved; its message is the one with `message_id` among those of the checkpoint."""

    number: int
    message_id: str
    finish_reason: str
    model: str = ""
    provider: str = ""
    made_by: str | None = None
    response_usage: Usage | None = None
    usage: Usage | None = None
    results: tuple[SavedResult, ...] = ()

    @classmethod
    def of(cls, number: int, response: ModelResponse, usage: Usage | None = None) -> Self:
        """Return the step that *response* begins; *usage* is that of all its attempts."""
        return cls(
            number=number,
            message_id=response.message.id,
            finish_reason=response.finish_reason,
            model=response.model,
            provider=response.provider,
            made_by=response.made_by,
            response_usage=response.usage,
            usage=usage,
        )

    def response(self, message: AssistantMessage) -> ModelResponse:
        """Return the response, whose message is *message*."""
        return ModelResponse(message, self.finish_reason, self.response_usage, self.model, self.provider, self.made_by)

    def step(self, message: AssistantMessage) -> Step:
        """Return the step as a run shows it: results in the order of the calls; of the request only what is known."""
        request = ModelRequest(provider=self.provider, model=self.model, number=self.number)
        places = {call.id: place for place, call in enumerate(message.tool_calls)}
        in_order = sorted(self.results, key=lambda one: places.get(one.tool_call_id, len(places)))
        results = tuple([one.result() for one in in_order])
        return Step(self.number, request, self.response(message), results, self.usage)


class SavedAnswer(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A person's answer as it is saved: given, but perhaps not acted on yet. *at* is in seconds since 1970, UTC."""

    kind: Literal["resolved", "approved", "rejected", "cancelled"]
    payload: Any = None
    edited_args: Mapping[str, Any] | None = None
    reason: str = ""
    by: str | None = None
    always: Literal["tool", "arguments"] | None = None
    at: float

    @classmethod
    def of(cls, answer: Answer, at: float) -> Self:
        """Return *answer*, given at time *at*, in its saved form."""
        match answer:
            case Resolved():
                return cls(kind="resolved", payload=to_jsonable(answer.payload), by=answer.by, at=at)
            case Approved():
                return cls(kind="approved", edited_args=answer.edited_args, by=answer.by, always=answer.always, at=at)
            case Rejected():
                return cls(kind="rejected", reason=answer.reason, by=answer.by, at=at)
            case Cancelled():
                return cls(kind="cancelled", at=at)

    def answer(self) -> Answer:
        """Return the answer; the payload of a `Resolved` is plain JSON, to be converted once, where it is used."""
        match self.kind:
            case "resolved":
                return Resolved(self.payload, self.by)
            case "approved":
                return Approved(self.edited_args, self.by, self.always)
            case "rejected":
                return Rejected(self.reason, self.by)
            case "cancelled":
                return Cancelled()


class Kept(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What the inside of a layer that paused had given, so that nothing inside it runs twice.

    *layer* is the middleware's name; of a tool hook *tool_call_id* is there and *result*, of a model hook *response*,
    and *usage*, what all its attempts took.
    """

    layer: str
    tool_call_id: str | None = None
    result: SavedResult | None = None
    response: ModelResponse | None = None
    usage: Usage | None = None


class Private(Value, frozen=True):
    """The saved state of one middleware, and the `state_version` that wrote it."""

    version: int
    data: Any


class Counts(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a run has spent so far; limits count on from there. *cost* is in USD."""

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: float = 0.0
