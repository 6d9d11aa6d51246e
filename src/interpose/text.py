"""The JSON border and clean text: how a value becomes text that every encoder takes."""

import dataclasses
import re
from collections.abc import Mapping, Set
from typing import Any

import msgspec

SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Return *text* with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii() or SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_probe = msgspec.json.Encoder(enc_hook=str)


def is_clean(value: Any) -> bool:
    """Whether *value* holds no half characters: what does, cannot be encoded."""
    try:
        _probe.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def clean_value(value: Any) -> Any:
    """Return the JSON-like *value* with `clean` applied to every text in it, keys too; unchanged objects are kept."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean_value(key): clean_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(item) for item in value]
    return value


def _encode_unknown(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a pydantic model, without importing pydantic
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=str)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return str(value)


_encoder = msgspec.json.Encoder(enc_hook=_encode_unknown)
_canonical = msgspec.json.Encoder(enc_hook=_encode_unknown, order="deterministic")


def to_jsonable(value: Any) -> Any:
    """Return *value* as what reading its `to_json` gives: dicts, lists, texts, numbers, booleans and None.

    Raises:
        RecursionError: the value contains itself, or is nested too deep.
    """
    try:
        encoded = _encoder.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_encode_unknown, str_keys=True)
        encoded = _encoder.encode(clean_value(plain))
    return msgspec.json.decode(encoded)


def to_json(value: Any) -> str:
    """Return *value* as compact JSON, letters kept as they are, unknown objects as their `str`; NaN becomes null.

    Raises:
        RecursionError: the value contains itself, or is nested too deep.
    """
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return _encoder.encode(to_jsonable(value)).decode()


def canonical_json(value: Any) -> bytes:
    """Return *value* as compact JSON with sorted keys: equal values give equal bytes."""
    try:
        return _canonical.encode(value)
    except (UnicodeEncodeError, TypeError):  # half a character, or a key that is no text
        plain = msgspec.to_builtins(value, enc_hook=_encode_unknown, str_keys=True, order="deterministic")
        return _canonical.encode(clean_value(plain))


def readable(value: Any) -> str:
    """Return *value* as a model reads it: a text as it is, anything else as compact JSON.

    A value that JSON cannot hold (one that contains itself) is given as its `repr`.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    try:
        return to_json(value)
    except Exception:
        return _named(value)


def _named(value: Any) -> str:
    """Return the `repr` of a value that JSON cannot hold, or the name of its type where even that fails."""
    try:
        return clean(repr(value))
    except Exception:
        return f"<{type(value).__name__}>"
