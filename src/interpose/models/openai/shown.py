"""What servers say beside an answer for its reader alone: sources, pictures, sound. It is kept, and never sent back."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

MESSAGE_FIELDS = frozenset({"annotations", "audio", "images"})
"""Fields of a message: the sources of its text, its sound, and pictures as routers give them."""
ANSWER_FIELDS = frozenset({"citations", "search_results"})
"""Fields of the answer, as servers that search put their sources there."""
NOTE = "message"
"""The type of the part that holds them, as that of Responses."""


def shown_of(told: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    """Return what *told*, a message or an answer or a piece of one, has of *fields*; empty where there is nothing."""
    return {field: told[field] for field in fields if told.get(field)}


def merge_shown(pieces: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what came in pieces as one part: sound is joined, and lists follow each other, nothing in them twice."""
    merged: dict[str, Any] = {}
    for piece in pieces:
        for key, value in piece.items():
            old = merged.get(key)
            if isinstance(old, list) and isinstance(value, list):
                merged[key] = [*old, *[one for one in value if one not in old]]
            elif isinstance(old, Mapping) and isinstance(value, Mapping):
                merged[key] = _joined(old, value)
            else:
                merged[key] = value
    return {"type": NOTE, **merged}


def _joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**old, **{key: value for key, value in new.items() if value is not None}}
    if old.get("transcript") and new.get("transcript"):
        joined["transcript"] = f"{old['transcript']}{new['transcript']}"
    if old.get("data") and new.get("data"):
        joined["data"] = _joined_base64(str(old["data"]), str(new["data"]))
    return joined


def _joined_base64(first: str, second: str) -> str:
    """Return the base64 of two pieces that were each encoded by themselves, so that the first may end with padding."""
    if not first.endswith("="):
        return first + second
    try:
        return base64.b64encode(base64.b64decode(first) + base64.b64decode(second)).decode()
    except binascii.Error:
        return first + second
