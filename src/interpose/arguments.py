"""The arguments of a tool: their schema, and how what a model sent becomes typed values."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Protocol

import msgspec

from interpose.errors import ConfigurationError
from interpose.schema import Schema, branches, describe, inline, is_closed, mend, mismatches, show, step_into
from interpose.text import clean_value

NODEFAULT = msgspec.NODEFAULT


class ArgumentError(ValueError):
    """The arguments do not fit the tool; *problems* says for each what is wrong, in words that a model can act on."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Mismatch(ValueError):
    """One value does not fit its type; *problems* holds lines that begin with the path of what is wrong."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Parameter(msgspec.Struct, frozen=True):
    """One argument of a tool, as its function declares it; *default* is `NODEFAULT` where it must be given."""

    name: str
    annotation: Any
    default: Any = NODEFAULT
    description: str | None = None


class Arguments(Protocol):
    """How one tool's arguments look (`parameters`) and are read."""

    parameters: Schema

    def read(self, tool: str, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return typed keyword arguments; *tool* is for the text of an `ArgumentError`."""


def mend_arguments(
    tool: str, args: Mapping[str, Any], parameters: Schema, convert: Callable[[str, Any], Any], scalars: bool = False
) -> dict[str, Any]:
    """Return each argument converted, as it is or else mended, or raise `ArgumentError` with every problem found."""
    if any(holds_surrogates(part) for pair in args.items() for part in pair):
        args = clean_value(dict(args))
    properties = parameters.get("properties") or {}
    problems = _wrong_names(args, parameters)
    mended: Any = None
    given: dict[str, Any] = {}
    for name, value in args.items():
        if name not in properties:
            given[name] = value
            continue
        try:
            given[name] = convert(name, value)
        except Mismatch as mismatch:
            if mended is None:
                mended = mend(dict(args), parameters, parameters, scalars)
            if name not in mended:
                continue  # a null; leaving it out gives the default
            if mended[name] is value:
                problems.extend(mismatch.problems)
                continue
            try:
                given[name] = convert(name, mended[name])
            except Mismatch as still:
                problems.extend(still.problems)
    if problems:
        raise ArgumentError(f"{tool}: {problem}" for problem in problems)
    return given


def _wrong_names(args: Mapping[str, Any], parameters: Schema) -> list[str]:
    properties = parameters.get("properties") or {}
    required = parameters.get("required") or ()
    if args.keys() <= properties.keys() and args.keys() >= set(required):
        return []
    problems = [
        f"missing argument {name!r} ({describe(properties.get(name, {}), parameters)})"
        for name in required
        if name not in args
    ]
    if is_closed(parameters):
        takes = f"it takes: {', '.join(properties)}" if properties else "it takes no arguments"
        problems += [f"unknown argument {name!r}; {takes}" for name in args if name not in properties]
    return problems


class StructArguments:
    """Arguments whose types msgspec knows, read in one conversion."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        fields = [(one.name, one.annotation, _field(one.default)) for one in parameters]
        self.struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, eq=False)
        self.types = {one.name: one.annotation for one in parameters}
        (_,), components = msgspec.json.schema_components([self.struct], ref_template="#/$defs/{name}")
        own = components.pop("Arguments")
        self.parameters: Schema = _finish(own, components, parameters)
        self.holds_text = any(
            schema.get("type") not in ("integer", "number", "boolean")
            for schema in self.parameters["properties"].values()
        )

    def read(self, tool: str, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return typed arguments; the good case is one conversion, only a bad one is looked at piece by piece."""
        if self.holds_text:
            for value in args.values():
                if value.__class__ is str and value.isascii():
                    continue  # by far the commonest, and the cheapest to see
                if holds_surrogates(value):
                    args = clean_value(dict(args))
                    break
        try:
            return msgspec.structs.asdict(msgspec.convert(args, self.struct))
        except (msgspec.ValidationError, UnicodeEncodeError):  # the latter for half a character in a name
            given = mend_arguments(tool, args, self.parameters, self._convert)
            return msgspec.structs.asdict(self.struct(**given))

    def _convert(self, name: str, value: Any) -> Any:
        try:
            return msgspec.convert(value, self.types[name])
        except msgspec.ValidationError:
            try:
                return msgspec.convert(value, self.types[name], strict=False)
            except msgspec.ValidationError as error:  # past what could be mended, so nearer the point
                schema = self.parameters["properties"][name]
                raise Mismatch([_explain(error, name, value, schema, self.parameters)]) from None


class PydanticArguments:
    """Arguments of which some type is pydantic's: pydantic reads each of them, in its own lax way."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        from pydantic import TypeAdapter  # only where an annotation of the user's needs it
        from pydantic.fields import FieldInfo

        self.adapters: dict[str, TypeAdapter[Any]] = {}
        self.defaults: dict[str, Callable[[], Any]] = {}
        plain: list[Parameter] = []
        for one in parameters:
            annotation: Any = one.annotation
            default, description = one.default, one.description
            if isinstance(default, FieldInfo):
                info = default
                annotation = _annotated(annotation, info)
                default = NODEFAULT
                description = info.description or description
                if not info.is_required():
                    self.defaults[one.name] = _default_of(info)
                    default = info.default if info.default_factory is None else _MADE
            elif default is not NODEFAULT:
                self.defaults[one.name] = _constant(default)
            self.adapters[one.name] = TypeAdapter(annotation)
            plain.append(Parameter(one.name, annotation, default, description))
        inputs = [(name, "validation", adapter) for name, adapter in self.adapters.items()]
        schemas, extra = TypeAdapter.json_schemas(inputs, ref_template="#/$defs/{model}")  # type: ignore[arg-type]  # list is invariant in the literal
        own = {
            "type": "object",
            "properties": {name: schemas[name, "validation"] for name in self.adapters},
            "required": [one.name for one in plain if one.default is NODEFAULT],
            "additionalProperties": False,
        }
        self.parameters: Schema = _finish(own, extra.get("$defs", {}), plain)

    def read(self, tool: str, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return what pydantic makes of each argument."""
        given = mend_arguments(tool, args, self.parameters, self._convert)
        for name, default in self.defaults.items():
            if name not in given:
                given[name] = default()
        return given

    def _convert(self, name: str, value: Any) -> Any:
        from pydantic import ValidationError

        try:
            return self.adapters[name].validate_python(value)
        except ValidationError as error:
            problems = []
            for entry in error.errors(include_url=False, include_context=False):
                path = name + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in entry["loc"])
                problems.append(f"{path}: {entry['msg'][:1].lower()}{entry['msg'][1:]}, got {show(entry['input'])}")
            raise Mismatch(problems) from None


_CLASSES = {"string": str, "integer": int, "number": float, "boolean": bool}


class SchemaArguments:
    """Arguments described by a JSON schema from elsewhere, checked for names, required ones, types and enums only."""

    def __init__(self, parameters: Schema) -> None:
        if parameters.get("type", "object") != "object":
            raise ConfigurationError(f"parameters= must be a JSON schema of type 'object', got {parameters!r:.80}")
        self.parameters: Schema = {"type": "object", "properties": {}, **parameters}
        self.simple = {
            name: _CLASSES.get(schema["type"])
            for name, schema in self.parameters["properties"].items()
            if isinstance(schema, Mapping)
            and isinstance(schema.get("type"), str)
            and schema.keys() <= {"type", "description", "title", "default"}
        }

    def read(self, tool: str, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return the arguments as they came, numbers and booleans out of their texts."""
        return mend_arguments(tool, args, self.parameters, self._convert, scalars=True)

    def _convert(self, name: str, value: Any) -> Any:
        if value.__class__ is self.simple.get(name):
            return value
        problems = list(mismatches(value, self.parameters["properties"][name], self.parameters, name))
        if problems:
            raise Mismatch(problems)
        return value


_MADE = object()  # a default that is made anew for each call, so the schema cannot show it


def _annotated(annotation: Any, info: Any) -> Any:
    return Annotated[annotation, *info.metadata] if info.metadata else annotation


def _default_of(info: Any) -> Callable[[], Any]:
    return lambda: info.get_default(call_default_factory=True)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _field(default: Any) -> Any:
    if default is NODEFAULT or default is None or default.__class__ in (bool, int, float, str):
        return msgspec.field(default=default)
    return msgspec.field(default_factory=_constant(default))  # the very object of the signature, as in a plain call


def _finish(own: Schema, defs: Schema, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the generated object schema with references put in place, defaults, and the docstring's descriptions."""
    schema = inline(own, defs)
    for one in parameters:
        entry = schema["properties"][one.name]
        if one.description and "description" not in entry:
            entry = schema["properties"][one.name] = {"description": one.description, **entry}
        if one.default is not NODEFAULT and "default" not in entry:
            with suppress(TypeError, ValueError, RecursionError):  # one that JSON cannot show is still the default
                entry["default"] = msgspec.to_builtins(one.default, str_keys=True)
    schema.setdefault("required", [])
    return schema


_probe = msgspec.json.Encoder(enc_hook=id)  # anything will do for what holds no text


def holds_surrogates(value: Any) -> bool:
    """Say whether half a character stands somewhere in *value*, or cannot be ruled out; encoders find it fastest."""
    try:
        if value.__class__ is str:
            value.encode()
        elif value.__class__ is dict or value.__class__ is list:
            _probe.encode(value)
    except (TypeError, ValueError, OverflowError):  # UnicodeEncodeError, or a value that JSON does not hold
        return True
    return False


_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def _explain(error: Exception, name: str, value: Any, schema: Schema, root: Schema) -> str:
    """Return msgspec's *error* about the argument *name* as a line with the path, what is admitted and what came."""
    found = _AT.match(str(error))
    what, path = (found["what"], found["path"] or "") if found else (str(error), "")
    if "[...]" in path:  # in a mapping or a set, where msgspec does not say at what key
        return next(mismatches(value, schema, root, name), f"{name}{path}: {_lower(what)}")
    for step in _STEP.finditer(path):
        key: str | int = step[1] if step[1] is not None else int(step[2])
        schema = step_into(schema, key, root)
        try:
            value = value[key]
        except (LookupError, TypeError):
            return f"{name}{path}: {_lower(what)}"
    if what.startswith("Object missing required field"):
        missing = what.split("`")[1]
        return f"{name}{path}: missing {missing!r} ({describe(step_into(schema, missing, root), root)})"
    if any("enum" in branch for branch in branches(schema, root)):
        return f"{name}{path}: expected {describe(schema, root)}, got {show(value)}"
    return f"{name}{path}: {_lower(what.partition(', got ')[0])}, got {show(value)}"


def _lower(what: str) -> str:
    return what[:1].lower() + what[1:].replace("`", "")
