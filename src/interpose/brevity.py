"""Brevity: texts, and tools for a model, in fewer words."""

import re
from collections.abc import Mapping
from typing import Any

from interpose.tools import Tool

_SENTENCE_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[\u3002\uff01\uff1f])|\n")
_VALUES = ("const", "default", "examples")
_MAPS = ("properties", "$defs", "definitions", "patternProperties")


def first_sentence(text: str, max_chars: int) -> str:
    """Return the first sentence of *text*, or its beginning and `…` where that is longer than *max_chars*."""
    sentence = _SENTENCE_END.split(text.lstrip()[: max_chars + 1], maxsplit=1)[0].rstrip()
    return sentence if len(sentence) <= max_chars else sentence[: max_chars - 1].rstrip() + "…"


def with_short_descriptions(tool: Tool, max_chars: int) -> Tool:
    """Return a copy of *tool* with every description cut to its first sentence; arguments are read as before."""
    copy = tool.replace(description=first_sentence(tool.description, max_chars))
    copy.parameters = _shortened(tool.parameters, max_chars)
    return copy


def without_descriptions(tool: Tool) -> Tool:
    """Return a copy of *tool* without descriptions, and without enumerations; arguments are read as before."""
    copy = tool.replace(description="")
    copy.parameters = _shortened(tool.parameters, None)
    return copy


def _shortened(schema: Any, max_chars: int | None, *, are_names: bool = False) -> Any:
    """Return *schema* with short descriptions, or with None without any and without enumerations.

    *are_names* says that the keys are names, of which one may be `enum`.
    """
    if isinstance(schema, list | tuple):
        return [_shortened(item, max_chars) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if are_names:
            found[key] = _shortened(value, max_chars)
        elif key == "description" and isinstance(value, str):
            if max_chars is not None:
                found[key] = first_sentence(value, max_chars)
        elif key != "enum" or max_chars is not None:
            found[key] = value if key in _VALUES else _shortened(value, max_chars, are_names=key in _MAPS)
    return found
