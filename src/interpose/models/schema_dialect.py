"""JSON schemas for vendors that take a part of JSON Schema only: the rest is told in words."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from interpose.text import to_json, to_jsonable

_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NESTED = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_SILENT = frozenset({"$schema", "$id", "$comment", "title", "examples", "default", "discriminator", "deprecated"})


class SchemaDialect(Struct, frozen=True, kw_only=True):
    """What one vendor takes: *keywords*, and values of `format`. With *closed*, objects take no further properties."""

    keywords: frozenset[str]
    formats: frozenset[str]
    closed: bool = False


def in_dialect(schema: Mapping[str, Any], dialect: SchemaDialect) -> dict[str, Any]:
    """Return *schema* in *dialect*: what it does not know is written into the description, so that it is heard of.

    The answer may then be wider than *schema*, never narrower, but for objects of a closed dialect.
    """
    narrowed: dict[str, Any] = _narrow(to_jsonable(schema), dialect)
    return narrowed


def _narrow(node: Any, dialect: SchemaDialect) -> Any:
    if not isinstance(node, dict):
        return node
    node = _rewritten(node, dialect)
    out: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for key, value in node.items():
        if key not in dialect.keywords or (key == "format" and value not in dialect.formats):
            if key not in _SILENT:
                told[key] = value
        elif key in _MAPS and isinstance(value, dict):
            out[key] = {name: _narrow(item, dialect) for name, item in value.items()}
        elif key in _LISTS and isinstance(value, list):
            out[key] = [_narrow(item, dialect) for item in value]
        elif key in _NESTED:
            out[key] = _narrow(value, dialect)
        else:
            out[key] = value
    if dialect.closed and (out.get("type") == "object" or "properties" in out):
        out["additionalProperties"] = False
    if told:
        words = to_json(told)
        out["description"] = f"{out['description']}\n\n{words}" if out.get("description") else words
    return out


def _rewritten(node: dict[str, Any], dialect: SchemaDialect) -> dict[str, Any]:
    """Return *node* with keywords that the dialect lacks replaced by others that say the same."""
    if "const" in node and "const" not in dialect.keywords and "enum" not in node:
        node = {
            ("enum" if key == "const" else key): ([value] if key == "const" else value) for key, value in node.items()
        }
    if "oneOf" in node and "oneOf" not in dialect.keywords and "anyOf" not in node:
        node = {("anyOf" if key == "oneOf" else key): value for key, value in node.items()}
    lone = node.get("allOf")
    if isinstance(lone, list) and len(lone) == 1 and isinstance(lone[0], dict):
        node = {**lone[0], **{key: value for key, value in node.items() if key != "allOf"}}
    return node
