"""JSON schemas: how they are made short for a model, and what a value lacks to fit one."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interpose.text import clean, to_json

Schema = Mapping[str, Any]

_NESTED = ("items", "additionalProperties", "contains", "propertyNames", "not")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties")


def inline(schema: Schema, defs: Schema) -> dict[str, Any]:
    """Return *schema* with each reference replaced by what it names, without generated titles.

    A type that contains itself cannot be put in place and stays in `$defs`.
    """
    recursive = {name for name in defs if name in _reachable(name, defs)}
    kept: dict[str, Any] = {}

    def visit(node: Any) -> Any:
        if not isinstance(node, Mapping):
            return node
        out: dict[str, Any] = {}
        name = _referred(node)
        if name in recursive:
            if name not in kept:
                kept[name] = {}
                kept[name] = visit(defs[name])
            out["$ref"] = f"#/$defs/{name}"
        elif name in defs:
            out.update(visit(defs[name]))
        for key, value in node.items():
            if key in _MAPS:
                out[key] = {inner: visit(item) for inner, item in value.items()}
            elif key in _LISTS:
                out[key] = [visit(item) for item in value]
            elif key in _NESTED:
                out[key] = visit(value)
            elif key not in ("$ref", "$defs", "title", "discriminator"):
                out[key] = value
        return out

    result: dict[str, Any] = visit(schema)
    if kept:
        result["$defs"] = kept
    return result


def _children(node: Schema) -> Iterator[Any]:
    for key in _MAPS:
        yield from (node.get(key) or {}).values()
    for key in _LISTS:
        yield from node.get(key) or ()
    for key in _NESTED:
        yield node.get(key)


def _referred(node: Schema) -> str:
    reference = node.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""


def _reachable(start: str, defs: Schema) -> set[str]:
    found: set[str] = set()
    waiting: list[Any] = [defs[start]]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        name = _referred(node)
        if name in defs and name not in found:
            found.add(name)
            waiting.append(defs[name])
        waiting.extend(_children(node))
    return found


def resolve(schema: Any, root: Schema) -> Schema:
    """Return *schema* with a reference to `$defs` (or `definitions`) of *root* followed; {} where it leads nowhere."""
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" not in schema:
            return schema
        name = _referred(schema)
        schema = (root.get("$defs") or root.get("definitions") or {}).get(name)
    return {}


def branches(schema: Any, root: Schema) -> list[Schema]:
    """Return the alternatives of *schema*, itself where it has none."""
    schema = resolve(schema, root)
    options = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(options, list):
        return [schema]
    return [branch for option in options for branch in branches(option, root)]


def kinds(schema: Any, root: Schema) -> set[str] | None:
    """Return the JSON types that *schema* admits, None where it names none and so admits any."""
    found: set[str] = set()
    for branch in branches(schema, root):
        kind = branch.get("type")
        if kind is None and ("enum" in branch or "const" in branch):
            kind = [_kind_of(value) for value in branch.get("enum", [branch.get("const")])]
        if kind is None:
            return None
        found.update([kind] if isinstance(kind, str) else kind)
    return found


def is_closed(schema: Schema) -> bool:
    """Say whether a name that *schema* does not list is a mistake."""
    extra = schema.get("additionalProperties")
    if extra is None:
        return bool(schema.get("properties")) and not any(key in schema for key in ("patternProperties", *_LISTS))
    return extra is False


def describe(schema: Any, root: Schema) -> str:
    """Return in a few words what *schema* admits, such as "integer" or "one of 'a', 'b'"."""
    options = branches(schema, root)
    listed = [show(value) for branch in options for value in branch.get("enum", ())]
    words = ["one of " + ", ".join(listed)] if listed else []
    for branch in options:
        if "enum" in branch:
            continue
        if "const" in branch:
            words.append(show(branch["const"]))
        elif branch.get("type") == "array" and (inner := kinds(branch.get("items"), root)):
            words.append("array of " + " or ".join(sorted(inner)))
        else:
            kind = branch.get("type", "any")
            form = f", {branch['format']}" if "format" in branch else ""
            words.append((kind if isinstance(kind, str) else " or ".join(kind)) + form)
    return " or ".join(dict.fromkeys(words))


def show(value: Any, limit: int = 80) -> str:
    """Return *value* for an error message: a text in quotes, anything else as JSON, shortened."""
    text = repr(clean(value)) if isinstance(value, str) else to_json(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case list() | tuple():
            return "array"
    return "any"


def mend(value: Any, schema: Any, root: Schema, scalars: bool = False) -> Any:
    """Return *value* with the slips mended that models make most; the same object where there was none.

    JSON text given for an object or a list is parsed, null is dropped where the property may be left out and does not
    admit it. With *scalars*, the texts of numbers and booleans are read too.
    """
    if isinstance(value, str):
        parsed = _parsed(value, kinds(schema, root), scalars)
        return value if parsed is value else mend(parsed, schema, root, scalars)
    if isinstance(value, dict):
        shape = next((branch for branch in branches(schema, root) if _admits(branch, "object", root)), {})
        properties = shape.get("properties") or {}
        optional = properties.keys() - set(shape.get("required") or ())
        changed = {
            name: mend(item, properties.get(name, shape.get("additionalProperties")), root, scalars)
            for name, item in value.items()
            if not (item is None and name in optional and not _admits(properties[name], "null", root))
        }
        same = len(changed) == len(value) and all(changed[name] is item for name, item in value.items())
        return value if same else changed
    if isinstance(value, list):
        shape = next((branch for branch in branches(schema, root) if _admits(branch, "array", root)), {})
        items = [mend(item, shape.get("items"), root, scalars) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _admits(schema: Any, kind: str, root: Schema) -> bool:
    admitted = kinds(schema, root)
    return admitted is None or kind in admitted


def _parsed(text: str, admitted: set[str] | None, scalars: bool) -> Any:
    """Return the JSON value that *text* spells, where a text is not admitted but that value's type is."""
    wanted = {"object", "array"} | ({"integer", "number", "boolean", "null"} if scalars else set())
    if admitted is None or "string" in admitted or not admitted & wanted:
        return text
    try:
        value = msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        lowered = text.strip().lower()
        value = lowered == "true" if lowered in ("true", "false") else text
    kind = _kind_of(value)
    fits = kind in admitted or (kind == "integer" and "number" in admitted)
    return value if kind in wanted and fits else text


def mismatches(value: Any, schema: Any, root: Schema, path: str) -> Iterator[str]:
    """Yield a line for each place where *value* lacks what *schema* asks: types, enums, required and unknown names.

    Other keywords (ranges, patterns, formats) are left to whoever made the schema.
    """
    options = branches(schema, root)
    if len(options) > 1:
        if all(any(True for _ in mismatches(value, option, root, path)) for option in options):
            yield f"{path}: expected {describe(schema, root)}, got {show(value)}"
        return
    shape = options[0] if options else {}
    kind = _kind_of(value)
    admitted = kinds(shape, root)
    wrong_type = admitted is not None and kind not in admitted and not (kind == "integer" and "number" in admitted)
    known = shape.get("enum") or ([shape["const"]] if "const" in shape else None)
    if wrong_type or (known is not None and value not in known):
        yield f"{path}: expected {describe(shape, root)}, got {show(value)}"
    elif kind == "object":
        yield from _object_mismatches(value, shape, root, path)
    elif kind == "array" and isinstance(shape.get("items"), Mapping):
        for index, item in enumerate(value):
            yield from mismatches(item, shape["items"], root, f"{path}[{index}]")


def _object_mismatches(value: Schema, shape: Schema, root: Schema, path: str) -> Iterator[str]:
    properties = shape.get("properties") or {}
    for name in shape.get("required") or ():
        if name not in value:
            yield f"{path}: missing {name!r} ({describe(properties.get(name, {}), root)})"
    extra = shape.get("additionalProperties")
    for name, item in value.items():
        if name in properties or isinstance(extra, Mapping):
            yield from mismatches(item, properties.get(name, extra), root, f"{path}.{name}")
        elif extra is False:
            yield f"{path}: unknown field {name!r}; it takes: {', '.join(properties) or 'nothing'}"


def step_into(schema: Any, key: str | int, root: Schema) -> Schema:
    """Return the schema of what stands under *key* (a name or an index) in a value of *schema*; {} where unknown."""
    found = []
    for branch in branches(schema, root):
        below = branch.get("items")
        if isinstance(key, str):
            below = (branch.get("properties") or {}).get(key, branch.get("additionalProperties"))
        if isinstance(below, Mapping):
            found.append(resolve(below, root))
    return found[0] if len(found) == 1 else {"anyOf": found} if found else {}
