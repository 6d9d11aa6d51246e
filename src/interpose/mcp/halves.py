"""Half characters in JSON, as of a text that was cut: programs in JavaScript write them, and the SDK reads none."""

from __future__ import annotations

import json
import re

from interpose.text import clean_value

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_HALF_BYTES = re.compile(rb"\\u[dD][89a-fA-F]")
_FIELD = b"data:"


def mended(text: str) -> str:
    """Return JSON with U+FFFD for half characters; what is no JSON as it is."""
    if _HALF.search(text) is None:
        return text
    try:
        return json.dumps(clean_value(json.loads(text)))
    except ValueError:
        return text


def mended_line(line: bytes) -> bytes:
    """Return a line of a body of JSON, or of an event stream with JSON in it, mended in the same way."""
    if _HALF_BYTES.search(line) is None:
        return line
    field = _FIELD if line.startswith(_FIELD) else b""
    try:
        return field + mended(line[len(field) :].decode()).encode()
    except UnicodeDecodeError:  # compressed, most likely
        return line
