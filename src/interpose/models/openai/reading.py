"""What Chat Completions answers, as our chunks: a chunk of a stream, or a whole completion.

Source: the API reference of Chat Completions and the types of the `openai` package 3.57, read 2026-11.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from interpose.messages import ProviderPart
from interpose.models.base import (
    Finish,
    MessageStart,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from interpose.models.openai import shown
from interpose.models.openai.extras import MESSAGE_FIELDS, extras_of, merge_extras
from interpose.request import Usage
from interpose.text import to_json

FINISH_REASONS = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",  # compatible routers, when the server behind them failed
    "insufficient_system_resource": "error",  # DeepSeek
    # Words of compatible servers, which answer with those of the model behind them.
    **dict.fromkeys(["eos", "eos_token", "end_turn", "stop_sequence"], "stop"),
    **dict.fromkeys(["max_tokens", "model_length"], "length"),
}
_FINISHES = {word: Finish(reason) for word, reason in FINISH_REASONS.items()}
_UNKNOWN = Finish("unknown")
_EXTRA_FIELDS = frozenset(MESSAGE_FIELDS) | shown.MESSAGE_FIELDS


def from_wire(chunk: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Iterator[ModelChunk]:
    """Yield what a chunk, or a whole completion, says; of several choices only the first is read.

    *names* maps the names on the wire to those of the tools. `Finish` may come before the usage, as it does on the
    wire, and what a server added comes piece by piece: `ChatReader` puts both at the end.
    """
    for choice in chunk.get("choices") or ():
        if choice.get("index"):
            continue
        if chunk.get("id"):
            yield MessageStart(str(chunk["id"]))
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message") or {}
        yield from _delta(delta, names or {}, "message" in choice)
        reason = choice.get("finish_reason")
        if reason:
            yield _FINISHES.get(reason, _UNKNOWN)
        break
    if not shown.ANSWER_FIELDS.isdisjoint(chunk):
        beside = shown.shown_of(chunk, shown.ANSWER_FIELDS)
        if beside:
            yield ProviderPart({"type": shown.NOTE, **beside})
    usage = chunk.get("usage")
    if isinstance(usage, Mapping):
        yield UsageUpdate(usage_of(usage))


def _delta(delta: Mapping[str, Any], names: Mapping[str, str], whole: bool) -> Iterator[ModelChunk]:
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")  # two spellings of compatible servers
    if reasoning and isinstance(reasoning, str):
        yield ReasoningDelta(reasoning)
    content = delta.get("content")
    if content.__class__ is str:
        if content:
            yield TextDelta(content)
    elif content:
        yield from _parts(content)
    if delta.get("refusal"):
        yield TextDelta(delta["refusal"])
    calls = delta.get("tool_calls")
    if calls:
        yield from [_call(call, names, position if whole else None) for position, call in enumerate(calls)]
    if calls or not _EXTRA_FIELDS.isdisjoint(delta):
        extras = extras_of(delta)
        if extras:
            yield ProviderPart(extras)
        beside = shown.shown_of(delta, shown.MESSAGE_FIELDS)
        if beside:
            audio = beside.get("audio")
            if isinstance(audio, Mapping) and audio.get("transcript") and not content:
                yield TextDelta(audio["transcript"])
            yield ProviderPart({"type": shown.NOTE, **beside})


def _call(call: Mapping[str, Any], names: Mapping[str, str], position: int | None) -> ToolCallDelta:
    function = call.get("function") or {}
    args = function.get("arguments")
    name = function.get("name") or ""
    return ToolCallDelta(
        index=call.get("index", position),
        id=call.get("id") or None,
        name=names.get(name, name) or None,
        args=args if isinstance(args, str) else "" if args is None else to_json(args),
    )


def _parts(content: Any) -> Iterator[ModelChunk]:
    """Yield what content in parts says, in which some compatible servers answer; one of them thinks in it too."""
    for part in content:
        thought = part.get("thinking")
        if isinstance(thought, list):
            thought = "".join([str(piece.get("text") or "") for piece in thought])
        if thought:
            yield ReasoningDelta(str(thought))
        if part.get("text"):
            yield TextDelta(str(part["text"]))


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return the usage that a completion tells; details that are not told stay unknown."""
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        total_tokens=usage.get("total_tokens"),
        cache_read_tokens=prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=prompt.get("cache_write_tokens"),
        reasoning_tokens=completion.get("reasoning_tokens"),
    )


class ChatReader:
    """Reads one answer, chunk by chunk or as a whole, and keeps for the end what belongs there.

    *names* maps the names on the wire to those of the tools; what a server added is dropped unless *keep_extras*, and
    is marked as *provider*'s. What is for the reader alone is kept in any case.
    """

    __slots__ = ("_extras", "_finish", "_is_refused", "_keep_extras", "_message_id", "_names", "_provider", "_shown")

    def __init__(self, names: Mapping[str, str], keep_extras: bool, provider: str = "") -> None:
        self._names = names
        self._provider = provider
        self._keep_extras = keep_extras
        self._extras: list[Mapping[str, Any]] = []
        self._shown: list[Mapping[str, Any]] = []
        self._finish: Finish | None = None
        self._message_id = ""
        self._is_refused = False

    def read(self, data: Any) -> list[ModelChunk]:
        """Return what *data* says, without what stands at the end.

        Raises:
            Nonsense: it is no chunk and no completion.
        """
        said: list[ModelChunk] = []
        try:
            for chunk in from_wire(data, self._names):
                if isinstance(chunk, MessageStart):
                    if not self._message_id:  # some servers number each chunk anew, though they answer but once
                        self._message_id = chunk.id
                        said.append(chunk)
                elif isinstance(chunk, Finish):
                    self._finish = chunk
                elif isinstance(chunk, ProviderPart):
                    (self._shown if chunk.data.get("type") == shown.NOTE else self._extras).append(chunk.data)
                else:
                    said.append(chunk)
            self._is_refused = self._is_refused or _is_refusal(data)
        except (AttributeError, KeyError, TypeError) as error:
            raise Nonsense(f"{str(data)[:200]!r}") from error
        return said

    def end(self) -> list[ModelChunk]:
        """Return what stands at the end: what the server added or shows, and the reason to finish, if it gave one."""
        last: list[ModelChunk] = []
        if self._shown:
            last.append(ProviderPart(shown.merge_shown(self._shown), self._provider))
        if self._extras and self._keep_extras:
            last.append(ProviderPart(merge_extras(self._extras), self._provider))
        if self._finish is None:
            return last
        is_quiet_refusal = self._is_refused and self._finish.reason == "stop"
        return [*last, Finish("content_filter") if is_quiet_refusal else self._finish]


def _is_refusal(data: Mapping[str, Any]) -> bool:
    """Whether the model refuses here, in words that stand in for the answer; the API then says "stop" all the same."""
    choices = data.get("choices") or [{}]
    return bool((choices[0].get("delta") or choices[0].get("message") or {}).get("refusal"))


class Nonsense(ValueError):
    """The server sent something that is no answer of this API."""
