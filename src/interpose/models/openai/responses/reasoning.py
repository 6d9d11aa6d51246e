"""A reasoning item as the signature of its text, and back as it was.

The text of a reasoning part is what the model told of its thoughts, which a hook may change; the signature is the rest
of the item, as JSON: its id, its encrypted content, how the text was divided, and whose it is.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from interpose.text import to_json

TYPE = "reasoning"
BETWEEN = "\n\n"
"""Stands between two pieces of one item, such as two summaries."""
_KINDS = {"summary": "summary_text", "content": "reasoning_text"}


def shown_of(item: Mapping[str, Any]) -> str:
    """Return which of its texts an item tells: "summary", or "content" where it has no summary."""
    return "content" if item.get("content") and not item.get("summary") else "summary"


def text_of(item: Mapping[str, Any], shown: str) -> str:
    """Return the text that an item tells."""
    return BETWEEN.join(piece.get("text") or "" for piece in item.get(shown) or ())


def signature_of(item: Mapping[str, Any], shown: str, provider: str = "") -> str:
    """Return everything in *item* but the text that is *shown*, as JSON; *provider* is whose it is."""
    lengths = [len(piece.get("text") or "") for piece in item.get(shown) or ()]
    rest = {key: value for key, value in item.items() if key != shown and value is not None}
    return to_json({**rest, "shown": shown, "lengths": lengths, **({"provider": provider} if provider else {})})


def item_of(text: str, signature: str | None, provider: str = "") -> dict[str, Any] | None:
    """Return the item that *signature* and *text* make, with the text in its old pieces unless it was changed.

    None where the signature is of another vendor or of another provider than *provider*, or there is none.
    """
    try:
        told = msgspec.json.decode(signature or "")
    except msgspec.DecodeError:
        return None
    if not isinstance(told, dict) or told.get("type") != TYPE or told.get("shown") not in _KINDS:
        return None
    if told.pop("provider", provider) != provider and provider:
        return None  # only who encrypted it can read it
    shown = told.pop("shown")
    pieces = _divide(text, told.pop("lengths", ()))
    return {**told, "summary": told.get("summary", []), shown: [{"type": _KINDS[shown], "text": one} for one in pieces]}


def _divide(text: str, lengths: Any) -> list[str]:
    pieces: list[str] = []
    place = 0
    for length in lengths if isinstance(lengths, list) else ():
        pieces.append(text[place : place + length])
        place += length + len(BETWEEN)
    return pieces if BETWEEN.join(pieces) == text else [text]
