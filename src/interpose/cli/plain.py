"""Text for a terminal: what a model or a tool wrote, made harmless and short."""

import json
from typing import Any

from interpose.text import readable

# Escape sequences begin with a control character, so replacing each by a picture of it takes all of them away, also
# those that come in pieces. Line ends and tabs stay; a carriage return, which overwrites the line, goes.
_PICTURES = {
    **{code: 0x2400 + code for code in range(0x20)},
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
    0x7F: 0x2421,
    0x09: 0x09,
    0x0A: 0x0A,
    0x0D: None,
}

MAX_CHARS = 200


def harmless(text: str) -> str:
    """Return *text* without control characters that a terminal would act on."""
    return text.translate(_PICTURES)


def one_line(value: Any) -> str:
    """Return *value* as a model reads it, harmless, on one line, cut where it is long."""
    text = " ".join(harmless(readable(value)).split())
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


def call_line(name: str, args: str) -> str:
    """Return a tool call as one would write it in Python, from its arguments as JSON text."""
    try:
        given = json.loads(args or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return one_line(f"{name}({args})")
    return one_line(f"{name}({', '.join(f'{key}={json.dumps(v, ensure_ascii=False)}' for key, v in given.items())})")
