"""Arguments of tools: their schemas, what is taken, and in what words the rest is refused."""

import dataclasses
import datetime
import enum
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from interpose.tools import ArgumentError, as_tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    label: str = "here"


class Options(TypedDict, total=False):
    depth: int


class Box(msgspec.Struct):
    """A box."""

    size: Annotated[int, msgspec.Meta(ge=0)]


class Tree(msgspec.Struct):
    value: int
    children: list["Tree"] = []


class User(pydantic.BaseModel):
    name: str
    age: int = 0


def add(a: int, b: int) -> int:
    """Add two numbers.

    Exact for any size.

    Args:
        a: the first
        b: the second
    """
    return a + b


def read(function: Any, **args: Any) -> dict[str, Any]:
    return as_tool(function).validate(args)


def problems(function: Any, **args: Any) -> tuple[str, ...]:
    with pytest.raises(ArgumentError) as caught:
        as_tool(function).validate(args)
    return caught.value.problems


def properties(function: Any) -> dict[str, Any]:
    found: dict[str, Any] = as_tool(function).parameters["properties"]
    return found


# --- schemas ---


def test_every_usual_type_has_a_schema() -> None:
    def f(  # type: ignore[no-untyped-def]  # unannotated is Any
        colour: Colour,
        word: Literal["a", "b"],
        point: Point,
        when: datetime.datetime | None = None,
        price: Decimal = Decimal("1.5"),
        items: list[int] = [1, 2],
        anything=3,
    ) -> None: ...

    assert properties(f) == {
        "colour": {"enum": ["blue", "red"]},
        "word": {"enum": ["a", "b"]},
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "label": {"type": "string", "default": "here"}},
            "required": ["x"],
        },
        "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
        "price": {"type": "string", "format": "decimal", "default": "1.5"},
        "items": {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
        "anything": {"default": 3},
    }


def test_a_type_that_contains_itself_stays_a_reference() -> None:
    def f(tree: Tree) -> None: ...

    parameters = as_tool(f).parameters
    assert parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert parameters["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert read(f, tree={"value": 1, "children": [{"value": 2}]})["tree"].children == [Tree(2)]


def test_an_argument_may_be_called_title() -> None:
    def f(title: str) -> None: ...

    assert properties(f) == {"title": {"type": "string"}}


def test_a_default_that_json_cannot_show_is_still_used() -> None:
    nothing: Any = object()

    def f(a: Any = nothing) -> None: ...

    assert properties(f) == {"a": {}}
    assert read(f)["a"] is nothing


# --- arguments: what is taken ---


def test_arguments_become_typed_values_with_defaults() -> None:
    def f(colour: Colour, point: Point, options: Options, box: Box, uid: uuid.UUID, n: int = 7) -> None: ...

    uid = uuid.uuid4()
    assert read(f, colour="red", point={"x": 1}, options={"depth": 2}, box={"size": 3}, uid=str(uid)) == {
        "colour": Colour.RED,
        "point": Point(1),
        "options": {"depth": 2},
        "box": Box(3),
        "uid": uid,
        "n": 7,
    }


def test_values_of_the_right_type_are_taken_as_they_are() -> None:
    def f(point: Point, box: Box) -> None: ...

    point, box = Point(1), Box(2)
    got = read(f, point=point, box=box)
    assert got["point"] is point
    assert got["box"] is box


def mixed(
    n: int = 1,
    yes: bool = False,
    point: Point | None = None,
    items: list[int] = [],
    either: int | str = 0,
) -> None:
    """Take a bit of everything."""


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"n": "3"}, {"n": 3}),
        ({"n": 3.0}, {"n": 3}),
        ({"yes": "true"}, {"yes": True}),
        ({"point": '{"x": "4"}'}, {"point": Point(4)}),
        ({"items": '[1, "2"]'}, {"items": [1, 2]}),
        ({"n": None}, {"n": 1}),
        ({"point": {"x": 1, "label": None}}, {"point": Point(1)}),
        ({"n": "3", "either": "3"}, {"n": 3, "either": "3"}),
        ({"point": None}, {"point": None}),
        ({"n": 0}, {"n": 0}),
    ],
    ids=str,
)
def test_slips_are_mended(args: dict[str, Any], expected: dict[str, Any]) -> None:
    defaults: dict[str, Any] = {"n": 1, "yes": False, "point": None, "items": [], "either": 0}
    assert read(mixed, **args) == defaults | expected


def test_null_stays_where_it_is_admitted_and_required() -> None:
    def f(a: int, c: str | None, b: str = "b") -> None: ...

    assert read(f, a=1, b=None, c=None) == {"a": 1, "c": None, "b": "b"}


def test_given_arguments_are_left_alone() -> None:
    given = {"n": "3", "point": {"x": "1", "label": None}}
    as_tool(mixed).validate(given)
    assert given == {"n": "3", "point": {"x": "1", "label": None}}


def test_half_characters_are_replaced() -> None:
    def f(text: str, data: dict[str, Any]) -> None: ...

    assert read(f, text="a\ud800", data={"\udfff": ["\ud800", 1]}) == {
        "text": "a\ufffd",
        "data": {"\ufffd": ["\ufffd", 1]},
    }


# --- arguments: what is refused, and in what words ---


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            {"y": 1},
            (
                "add: missing argument 'a' (integer)",
                "add: missing argument 'b' (integer)",
                "add: unknown argument 'y'; it takes: a, b",
            ),
        ),
        ({"a": "x", "b": 1.5}, ("add: a: expected int, got 'x'", "add: b: expected int, got 1.5")),
        ({"a": None, "b": True}, ("add: a: expected int, got null", "add: b: expected int, got true")),
        ({"a": 1, "b": 2, "\ud800": 3}, ("add: unknown argument '\ufffd'; it takes: a, b",)),
    ],
    ids=["names", "types", "null and bool", "half a character"],
)
def test_every_problem_is_named(args: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert problems(add, **args) == expected


def test_the_error_reads_one_problem_a_line() -> None:
    with pytest.raises(ArgumentError) as caught:
        as_tool(add).validate({"a": 1, "c": 2})
    assert str(caught.value) == "add: missing argument 'b' (integer)\nadd: unknown argument 'c'; it takes: a, b"


def test_a_nested_problem_has_its_path_and_what_is_admitted() -> None:
    def f(points: list[Point], by_name: dict[str, Point], colour: Colour, box: Box) -> None: ...

    assert problems(f, points=[{"x": 1}, {"x": "q"}], by_name={"k": {"x": []}}, colour="green", box={}) == (
        "f: points[1].x: expected int, got 'q'",
        "f: by_name.k.x: expected integer, got []",
        "f: colour: expected one of 'blue', 'red', got 'green'",
        "f: box: missing 'size' (integer)",
    )


def test_a_problem_behind_a_slip_is_the_one_named() -> None:
    def f(n: Annotated[int, msgspec.Meta(le=5)], points: list[Point]) -> None: ...

    assert problems(f, n="9", points=[{"x": "1"}, {"x": "q"}]) == (
        "f: n: expected int <= 5, got '9'",
        "f: points[1].x: expected int, got 'q'",
    )


def test_broken_json_text_for_an_object_is_shown() -> None:
    assert problems(mixed, point='{"x": 1') == ("mixed: point: expected object | null, got '{\"x\": 1'",)


def test_a_tool_without_arguments_says_so() -> None:
    def ping() -> None: ...

    assert read(ping) == {}
    assert problems(ping, a=1) == ("ping: unknown argument 'a'; it takes no arguments",)


def test_a_long_value_is_shortened() -> None:
    (problem,) = problems(add, a="x" * 1000, b=1)
    assert len(problem) < 120


def test_too_deep_arguments_are_an_argument_error() -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]

    def f(a: Any) -> None: ...

    assert problems(f, a=deep) == ("f: the arguments are nested too deep",)
    while deep:  # unwound by hand: freeing it at once would be as deep
        deep = deep[0]


# --- pydantic ---


def test_pydantic_types_are_read_by_pydantic() -> None:
    def f(user: User, point: Point, n: int = 2) -> None: ...

    assert read(f, user={"name": "Ann", "age": "3"}, point={"x": 1}) == {
        "user": User(name="Ann", age=3),
        "point": Point(1),
        "n": 2,
    }


def test_pydantic_is_seen_inside_other_types() -> None:
    def f(users: dict[str, list[User]]) -> None: ...

    assert read(f, users={"a": [{"name": "Ann"}]}) == {"users": {"a": [User(name="Ann")]}}


def test_pydantic_fields_constrain_and_describe() -> None:
    def f(
        n: Annotated[int, pydantic.Field(gt=3, description="how many")], m: int = pydantic.Field(5, lt=9)
    ) -> None: ...

    assert properties(f) == {
        "n": {"type": "integer", "description": "how many", "exclusiveMinimum": 3},
        "m": {"type": "integer", "exclusiveMaximum": 9, "default": 5},
    }
    assert read(f, n=4) == {"n": 4, "m": 5}
    assert problems(f, n=1, m=10) == (
        "f: n: input should be greater than 3, got 1",
        "f: m: input should be less than 9, got 10",
    )


def test_a_default_factory_makes_a_new_value_each_time() -> None:
    def f(names: list[str] = pydantic.Field(default_factory=list)) -> None: ...

    made = as_tool(f)
    assert made.parameters["required"] == []
    assert made.validate({})["names"] is not made.validate({})["names"]


def test_pydantic_problems_have_path_and_value() -> None:
    def f(user: User, schema: int = 1) -> None: ...

    assert problems(f, user={"age": "x"}, z=1) == (
        "f: unknown argument 'z'; it takes: user, schema",
        'f: user.name: field required, got {"age":"x"}',
        "f: user.age: input should be a valid integer, unable to parse string as an integer, got 'x'",
    )


def test_pydantic_arguments_are_mended_too() -> None:
    def f(user: User, n: int = 1) -> None: ...

    assert read(f, user='{"name": "Ann", "age": null}', n=None) == {"user": User(name="Ann"), "n": 1}


def test_pydantic_is_imported_only_when_needed() -> None:
    code = (
        "import sys\nfrom interpose.tools import tool\n@tool\ndef f(a: int): pass\n"
        "f.validate({'a': '1'})\nassert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
