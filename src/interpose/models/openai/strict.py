"""Whether a schema keeps to the subset that strict structured output takes."""

from collections.abc import Mapping
from typing import Any

# Source: the vendor's guide to structured outputs, "supported schemas", read 2026-11.
_REFUSED = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties"}
)
_NESTED = ("properties", "$defs", "definitions")


def is_strict(schema: Any) -> bool:
    """Whether every object in *schema* is closed and requires all of its properties, and no refused keyword occurs.

    A schema that is not strict is sent all the same, without the promise that the answer fits it.
    """
    if not isinstance(schema, Mapping) or not schema or _REFUSED & schema.keys():
        return False
    properties = schema.get("properties") or {}
    is_object = schema.get("type") == "object" or bool(properties)
    if is_object and (
        schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != {*properties}
    ):
        return False
    nested = [item for key in _NESTED for item in (schema.get(key) or {}).values()]
    nested += schema.get("anyOf") or []
    if "items" in schema:
        nested.append(schema["items"])
    return all(is_strict(item) for item in nested)
