"""Chat Completions, going out: answers, chunks and usage as OpenAI's clients read them.

Source: the reference of OpenAI's Chat Completions API, read 2026-11.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from interpose.ids import random_id
from interpose.interrupts import OpenInterrupt
from interpose.request import Usage
from interpose.text import to_json

REASONS = {"length": "length", "limit": "length", "tool_calls": "tool_calls", "content_filter": "content_filter"}
DONE = b"data: [DONE]\n\n"


class Piece(NamedTuple):
    """What a run has said: text, or how it ended."""

    text: str = ""
    reason: str | None = None
    calls: Sequence[OpenInterrupt] = ()
    usage: Usage | None = None


class Answer:
    """One completion, whole or in chunks."""

    def __init__(self, model: str) -> None:
        self._head = {"id": random_id("chatcmpl"), "created": int(time.time()), "model": model}

    def chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        """Return one server-sent chunk."""
        return self._sent({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def text_chunk(self, text: str) -> bytes:
        """Return the chunk of a piece of text."""
        return self.chunk({"content": text})

    def usage_chunk(self, usage: Usage | None) -> bytes:
        """Return the chunk that tells what was used."""
        return self._sent({"choices": [], "usage": usage_on_wire(usage)})

    def end_chunk(self, piece: Piece) -> bytes:
        """Return the chunks with which a stream ends: its calls, if any, and why it ended."""
        calls = [{"index": place, **call} for place, call in enumerate(calls_on_wire(piece.calls))]
        before = self.chunk({"tool_calls": calls}) if calls else b""
        return before + self.chunk({}, reason_on_wire(piece))

    def whole(self, text: str, end: Piece) -> dict[str, Any]:
        """Return the completion as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if end.calls:
            message |= {"tool_calls": calls_on_wire(end.calls), "content": text or None}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason_on_wire(end)}],
            "usage": usage_on_wire(end.usage),
        }

    def _sent(self, more: dict[str, Any]) -> bytes:
        return b"data: %s\n\n" % to_json({**self._head, "object": "chat.completion.chunk", **more}).encode()


def reason_on_wire(piece: Piece) -> str:
    """Return why a completion ended, in OpenAI's words."""
    return "tool_calls" if piece.calls else REASONS.get(piece.reason or "", "stop")


def calls_on_wire(calls: Sequence[OpenInterrupt]) -> list[dict[str, Any]]:
    """Return the calls that the client is to run."""
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args_json}}
        for one in calls
        if (call := one.tool_call) is not None
    ]


def usage_on_wire(usage: Usage | None) -> dict[str, Any] | None:
    """Return tokens as OpenAI tells them; None where nothing is known."""
    if usage is None or usage.total_tokens is None:
        return None
    told: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens or 0,
        "completion_tokens": usage.output_tokens or 0,
        "total_tokens": usage.total_tokens,
    }
    if usage.cache_read_tokens is not None:
        told["prompt_tokens_details"] = {"cached_tokens": usage.cache_read_tokens}
    if usage.reasoning_tokens is not None:
        told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return told
