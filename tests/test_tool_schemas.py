"""Tools made of a JSON schema from elsewhere."""

from typing import Any

import pytest

from interpose.context import ToolContext
from interpose.errors import ConfigurationError
from interpose.tools import ArgumentError, Tool, as_tool, tool

REMOTE = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "mode": {"enum": ["fast", "slow"]},
        "point": {"$ref": "#/$defs/Point"},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}},
    },
    "required": ["n"],
    "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}, "y": {}}, "required": ["x"]}},
}


def problems(function: Any, **args: Any) -> tuple[str, ...]:
    with pytest.raises(ArgumentError) as caught:
        as_tool(function).validate(args)
    return caught.value.problems


def remote(schema: dict[str, Any] = REMOTE) -> Tool:
    return tool(lambda **args: args, name="remote", parameters=schema)


def test_a_given_schema_is_told_as_it_is() -> None:
    assert remote().to_dict() == {"name": "remote", "description": "", "parameters": REMOTE}


def test_a_given_schema_passes_good_arguments_unchanged() -> None:
    args = {"n": 1, "mode": "fast", "point": {"x": 1.5}, "tags": ["a", None]}
    assert remote().validate(args) == args


def test_a_given_schema_mends_slips() -> None:
    args = {"n": "1", "mode": None, "point": '{"x": "2"}', "tags": "[]"}
    assert remote().validate(args) == {"n": 1, "point": {"x": 2}, "tags": []}


def test_a_given_schema_names_every_problem() -> None:
    assert problems(remote(), mode="mid", point={"y": 1}, tags=["a", 2], z=1) == (
        "remote: missing argument 'n' (integer)",
        "remote: unknown argument 'z'; it takes: n, mode, point, tags",
        "remote: mode: expected one of 'fast', 'slow', got 'mid'",
        "remote: point: missing 'x' (number)",
        "remote: tags[1]: expected string or null, got 2",
    )


@pytest.mark.parametrize("schema", [{}, {"type": "object", "properties": {"a": {}}, "additionalProperties": True}])
def test_an_open_schema_takes_any_name(schema: dict[str, Any]) -> None:
    assert remote(schema).validate({"b": 1}) == {"b": 1}


def test_a_function_that_cannot_take_its_schema_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="does not take 'n'"):
        tool(lambda m: m, name="remote", parameters=REMOTE)


def test_a_given_schema_must_be_of_an_object() -> None:
    with pytest.raises(ConfigurationError, match="type 'object'"):
        remote({"type": "string"})


def test_a_function_with_a_given_schema_may_take_the_context() -> None:
    def f(ctx: ToolContext[Any], **args: Any) -> None: ...

    assert tool(f, parameters=REMOTE).context_parameter == "ctx"
