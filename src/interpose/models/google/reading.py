"""Chunks of a stream of the Gemini API, or a whole answer, as our chunks.

Source: the API reference of `generateContent`, and the types of the `google-genai` package 3.6, read 2026-11.
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
from interpose.models.google.history import CALL, CONTENT
from interpose.request import Usage
from interpose.text import to_json

_FILTERED = (
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ESCALATION", "PUP_LIMITED_DISABLED", "MODEL_ARMOR",
)  # fmt: skip
_FAILED = (
    "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE", "NO_IMAGE", "IMAGE_OTHER",
)  # fmt: skip
FINISH_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_FILTERED, "content_filter"),
    **dict.fromkeys(_FAILED, "error"),
}

_SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
"""What a candidate tells about where its text is from: kept on the message, and not sent back."""
_ENDS = ("finishReason", "finishMessage", "safetyRatings")
"""What it tells about an end of which ours says less: kept in the same way."""
_PLAIN_ENDS = frozenset({"STOP", "MAX_TOKENS"})


class Reading:
    """What is known of one answer while it comes in: how many calls there were, and what was told but once.

    *names* maps the names on the wire to those of the tools.
    """

    __slots__ = ("calls", "id", "names", "sources")

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.names = names or {}
        self.calls = 0
        self.id: str | None = None
        self.sources: dict[str, Any] = {}


def from_wire(chunk: Mapping[str, Any], reading: Reading | None = None) -> Iterator[ModelChunk]:
    """Yield what a chunk, or a whole answer, says; of several candidates only the first is read.

    Chunks of one stream share a *reading*. `Finish` comes with each finish reason: the caller keeps the last one until
    the end. A prompt that was blocked is an answer without content, filtered.
    """
    reading = reading or Reading()
    given_id = chunk.get("responseId")
    if given_id and given_id != reading.id:
        if reading.id is None:
            yield MessageStart(str(given_id))
        reading.id = given_id
    for candidate in chunk.get("candidates") or ():
        if candidate.get("index"):
            continue
        for part in (candidate.get("content") or {}).get("parts") or ():
            yield from _part(part, reading)
        for key in _SOURCES:
            if candidate.get(key):
                reading.sources[key] = candidate[key]
        if candidate.get("finishReason"):
            if candidate["finishReason"] not in _PLAIN_ENDS:
                reading.sources.update({key: candidate[key] for key in _ENDS if candidate.get(key)})
            if reading.sources:
                yield ProviderPart(reading.sources, "google")
                reading.sources = {}
            yield Finish(_reason(candidate["finishReason"], reading))
        break
    if (chunk.get("promptFeedback") or {}).get("blockReason"):
        yield ProviderPart({"promptFeedback": dict(chunk["promptFeedback"])}, "google")
        yield Finish("content_filter")
    if isinstance(chunk.get("usageMetadata"), Mapping):
        yield UsageUpdate(usage_of(chunk["usageMetadata"]))


def _reason(word: str, reading: Reading) -> str:
    reason = FINISH_REASONS.get(word, "unknown")
    return "tool_calls" if reason == "stop" and reading.calls else reason


def _part(part: Mapping[str, Any], reading: Reading) -> Iterator[ModelChunk]:
    signature = part.get("thoughtSignature")
    if "functionCall" in part:
        yield from _call(part, reading)
        return
    kinds = CONTENT & part.keys()
    if kinds - {"text"}:
        yield ProviderPart(dict(part), "google")  # code that was run, a picture: sent back as it is
        return
    text = part.get("text") or ""
    if part.get("thought"):
        if text:
            yield ReasoningDelta(text)
    elif text:
        yield TextDelta(text)
    if signature:
        # One that comes without words is a part of its own, sent back as it is; another belongs to the words before it.
        yield ProviderPart({"thoughtSignature": signature} if text else dict(part), "google")


def _call(part: Mapping[str, Any], reading: Reading) -> Iterator[ModelChunk]:
    call = part["functionCall"]
    if call.get("partialArgs") or call.get("willContinue"):
        raise ValueError("arguments that come in pieces are not read")
    name = call.get("name") or ""
    number = reading.calls
    reading.calls += 1
    args = to_json(call["args"]) if call.get("args") else ""
    yield ToolCallDelta(number, call.get("id") or None, reading.names.get(name, name) or None, args)
    if part.get("thoughtSignature"):
        yield ProviderPart({"thoughtSignature": part["thoughtSignature"], CALL: number}, "google")


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return the usage that an answer tells; thoughts count as output, what the API's own tools read as input."""
    said, thought = usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")
    prompt, tools = usage.get("promptTokenCount"), usage.get("toolUsePromptTokenCount")
    return Usage(
        input_tokens=None if prompt is None else prompt + (tools or 0),
        output_tokens=None if said is None and thought is None else (said or 0) + (thought or 0),
        total_tokens=usage.get("totalTokenCount"),
        cache_read_tokens=usage.get("cachedContentTokenCount"),
        reasoning_tokens=thought,
    )
