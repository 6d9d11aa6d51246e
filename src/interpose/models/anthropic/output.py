"""An output schema in the forms that the Messages API has for one: a format of the answer, or a tool to be called."""

from collections.abc import Mapping
from typing import Any

from interpose.models.schema_dialect import SchemaDialect, in_dialect
from interpose.models.wire_names import schema_name
from interpose.text import to_jsonable

# Source: the vendor's guide to structured outputs, "JSON Schema limitations", and the transformation of schemas in the
# `anthropic` package 2.14 (`lib/_parse/_transform.py`), read 2026-11.
NATIVE = SchemaDialect(
    keywords=frozenset(
        {"$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "description", "enum", "format", "items",
         "properties", "required", "title", "type"}
    ),
    formats=frozenset(
        {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
    ),
    closed=True,
)  # fmt: skip


def output_format(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return *schema* as a format of the answer, or None where it says what a format cannot.

    A format holds closed objects only, so one with free keys would lose them; and no type that contains itself.
    """
    plain = to_jsonable(schema)
    if not _fits(plain, plain.get("$defs") or {}, ()):
        return None
    return {"type": "json_schema", "schema": in_dialect(plain, NATIVE)}


def _fits(node: Any, defs: Mapping[str, Any], inside: tuple[str, ...]) -> bool:
    if not isinstance(node, Mapping):
        return node is not True  # true: anything at all
    name = str(node.get("$ref", "")).removeprefix("#/$defs/")
    if name:
        return name in defs and name not in inside and _fits(defs[name], defs, (*inside, name))
    if node.get("additionalProperties") not in (None, False) or node.get("patternProperties"):
        return False
    if not {"type", "anyOf", "oneOf", "allOf", "const", "enum"} & node.keys() or isinstance(node.get("type"), list):
        return False
    if node.get("type") == "object" and not node.get("properties") and node.get("additionalProperties") is not False:
        return False
    nested = [*(node.get("properties") or {}).values()]
    for key in ("anyOf", "oneOf", "allOf"):
        nested += node.get(key) or []
    if "items" in node:
        nested.append(node["items"])
    return all(_fits(item, defs, inside) for item in nested)


def output_tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool whose arguments are the answer; *schema* must be one of objects."""
    return {
        "name": schema_name(schema),
        "description": "Give the final answer, as the arguments of this call.",
        "input_schema": to_jsonable(schema),
    }
