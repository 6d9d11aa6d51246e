"""JSON schemas in the form that the engine's grammar takes, bounded so that a small model comes to an end."""

from collections.abc import Iterable, Mapping
from typing import Any

from interpose.text import to_jsonable

MAX_STRING_CHARS = 200
MAX_ITEMS = 8
FORMATS = {"date", "time", "date-time", "uuid"}  # those of which the engine makes a grammar; tried with 2026.10
KEPT = ("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
UNIONS = ("anyOf", "oneOf", "allOf")


def call_schema(tools: Iterable[Any]) -> dict[str, Any]:
    """Return the schema of one call of one of *tools*: its name first, then its arguments."""
    branches: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for number, tool in enumerate(tools):
        grammar = _Grammar(f"t{number}_")
        properties = {"name": {"const": tool.name}, "arguments": grammar.arguments(to_jsonable(tool.parameters))}
        branches.append(_closed(properties, ["name", "arguments"]))
        definitions |= grammar.definitions
    schema: dict[str, Any] = {"oneOf": branches} if len(branches) > 1 else branches[0]
    return {**schema, "$defs": definitions} if definitions else schema


def output_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* as the engine takes it."""
    grammar = _Grammar("")
    bounded = grammar.bounded(to_jsonable(schema))
    return {**bounded, "$defs": grammar.definitions} if grammar.definitions else bounded


class _Grammar:
    """One schema on its way to the engine; its definitions are collected, under *prefix*, for the root."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.definitions: dict[str, Any] = {}

    def arguments(self, schema: dict[str, Any]) -> dict[str, Any]:
        bounded = self.bounded(schema)
        return bounded if "properties" in bounded else _closed({}, [])

    def bounded(self, schema: Any) -> dict[str, Any]:
        if not isinstance(schema, dict):
            return {}
        for key in ("$defs", "definitions"):
            for name, definition in (schema.get(key) or {}).items():
                self.definitions[self.prefix + name] = self.bounded(definition)
        if "$ref" in schema:
            head, _, name = str(schema["$ref"]).rpartition("/")
            return {"$ref": f"#/$defs/{self.prefix}{name}"} if head in ("#/$defs", "#/definitions") else {}
        kept = {key: schema[key] for key in KEPT if key in schema}
        kept |= {key: [self.bounded(branch) for branch in schema[key]] for key in UNIONS if schema.get(key)}
        if "const" in kept or "enum" in kept:
            return {key: kept[key] for key in ("const", "enum") if key in kept}
        kinds = kept.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if "string" in kinds:
            kept |= _string(schema)
        if "array" in kinds:
            kept |= self._array(schema)
        if schema.get("properties"):
            properties = {name: self.bounded(one) for name, one in schema["properties"].items()}
            required = [name for name in schema.get("required") or () if name in properties]
            kept |= _closed(properties, required) if "object" in kinds or kinds == [None] else {}
        elif "object" in kinds and isinstance(schema.get("additionalProperties"), dict):
            kept["additionalProperties"] = self.bounded(schema["additionalProperties"])
        return kept

    def _array(self, schema: dict[str, Any]) -> dict[str, Any]:
        if isinstance(schema.get("prefixItems"), list):
            return {"prefixItems": [self.bounded(item) for item in schema["prefixItems"]]}
        at_least = schema.get("minItems") or 0
        array = {
            "items": self.bounded(schema.get("items")),
            "maxItems": schema.get("maxItems", max(MAX_ITEMS, at_least)),
        }
        return {**array, "minItems": at_least} if at_least else array


def _closed(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _string(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what bounds a text: a format that the engine knows, or lengths. Patterns are left to validation."""
    if schema.get("format") in FORMATS:
        return {"format": schema["format"]}
    at_least = schema.get("minLength") or 0
    lengths = {"maxLength": min(schema.get("maxLength", MAX_STRING_CHARS), max(MAX_STRING_CHARS, at_least))}
    return {**lengths, "minLength": at_least} if at_least else lengths
