"""Keys of cached results: equal values give equal texts, and no two values the same by chance."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from interpose.text import clean_value

ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
"""What Python calls an object that has no text of its own; another may have that address next."""


def key_text(value: Any) -> str:
    """Return *value* as compact JSON with sorted keys.

    Raises:
        RecursionError: it contains itself, or is nested too deep.
        TypeError: it, or something in it, can only be told by its address.
    """
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_told, str_keys=True)
        return _encoder.encode(clean_value(plain)).decode()


def _told(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a pydantic model, without importing pydantic
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    text = str(value)
    if ADDRESS.search(text):
        raise TypeError(f"{text:.80} has no text of its own")
    return text


_encoder = msgspec.json.Encoder(enc_hook=_told, order="deterministic")
