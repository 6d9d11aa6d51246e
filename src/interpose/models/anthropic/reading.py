"""Events of a stream of the Messages API, or a whole message, as our chunks.

Source: the API reference of Messages, "Streaming", and the types of the `anthropic` package 2.14, read 2026-11.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interpose.messages import ProviderPart
from interpose.models.anthropic.history import STOP_FIELDS, check_of
from interpose.models.base import (
    Finish,
    MessageStart,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from interpose.request import Usage
from interpose.text import to_json

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""`pause_turn`, a turn of the vendor's own tools that is not over, has no word here and becomes `unknown`."""
_PLAIN_ENDS = frozenset({"end_turn", "stop_sequence", "tool_use", "max_tokens"})
"""Stop reasons that ours say as well; another one is kept beside the answer."""

_PLAIN_CALL = frozenset({"type", "id", "name", "input"})


class Reading:
    """What is known of one answer while it comes in: blocks that are not whole yet, and the usage so far.

    *names* maps the names on the wire to those of the tools; *output_tool* is the tool whose arguments are the answer's
    text.
    """

    __slots__ = ("blocks", "names", "output_tool", "pieces", "usage")

    def __init__(self, names: Mapping[str, str] | None = None, output_tool: str | None = None) -> None:
        self.names = names or {}
        self.output_tool = output_tool
        self.blocks: dict[int, dict[str, Any]] = {}
        self.pieces: list[str] = []
        self.usage: dict[str, Any] = {}


def from_wire(event: Mapping[str, Any], reading: Reading | None = None) -> Iterator[ModelChunk]:
    """Yield what an event, or a whole message, says; events that nobody knows say nothing.

    Events of one stream share a *reading*, for what is told in several of them: citations, blocks of the vendor's own
    tools, usage. `Finish` comes with the stop reason, one event before the last.
    """
    reading = reading or Reading()
    match event.get("type"):
        case "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                text = delta["text"]
                if text:
                    reading.pieces.append(text)
                    yield TextDelta(text)
            else:
                yield from _delta(event["index"], delta, reading)
        case "content_block_start":
            yield from _start(event["index"], event["content_block"], reading)
        case "content_block_stop":
            yield from _stop(event["index"], reading)
        case "message_start":
            message = event["message"]
            if message.get("id"):
                yield MessageStart(str(message["id"]))
            yield from _usage(message.get("usage"), reading)
        case "message_delta":
            yield from _usage(event.get("usage"), reading)
            yield from _finish(event["delta"], reading)
        case "message":
            yield from _whole(event, reading)


def _start(index: int, block: Mapping[str, Any], reading: Reading) -> Iterator[ModelChunk]:
    kind = block["type"]
    if kind == "text":
        text = block.get("text") or ""
        reading.pieces = [text]
        reading.blocks[index] = {"type": "text", "citations": [*(block.get("citations") or ())]}
        if text:
            yield TextDelta(text)
    elif kind == "thinking":
        if block.get("thinking") or block.get("signature"):
            yield ReasoningDelta(block.get("thinking") or "", block.get("signature") or None)
    elif kind == "tool_use" and reading.output_tool is not None and block.get("name") == reading.output_tool:
        reading.blocks[index] = {"type": "output", "text": to_json(block["input"]) if block.get("input") else ""}
    elif kind == "tool_use":
        name = block.get("name") or ""
        args = to_json(block["input"]) if block.get("input") else ""
        yield ToolCallDelta(index, block.get("id") or None, reading.names.get(name, name) or None, args)
        odd = {key: value for key, value in block.items() if key not in _PLAIN_CALL and value is not None}
        if odd and odd != {"caller": {"type": "direct"}}:
            yield ProviderPart(odd, "anthropic")  # marks of the call, which go back with it
    else:
        reading.blocks[index] = {**block}


def _delta(index: int, delta: Mapping[str, Any], reading: Reading) -> Iterator[ModelChunk]:
    kind = delta["type"]
    block = reading.blocks.get(index)
    if kind == "input_json_delta":
        args = delta.get("partial_json") or ""
        if block is None:
            if args:
                yield ToolCallDelta(index, args=args)
        elif block["type"] == "output":
            if args:
                block["text"] = ""
                block["told"] = True
                yield TextDelta(args)
        else:
            block["partial_json"] = block.get("partial_json", "") + args
    elif kind == "thinking_delta":
        if delta.get("thinking"):
            yield ReasoningDelta(delta["thinking"])
    elif kind == "signature_delta":
        if delta.get("signature"):
            yield ReasoningDelta("", delta["signature"])
    elif kind == "citations_delta":
        if block is not None:
            block.setdefault("citations", []).append(delta["citation"])
    elif block is not None and block["type"] != "text":
        _extend(block, delta)


def _extend(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta of a kind that nobody knows to its block: texts and lists grow, the rest is replaced."""
    for key, value in delta.items():
        there = block.get(key)
        if key == "type":
            continue
        if isinstance(there, str) and isinstance(value, str):
            block[key] = there + value
        elif isinstance(there, list) and isinstance(value, list):
            block[key] = [*there, *value]
        else:
            block[key] = value


def _stop(index: int, reading: Reading) -> Iterator[ModelChunk]:
    block = reading.blocks.pop(index, None)
    if block is None:
        return
    if block["type"] == "text":
        if block["citations"]:
            text = "".join(reading.pieces)
            mark = {"citations": block["citations"], "length": len(text), "check": check_of(text)}
            yield ProviderPart(mark, "anthropic")
    elif block["type"] == "output":
        if not block.get("told"):
            yield TextDelta(block["text"] or "{}")
    else:
        args = block.pop("partial_json", "")
        if args:
            block["input"] = _parsed(args)
        yield ProviderPart(block, "anthropic")


def _parsed(args: str) -> Any:
    try:
        return msgspec.json.decode(args)
    except msgspec.DecodeError:
        return {"invalid_arguments": args}  # cut off; an object is what goes back


def _finish(told: Mapping[str, Any], reading: Reading) -> Iterator[ModelChunk]:
    word = told.get("stop_reason")
    if word is None:
        return
    if word not in _PLAIN_ENDS:
        yield ProviderPart({key: told[key] for key in STOP_FIELDS if told.get(key) is not None}, "anthropic")
    reason = FINISH_REASONS.get(word, "unknown")
    yield Finish("stop" if word == "tool_use" and reading.output_tool is not None else reason)


def _whole(message: Mapping[str, Any], reading: Reading) -> Iterator[ModelChunk]:
    if message.get("id"):
        yield MessageStart(str(message["id"]))
    for index, block in enumerate(message.get("content") or ()):
        yield from _start(index, block, reading)
        yield from _stop(index, reading)
    yield from _usage(message.get("usage"), reading)
    yield from _finish(message, reading)


def _usage(told: Any, reading: Reading) -> Iterator[ModelChunk]:
    if not isinstance(told, Mapping):
        return
    reading.usage.update({key: value for key, value in told.items() if value is not None})
    yield UsageUpdate(usage_of(reading.usage))


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return the usage that a message tells; its `input_tokens` leave out what the prompt cache read or wrote."""
    fresh, read, written = (
        usage.get(key) for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    details = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=usage.get("output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=details.get("thinking_tokens"),
    )
