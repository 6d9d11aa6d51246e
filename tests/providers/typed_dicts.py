"""JSON against the typed dicts of an SDK: what the vendor's own types would refuse in a request."""

import collections.abc
import types
import typing
from functools import cache
from typing import Any, Literal, Union

import typing_extensions


def problems_of(value: Any, hint: Any, path: str = "body") -> list[str]:
    """Return what is wrong with JSON *value* where *hint* is expected, each as "path: what"."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if hint is Any or hint is object:
        return []
    if origin in (typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated):
        return problems_of(value, arguments[0], path)
    if origin is Literal:
        return [] if value in arguments else [f"{path}: {value!r} is none of {arguments}"]
    if origin in (Union, types.UnionType):
        return _of_union(value, arguments, path)
    if typing_extensions.is_typeddict(hint):
        return _of_dict(value, hint, path)
    if hint is float:
        return [] if isinstance(value, int | float) and not isinstance(value, bool) else [f"{path}: {value!r}"]
    if hint in (str, int, bool, type(None)):
        return [] if type(value) is hint else [f"{path}: {value!r} is no {hint.__name__}"]
    kind: Any = origin or hint
    if kind is dict or kind is collections.abc.Mapping:
        inner = arguments[1] if arguments else Any
        if not isinstance(value, dict):
            return [f"{path}: {value!r} is no object"]
        return [problem for key, item in value.items() for problem in problems_of(item, inner, f"{path}.{key}")]
    if not isinstance(value, list):  # Iterable, List, Sequence and the SDK's own kinds of them
        return [f"{path}: {str(value)[:80]!r} is no list"]
    inner = arguments[0] if arguments else Any
    return [problem for n, item in enumerate(value) for problem in problems_of(item, inner, f"{path}[{n}]")]


def _of_union(value: Any, choices: tuple[Any, ...], path: str) -> list[str]:
    """Return nothing where one choice fits, else the problems of the nearest."""
    found = [problems_of(value, choice, path) for choice in choices]
    if not all(found):
        return []
    tagged = [problems for problems, choice in zip(found, choices, strict=True) if _is_tagged_so(value, choice)]
    return max(tagged or found, key=lambda problems: len(problems[0].partition(": ")[0]))  # what got deepest


def _is_tagged_so(value: Any, choice: Any) -> bool:
    if not isinstance(value, dict) or not typing_extensions.is_typeddict(choice):
        return False
    hints = _hints(choice)
    tags = [tag for tag in ("type", "role") if tag in hints and (tag in value or tag in _required(choice))]
    return bool(tags) and all(not problems_of(value.get(tag), hints[tag]) for tag in tags)


def _of_dict(value: Any, hint: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {str(value)[:80]!r} is no object"]
    hints = _hints(hint)
    problems = [f"{path}: unknown field {name!r}" for name in value if name not in hints]
    problems += [f"{path}: lacks {name!r}" for name in _required(hint) if name not in value]
    return problems + [
        problem
        for name, item in value.items()
        if name in hints
        for problem in problems_of(item, hints[name], f"{path}.{name}")
    ]


@cache
def _hints(hint: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(hint, include_extras=True)


@cache
def _required(hint: Any) -> frozenset[str]:
    """Return the fields that are marked as required; the SDKs write `total=False` and `Required[...]`."""
    marked = {name for name, inner in _hints(hint).items() if typing.get_origin(inner) is typing_extensions.Required}
    return frozenset(marked | set(hint.__required_keys__))
