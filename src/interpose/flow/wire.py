"""Node events as JSON: a small *head* that is streamed to every page, and a *body* that is asked for.

The head says what a list, a graph and a waterfall need; the body holds content, meta and changes, which may be large.
"""

import time
import zlib
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from interpose.info import Node
from interpose.text import readable, to_json

ALWAYS = ("phase", "kind", "name", "run_id", "id")
OPTIONAL = ("thread_id", "provider", "call_class", "outcome", "finish_reason", "attempts", "superseded", "made_by")
FIELDS = Node.__struct_fields__
_values = attrgetter(*FIELDS)
BODY = ("content", "meta", "changes", "failures", "tool_call_id", "resumed_from")
NOTHING = {"in": None, "out": None}

MAX_NAME_CHARS = 200
MAX_ERROR_CHARS = 300
MAX_BODY_BYTES = 2_000_000
"""A larger body is not kept; what the engine hands over is capped far below this."""
COMPRESSED_FROM = 400
INLINE_BYTES = 500
"""A body up to this size goes with its head into the stream."""


class Wire(NamedTuple):
    """One event in two: the fields of its head, and those of its body."""

    head: dict[str, Any]
    body: dict[str, Any]


def wire_of(node: Node | Mapping[str, Any]) -> Wire:
    """Return *node*, or an event of a stored report, in two."""
    read = (node if isinstance(node, Mapping) else dict(zip(FIELDS, _values(node), strict=True))).get
    head: dict[str, Any] = {name: _short(read(name), MAX_NAME_CHARS) for name in ALWAYS}
    parent = read("parent_id")
    head["parent_id"] = None if parent is None else _short(parent, MAX_NAME_CHARS)
    duration_ms, started_at = read("duration_ms"), read("started_at")
    if not isinstance(started_at, int | float) or not started_at:
        started_at = time.time() - (duration_ms or 0) / 1000
    head["started_at"] = started_at
    body = {name: value for name in BODY if (value := read(name)) and value != NOTHING}
    if head["phase"] == "end":
        error = read("error")
        if error is not None and len(text := readable(error)) > MAX_ERROR_CHARS:
            body = {"error": text, **body}
        head |= {"status": read("status"), "error": None if error is None else _short(error, MAX_ERROR_CHARS)}
        head["duration_ms"] = duration_ms
        if usage := _usage(read("usage")):
            head["usage"] = usage
    head |= {name: value for name in OPTIONAL if (value := read(name)) or (name == "attempts" and value == 0)}
    return Wire(head, body)


def head_bytes(wire: Wire, run: str, seq: int) -> bytes:
    """Return the head as a JSON object: event *seq* of the outermost run *run*."""
    return json_of({"seq": seq, "run": run, **wire.head})


def pack(body: Mapping[str, Any]) -> bytes:
    """Return *body* as JSON, compressed where it is long; nothing where there is nothing in it."""
    return pack_json(json_of(body)) if body else b""


def pack_json(raw: bytes) -> bytes:
    """Return a JSON object, compressed where it is long; where it is too long for that, one that says so."""
    if len(raw) > MAX_BODY_BYTES:
        raw = json_of({"too_large": len(raw)})
    return zlib.compress(raw, 1) if len(raw) >= COMPRESSED_FROM or raw[:1] != b"{" else raw


def unpack(packed: bytes) -> bytes:
    """Return the JSON object that `pack` was given; an empty one for nothing."""
    if not packed:
        return b"{}"
    return packed if packed[:1] == b"{" else zlib.decompress(packed)


def whole(head: bytes, packed: bytes | None) -> bytes:
    """Return the event with its body; where that was given up for newer ones (None), `dropped` says so."""
    if packed is None:
        return head[:-1] + b',"dropped":true}'
    if not packed:
        return head
    body = unpack(packed)
    if body.startswith(b'{"error":'):  # the head has the beginning of it
        return merged(head, msgspec.json.decode(body))
    return head[:-1] + b"," + body[1:]


def light(head: bytes, packed: bytes | None, *, apart: bool = False) -> bytes:
    """Return the event as it is streamed: with its body where that is small and not *apart*, else with `left_out`."""
    if packed and (apart or packed[:1] != b"{" or len(packed) > INLINE_BYTES):
        return head[:-1] + b',"left_out":true}'
    return whole(head, packed)


def merged(head: bytes, body: Mapping[str, Any]) -> bytes:
    """Return the event with a body that was taken apart; what that says again counts."""
    return json_of({**msgspec.json.decode(head), **body})


def json_of(value: Any) -> bytes:
    """Return *value* as JSON; what JSON cannot hold, one that contains itself perhaps, as the text that names it."""
    try:
        return to_json(value).encode()
    except Exception:
        plain = {str(name): readable(item) for name, item in value.items()} if isinstance(value, Mapping) else None
        return to_json(readable(value) if plain is None else plain).encode()


def _short(value: Any, limit: int) -> str:
    if type(value) is str and len(value) <= limit and value.isascii():
        return value
    text = readable(value)
    return text if len(text) <= limit else text[:limit] + "…"


def _usage(usage: Any) -> dict[str, Any]:
    """Return what is known of *usage*, by name."""
    given = usage if isinstance(usage, Mapping) else usage.to_dict() if hasattr(usage, "to_dict") else {}
    return {str(name): value for name, value in given.items() if isinstance(value, int | float)}
