"""What goes to a model and what comes back: requests, responses, settings, usage, steps."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec
from msgspec import Struct, field

from interpose.messages import AssistantMessage, Message, TextPart, ToolCall, ToolResult, Value
from interpose.text import canonical_json

if TYPE_CHECKING:
    from interpose.models.base import Model
    from interpose.tools import Tool

TOOL_CHOICES = ("auto", "none", "required")


class Usage(Value, frozen=True, omit_defaults=True):
    """Tokens of one or more model calls; None where unknown, which adding keeps apart from 0.

    `total_tokens`, when not told, is the sum of input and output, and None where both are unknown. `input_tokens`
    includes what was read from and written to a cache; `output_tokens` includes reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None

    def __post_init__(self) -> None:
        if self.total_tokens is None:
            if self.input_tokens is not None:
                total = self.input_tokens + (self.output_tokens or 0)
                msgspec.structs.force_setattr(self, "total_tokens", total)
            elif self.output_tokens is not None:
                msgspec.structs.force_setattr(self, "total_tokens", self.output_tokens)

    def __add__(self, other: Self) -> "Usage":
        return Usage(
            *[
                mine if theirs is None else theirs if mine is None else mine + theirs
                for mine, theirs in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
            ]
        )

    def merge(self, later: Self) -> "Usage":
        """Return these totals with those that *later* tells in their place, as a stream reports running totals."""
        told = {name: value for name, value in msgspec.structs.asdict(later).items() if value is not None}
        if "total_tokens" in told and told["total_tokens"] == (told.get("input_tokens") or 0) + (
            told.get("output_tokens") or 0
        ):
            del told["total_tokens"]  # derived, not told: derive it anew from the merged parts
        mine = {**msgspec.structs.asdict(self), **told}
        if "total_tokens" not in told:
            mine["total_tokens"] = None
        return Usage(**mine)


class ModelSettings(Value, frozen=True, kw_only=True, omit_defaults=True):
    """How the model should answer; None leaves a choice to the provider."""

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    provider_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stop: Any = self.stop
        if stop is not None and stop.__class__ is not tuple:
            msgspec.structs.force_setattr(self, "stop", (stop,) if isinstance(stop, str) else tuple(stop))


class ModelRequest(Value, frozen=True, kw_only=True):
    """What is about to be sent to the model. All copies made from it hold for this step only.

    `number` is the step, `steps` those done so far, `usage` what they used, `attempt` counts the tries of this step
    from 0. `is_final_step` is true in the last step that the limits allow.
    """

    provider: str = ""
    model: str = ""
    instructions: str = ""
    messages: tuple[Message, ...] = ()
    tools: "tuple[Tool, ...]" = ()
    settings: ModelSettings = ModelSettings()
    output_schema: Mapping[str, Any] | None = None
    call_class: str = "agent"
    number: int = 0
    is_final_step: bool = False
    steps: "tuple[Step, ...]" = ()
    usage: Usage = Usage()
    attempt: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    target: Any = None
    """The `Model` to call where it is not the agent's own; set by `with_model`."""

    def __post_init__(self) -> None:
        if self.messages.__class__ is not tuple:
            msgspec.structs.force_setattr(self, "messages", tuple(self.messages))
        if self.tools.__class__ is not tuple:
            msgspec.structs.force_setattr(self, "tools", tuple(self.tools))

    @property
    def is_first_step(self) -> bool:
        """Whether this is step 0."""
        return self.number == 0

    def with_model(self, model: "str | Model") -> Self:
        """Return a copy for another model: a name keeps the provider, "provider:name" or a `Model` changes it.

        Signatures and options that only the former provider understands stay behind when the provider changes.

        Raises:
            ConfigurationError: the provider is not known.
        """
        if isinstance(model, str):
            head, colon, _ = model.partition(":")
            if not colon or not _is_provider(head):
                return self.replace(model=model)
            from interpose.models import resolve

            model = resolve(model)
        changed = self.replace(model=model.name, provider=model.provider, target=model)
        if model.provider == self.provider:
            return changed
        messages = tuple([_without_foreign(m, model.provider) for m in self.messages])
        return changed.replace(messages=messages, settings=self.settings.replace(provider_options={}))

    def with_instructions(self, instructions: str) -> Self:
        """Return a copy with other instructions."""
        return self.replace(instructions=instructions)

    def append_instructions(self, text: str) -> Self:
        """Return a copy with *text* after the instructions, a blank line between."""
        return self.replace(instructions=f"{self.instructions}\n\n{text}" if self.instructions else text)

    def with_messages(self, messages: Sequence[Message]) -> Self:
        """Return a copy with other messages; the stored thread is not changed by it."""
        return self.replace(messages=tuple(messages))

    def with_tools(self, tools: "Sequence[Tool]") -> Self:
        """Return a copy that offers *tools* and no others."""
        return self.replace(tools=tuple(tools))

    def only_tools(self, *names: str) -> Self:
        """Return a copy that offers only the tools of these *names*; a name that is not there is ignored."""
        return self.replace(tools=tuple([tool for tool in self.tools if tool.name in names]))

    def without_tools(self, *names: str) -> Self:
        """Return a copy without the tools of these *names*; `with_tools(())` offers none."""
        return self.replace(tools=tuple([tool for tool in self.tools if tool.name not in names]))

    def with_tool_choice(self, choice: str) -> Self:
        """Return a copy with tool choice "auto", "none", "required", or the name of a tool on offer.

        Raises:
            ValueError: it is none of these.
        """
        if choice not in TOOL_CHOICES and choice not in [tool.name for tool in self.tools]:
            known = ", ".join(repr(name) for name in (*TOOL_CHOICES, *(tool.name for tool in self.tools)))
            raise ValueError(f"tool choice {choice!r} is neither a mode nor a tool on offer; one of: {known}")
        return self.replace(settings=self.settings.replace(tool_choice=choice))

    def with_max_tokens(self, max_tokens: int | None) -> Self:
        """Return a copy with another limit on the tokens of the answer."""
        return self.replace(settings=self.settings.replace(max_tokens=max_tokens))

    def with_temperature(self, temperature: float | None) -> Self:
        """Return a copy with another temperature."""
        return self.replace(settings=self.settings.replace(temperature=temperature))

    def with_provider_options(self, options: Mapping[str, Any]) -> Self:
        """Return a copy with *options* merged over the provider options that are there."""
        merged = {**self.settings.provider_options, **options}
        return self.replace(settings=self.settings.replace(provider_options=merged))

    def map_text(self, change: Callable[[str], str]) -> Self:
        """Return a copy with *change* applied to the text of every message; other parts, ids and metadata stay."""
        return self.replace(messages=tuple([_map_text(message, change) for message in self.messages]))

    def answer(self, text: str) -> "ModelResponse":
        """Return a made-up response that says *text*."""
        return ModelResponse(message=AssistantMessage(text), model=self.model, provider=self.provider)

    def fingerprint(self) -> str:
        """Return a canonical SHA-256, in hex, of all that the model would see.

        Ids count only for which result answers which call; counters and metadata not at all.
        """
        seen = {
            "provider": self.provider,
            "model": self.model,
            "instructions": self.instructions,
            "messages": _as_seen(self.messages),
            "tools": [tool.to_dict() for tool in self.tools],
            "settings": self.settings,
            "output_schema": self.output_schema,
        }
        return hashlib.sha256(canonical_json(seen)).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the request as JSON-able dicts and lists; `steps` as their number."""
        from interpose.text import to_jsonable

        simple = self.replace(steps=(), tools=(), target=None)
        data = to_jsonable(simple)
        del data["target"]
        data["steps"] = len(self.steps)
        data["tools"] = [tool.to_dict() for tool in self.tools]
        return data  # type: ignore[no-any-return]  # a struct always becomes a dict

    def to_json(self) -> str:
        """Return the request as compact JSON."""
        from interpose.text import to_json

        return to_json(self.to_dict())


def _is_provider(name: str) -> bool:
    from interpose.models import is_provider

    return is_provider(name)


def _without_foreign(message: Message, provider: str) -> Message:
    """Return *message* without the parts and signatures that belong to another provider than *provider*."""
    parts: tuple[Any, ...] = getattr(message, "parts", ())
    if not parts:
        return message
    kept: list[Any] = []
    for part in parts:
        kind = part.__class__.__name__
        if kind == "ReasoningPart" and part.signature is not None:
            kept.append(part.replace(signature=None))
        elif kind != "ProviderPart" or part.provider in ("", provider):
            kept.append(part)
    return message.replace(parts=tuple(kept))


def _map_text(message: Message, change: Callable[[str], str]) -> Message:
    parts = getattr(message, "parts", ())
    if not parts:
        text = change(message.text)
        return message if text == message.text else message.replace(text=text)
    new = tuple([TextPart(change(part.text)) if part.__class__ is TextPart else part for part in parts])
    return message if new == parts else msgspec.structs.replace(message, parts=new, text="")


def _as_seen(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return *messages* as the model sees them: without metadata, and with call ids in the order of their coming."""
    numbers: dict[str, int] = {}
    seen = []
    for message in messages:
        data = message.to_dict()
        data.pop("id", None)
        data.pop("metadata", None)
        if "tool_call_id" in data:
            data["tool_call_id"] = numbers.setdefault(data["tool_call_id"], len(numbers))
        calls = [part for part in data.get("parts", ()) if part["type"] == "tool_call"]
        for call in (*data.get("tool_calls", ()), *calls):
            call["id"] = numbers.setdefault(call["id"], len(numbers))
            call.pop("idempotency_key", None)
            call.pop("edited_by", None)
        seen.append(data)
    return seen


FinishReason = Literal[
    "stop",
    "tool_calls",
    "length",
    "content_filter",
    "error",
    "cancelled",
    "dead_air",
    "limit",
    "stopped",
    "interrupt",
    "unknown",
]
"""Why a model call or a run ended. `stopped` is by `on_should_continue`; an unknown word of a provider is `unknown`."""


class ModelResponse(Value, frozen=True):
    """What a model answered, or what a layer answered in its place; then `made_by` names that middleware."""

    message: AssistantMessage
    finish_reason: str = ""
    usage: Usage | None = None
    model: str = ""
    provider: str = ""
    made_by: str | None = None

    def __post_init__(self) -> None:
        if not self.finish_reason:
            reason = "tool_calls" if self.message.tool_calls else "stop"
            msgspec.structs.force_setattr(self, "finish_reason", reason)

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message."""
        return self.message.tool_calls

    def with_text(self, text: str) -> Self:
        """Return a copy whose message says *text*; everything else stays."""
        return self.replace(message=self.message.replace(text=text))


class Step(Struct, frozen=True):
    """One model call and the tool calls that it asked for."""

    number: int
    request: ModelRequest
    response: ModelResponse
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage | None = None
