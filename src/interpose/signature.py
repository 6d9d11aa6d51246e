"""What a function's signature, annotations and docstring tell about it as a tool."""

import dataclasses
import datetime
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import msgspec

from interpose.arguments import NODEFAULT, Arguments, Parameter, PydanticArguments, SchemaArguments, StructArguments
from interpose.errors import ConfigurationError

_POSITIONAL = "{}: {!r} is positional-only, and tools are called by keyword; remove the '/'"
_FORMATS: dict[Any, str] = {datetime.datetime: "date-time", datetime.time: "time"}
_CONTEXTS = ("ToolContext", "RunContext")
_CONTEXT_TEXT = re.compile(rf"(?:\w+\.)*(?:{'|'.join(_CONTEXTS)})(?:\[.*\])?(?:\s*\|\s*None)?", re.DOTALL)
_PYDANTIC = ("pydantic", "pydantic_core", "annotated_types")  # the last is metadata that only pydantic reads


class Signature(msgspec.Struct, frozen=True):
    """A function as a model sees it, and the name of the parameter that gets the context."""

    name: str
    description: str
    arguments: Any
    context_parameter: str | None


def read_signature(function: Callable[..., Any], name: str | None, schema: Mapping[str, Any] | None) -> Signature:
    """Return what *function* tells; a given *name* and JSON *schema* take the place of its own.

    Raises:
        ConfigurationError: a model could not call it, and why.
    """
    inner = _innermost(function)
    name = name or _name_of(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(f"{name}: a tool returns one value and does not yield; send parts with ctx.emit()")
    try:
        listed = inspect.signature(function).parameters
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{name}: its signature cannot be read ({error}); wrap it in a function") from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    shown = [parameter for parameter in listed.values() if parameter.name not in bound]
    description, described = _docstring(function, inner)
    context, rest = _split_context(name, shown, inner)
    arguments: Arguments
    if schema is not None:
        arguments = SchemaArguments(schema)
        _check_takes(name, rest, arguments.parameters)
    else:
        _check_kinds(name, rest)
        parameters = [
            Parameter(
                parameter.name,
                annotation,
                NODEFAULT if parameter.default is parameter.empty else parameter.default,
                described.get(parameter.name),
            )
            for parameter, annotation in rest
        ]
        arguments = _arguments(name, parameters)
    return Signature(name, description, arguments, context)


def _innermost(function: Any) -> Any:
    """Return the plain function under partials, callable objects, methods and decorators."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not hasattr(function, "__wrapped__"):
        function = type(function).__call__
    function = inspect.unwrap(function)
    return getattr(function, "__func__", function)


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ConfigurationError("a lambda has no name that a model could call; give name='...'")
    return name


def _docstring(function: Any, inner: Any) -> tuple[str, dict[str, str]]:
    """Return the description and those of the arguments, from the docstring of *inner* or of its object's class."""
    from docstring_parser import ParseError, parse  # only needed once there is a tool

    while isinstance(function, functools.partial):
        function = function.func
    texts = [inspect.getdoc(inner)]
    if not inspect.isroutine(function):
        texts = [inner.__doc__, type(function).__doc__]  # getdoc would give what object says of __call__
    description = ""
    described: dict[str, str] = {}
    for text in texts:
        if not text:
            continue
        text = inspect.cleandoc(text)
        try:
            parsed = parse(text)
        except ParseError:
            description = description or text
            continue
        described = {param.arg_name: param.description for param in parsed.params if param.description} | described
        gap = "\n\n" if parsed.blank_after_short_description else "\n"
        description = description or gap.join(filter(None, (parsed.short_description, parsed.long_description)))
    return description, described


def _split_context(
    name: str, parameters: list[inspect.Parameter], inner: Any
) -> tuple[str | None, list[tuple[inspect.Parameter, Any]]]:
    """Return the name of the context parameter, and the others with their resolved annotations."""
    contexts, rest = [], []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            rest.append((parameter, Any))
        elif parameter.annotation is parameter.empty:
            if parameter.name == "ctx":
                contexts.append(parameter)
            else:
                rest.append((parameter, Any))
        else:
            annotation = _resolved(name, parameter, inner)
            if _is_context(annotation):
                contexts.append(parameter)
            else:
                rest.append((parameter, annotation))
    if len(contexts) > 1:
        raise ConfigurationError(f"{name}: only one parameter may be the context, got {contexts[0]} and {contexts[1]}")
    if contexts and contexts[0].kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ConfigurationError(_POSITIONAL.format(name, contexts[0].name))
    return (contexts[0].name if contexts else None), rest


_CONTEXT = object()  # stands for a context annotation that can only be resolved by a type checker


def _resolved(name: str, parameter: inspect.Parameter, inner: Any) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {parameter.name: parameter.annotation}
    names = getattr(inner, "__globals__", {})
    failure: Exception
    for local in _namespaces(names):
        try:
            return typing.get_type_hints(holder, names, local, include_extras=True)[parameter.name]
        except NameError as error:
            failure = error
        except Exception as error:  # an annotation may be any expression
            failure = error
            break
    text = parameter.annotation
    if isinstance(text, str) and _CONTEXT_TEXT.fullmatch(text.strip("'\" ")):
        return _CONTEXT
    raise ConfigurationError(
        f"{name}: the annotation {text!r} of {parameter.name!r} cannot be resolved ({failure}); "
        "import what it names at run time, not under TYPE_CHECKING only"
    ) from failure


def _namespaces(names: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield where names of annotations may be found: in the module, then in the function that defines the tool."""
    yield {}
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is names and frame.f_locals is not names:
            yield frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]  # None at the top, where the loop ends


def _is_context(annotation: Any) -> bool:
    if annotation is _CONTEXT:
        return True
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _is_context(typing.get_args(annotation)[0])
    if isinstance(origin, type) and origin.__module__.partition(".")[0] == "interpose":
        annotation = origin
    elif origin is not None:  # a union, such as ToolContext | None
        return any(_is_context(part) for part in typing.get_args(annotation)) and not isinstance(origin, type)
    return isinstance(annotation, type) and any(
        base.__name__ in _CONTEXTS and base.__module__.partition(".")[0] == "interpose" for base in annotation.__mro__
    )


def _check_kinds(name: str, parameters: list[tuple[inspect.Parameter, Any]]) -> None:
    for position, (parameter, _) in enumerate(parameters):
        if position == 0 and parameter.name == "self" and parameter.annotation is parameter.empty:
            raise ConfigurationError(
                f"{name}: 'self' is not bound; make a tool of the object's method: tool(obj.{name})"
            )
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL:
                raise ConfigurationError(f"{name}: a model names its arguments, so *{parameter.name} cannot be filled")
            case inspect.Parameter.VAR_KEYWORD:
                raise ConfigurationError(
                    f"{name}: a model cannot know what **{parameter.name} takes; name the arguments, or give their "
                    "JSON schema with parameters="
                )
            case inspect.Parameter.POSITIONAL_ONLY:
                raise ConfigurationError(_POSITIONAL.format(name, parameter.name))


def _check_takes(name: str, parameters: list[tuple[inspect.Parameter, Any]], schema: Mapping[str, Any]) -> None:
    """Refuse a function that could not be called with the arguments of *schema*."""
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter, _ in parameters):
        return
    takes = [
        parameter.name
        for parameter, _ in parameters
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if lacking := [argument for argument in schema["properties"] if argument not in takes]:
        raise ConfigurationError(
            f"{name}: the function does not take {lacking[0]!r}, which the schema has; add **kwargs"
        )


def _arguments(name: str, parameters: list[Parameter]) -> Arguments:
    parameters = [_described(parameter) for parameter in parameters]
    reader: Callable[[list[Parameter]], Arguments] = StructArguments
    if any(is_pydantic(one.annotation) or is_pydantic(type(one.default)) for one in parameters):
        reader = PydanticArguments
    try:
        return reader(parameters)
    except Exception as error:  # msgspec and pydantic each have many ways to refuse a type
        for one in parameters:
            try:
                reader([one])
            except Exception as cause:
                kind, lines = _type_name(one.annotation), str(cause).splitlines() or [repr(cause)]
                raise ConfigurationError(
                    f"{name}: no JSON schema can be made of {one.name!r}, annotated {kind}: "
                    f"{lines[-1] if 'schema_hook' in str(cause) else lines[0]}; "
                    "annotate it with a type that JSON can hold, or give the schema with parameters="
                ) from cause
        raise ConfigurationError(f"{name}: no JSON schema can be made of its arguments: {error}") from error


def _described(parameter: Parameter) -> Parameter:
    """Return *parameter* with a text in its `Annotated` as description, and formats that msgspec leaves out."""
    annotation = _with_format(parameter.annotation)
    description = parameter.description
    if typing.get_origin(annotation) is Annotated:
        texts = [meta for meta in typing.get_args(annotation)[1:] if isinstance(meta, str)]
        description = texts[0] if texts else description
    return Parameter(parameter.name, annotation, parameter.default, description)


def _with_format(annotation: Any) -> Any:
    """Return *annotation* with the format of times told, which msgspec does only where the time zone is fixed."""
    if annotation is object:
        return Any
    if isinstance(annotation, type) and annotation in _FORMATS:
        return Annotated[annotation, msgspec.Meta(extra_json_schema={"format": _FORMATS[annotation]})]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.Union[tuple(map(_with_format, typing.get_args(annotation)))]  # noqa: UP007  # made at run time
    return annotation


def _type_name(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def is_pydantic(annotation: Any, seen: set[int] | None = None) -> bool:
    """Say whether something of pydantic's stands anywhere in *annotation*, without importing pydantic."""
    seen = set() if seen is None else seen
    if id(annotation) in seen:
        return False
    seen.add(id(annotation))
    if hasattr(annotation, "__get_pydantic_core_schema__") or hasattr(annotation, "__pydantic_core_schema__"):
        return True
    if typing.get_origin(annotation) is Annotated:
        inner, *metadata = typing.get_args(annotation)
        return is_pydantic(inner, seen) or any(is_pydantic(type(meta), seen) for meta in metadata)
    if isinstance(annotation, type):
        if any(base.__module__.partition(".")[0] in _PYDANTIC for base in annotation.__mro__):
            return True
        if any(is_pydantic(hint, seen) for hint in _field_types(annotation)):
            return True
    named = (getattr(annotation, "__value__", None), getattr(annotation, "__supertype__", None))  # aliases, NewType
    return any(is_pydantic(part, seen) for part in (*typing.get_args(annotation), *named) if part is not None)


def _field_types(kind: type) -> list[Any]:
    fields = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct | tuple) or typing.is_typeddict(kind)
    if not fields:
        return []
    try:
        return list(typing.get_type_hints(kind, include_extras=True).values())
    except Exception:  # what cannot be resolved is refused where the schema is made, with its name
        return []
