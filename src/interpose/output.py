"""Output types: how a type becomes a JSON schema, and how the model's text becomes a value of it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from interpose.errors import ConfigurationError
from interpose.text import to_json


class OutputType:
    """What `Agent(output=…)` asks for.

    A dataclass, `TypedDict`, msgspec struct, pydantic model, any type that msgspec understands, or a JSON schema as a
    dict, whose values come as plain dicts and lists.

    Raises:
        ConfigurationError: no JSON schema can be made of it.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        self.name = "the JSON schema" if isinstance(given, Mapping) else getattr(given, "__name__", str(given))
        self._pydantic: Any = None
        if isinstance(given, Mapping):
            self.schema: dict[str, Any] = dict(given)
        elif _is_pydantic(given):
            from pydantic import TypeAdapter

            self._pydantic = TypeAdapter(given)
            self.schema = self._pydantic.json_schema()
        else:
            self.schema = _schema(given)

    def problem(self, text: str) -> str | None:
        """Return what is wrong with *text*, or None where it decodes."""
        try:
            self.decode(text)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            return str(error)
        return None

    def decode(self, text: str) -> Any:
        """Return the value that *text* is, strictly first and then leniently ("3" for 3, null for an optional field).

        Raises:
            ValueError: it is no JSON, or does not fit.
        """
        text = unfenced(text)
        if not text:
            raise ValueError("the answer is empty")
        if self._pydantic is not None:
            return self._pydantic.validate_json(text)
        if isinstance(self.given, Mapping):
            return _checked(msgspec.json.decode(text), self.schema)
        try:
            return msgspec.json.decode(text, type=self.given)
        except msgspec.ValidationError:
            raw = _without_nulls(msgspec.json.decode(text), self.schema, self.schema)
            return msgspec.convert(raw, self.given, strict=False)


def unfenced(text: str) -> str:
    """Return *text* without blanks around it and the code fence that models like to put round JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) > 6:
        head, _, rest = text[3:-3].partition("\n")
        return rest.strip() if head.strip().isalnum() or not head.strip() else text[3:-3].strip()
    return text


def as_type(value: Any, kind: Any, *, strict: bool) -> Any:
    """Return *value*, which is JSON-like, as a value of the type *kind*, also one of pydantic.

    Raises:
        ValueError: it does not fit.
    """
    if _is_pydantic(kind):
        from pydantic import TypeAdapter

        return TypeAdapter(kind).validate_python(value)
    return msgspec.convert(value, kind, strict=strict)


def _is_pydantic(given: Any) -> bool:
    if hasattr(given, "__pydantic_core_schema__") or hasattr(given, "__get_pydantic_core_schema__"):
        return True
    return any(_is_pydantic(inner) for inner in getattr(given, "__args__", ()) if inner is not given)


def _schema(given: Any) -> dict[str, Any]:
    try:
        (schema,), components = msgspec.json.schema_components([given], ref_template="#/$defs/{name}")
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"output={given!r}: no JSON schema can be made of it ({error}); use a dataclass, TypedDict, "
            f"msgspec.Struct, pydantic model, or a JSON schema as a dict"
        ) from error
    ref = schema.get("$ref", "").removeprefix("#/$defs/")
    if ref in components:
        schema = components.pop(ref) if to_json(components).count(f'"#/$defs/{ref}"') <= 1 else components[ref]
    return {**schema, "$defs": components} if components else schema


def _without_nulls(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Return *value* without the nulls of fields that are not required: there a default stands."""
    ref = schema.get("$ref")
    if ref is not None:
        schema = root.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {})
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        required = schema.get("required", ())
        return {
            key: _without_nulls(item, fields.get(key, {}), root)
            for key, item in value.items()
            if item is not None or key in required
        }
    if isinstance(value, list):
        return [_without_nulls(item, schema.get("items") or {}, root) for item in value]
    return value


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _checked(value: Any, schema: Mapping[str, Any], path: str = "$") -> Any:
    """Return *value* if it has the shape of *schema*: types, required fields, enumerations, and what is inside.

    Raises:
        ValueError: it has not; the text says where.
    """
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else list(kinds or ())
    allowed = tuple(kind for name in names for kind in _TYPES.get(name, (object,)))
    wrong_bool = isinstance(value, bool) and "boolean" not in names
    if names and (not isinstance(value, allowed) or wrong_bool):
        raise ValueError(f"expected {' or '.join(names)} at {path}, got {to_json(value)[:60]}")
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"expected one of {to_json(schema['enum'])} at {path}, got {to_json(value)[:60]}")
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                raise ValueError(f"missing field {name!r} at {path}")
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                _checked(value[name], inner, f"{path}.{name}")
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(value):
            _checked(item, schema["items"], f"{path}[{index}]")
    return value
