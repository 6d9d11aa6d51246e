"""Tools: how functions are lifted, what a model is told, and how its arguments are read."""

import dataclasses
import datetime
import enum
import functools
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from interpose.context import RunContext, ToolContext
from interpose.errors import ConfigurationError
from interpose.tools import ArgumentError, Tool, as_tool, check_unique, tool


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


# --- what is lifted ---


def test_a_function_tells_name_description_and_parameters() -> None:
    assert tool(add).to_dict() == {
        "name": "add",
        "description": "Add two numbers.\n\nExact for any size.",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"description": "the first", "type": "integer"},
                "b": {"description": "the second", "type": "integer"},
            },
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    }


def test_the_decorator_takes_options() -> None:
    @tool(name="plus", description="Sums.", approval=True, effect="read", alone=True, timeout_s=2.0)
    async def adding(a: int) -> int:
        return a

    assert (adding.name, adding.description, adding.approval, adding.effect) == ("plus", "Sums.", True, "read")
    assert (adding.alone, adding.timeout_s, adding.is_async, adding.origin) == (True, 2.0, True, "")


def test_a_tool_can_be_called_like_its_function() -> None:
    assert tool(add)(1, b=2) == 3


def test_tools_are_equal_only_to_themselves() -> None:
    one, other = tool(add), tool(add)
    assert one != other
    assert len({one, one, other}) == 2


class Search:
    """Look things up.

    Args:
        query: what to look for
    """

    async def __call__(self, query: str) -> str:
        return query

    def sync(self, query: str) -> str:
        return query


async def fetch(url: str, key: str) -> str:
    return url + key


@pytest.mark.parametrize(
    ("function", "name", "names", "is_async"),
    [
        pytest.param(Search(), "Search", ["query"], True, id="callable object"),
        pytest.param(Search().sync, "sync", ["query"], False, id="bound method"),
        pytest.param(functools.partial(add, 1), "add", ["b"], False, id="partial by position"),
        pytest.param(functools.partial(fetch, key="secret"), "fetch", ["url"], True, id="partial by keyword"),
        pytest.param(functools.partial(Search()), "Search", ["query"], True, id="partial of an object"),
    ],
)
def test_every_kind_of_callable_is_lifted(function: Any, name: str, names: list[str], is_async: bool) -> None:
    made = as_tool(function)
    assert (made.name, list(properties(made)), made.is_async) == (name, names, is_async)


def test_what_a_partial_binds_is_hidden_from_the_model() -> None:
    assert "secret" not in str(as_tool(functools.partial(fetch, key="secret")).to_dict())


def test_an_object_is_described_by_its_class() -> None:
    made = as_tool(Search())
    assert made.description == "Look things up."
    assert properties(made)["query"]["description"] == "what to look for"


def numpy_style(a: int) -> None:
    """Do it.

    Parameters
    ----------
    a : int
        how often
    """


def rest_style(a: int) -> None:
    """Do it.

    :param a: how often
    """


@pytest.mark.parametrize("function", [numpy_style, rest_style])
def test_numpy_and_rest_docstrings_are_read(function: Any) -> None:
    made = as_tool(function)
    assert made.description == "Do it."
    assert properties(made)["a"]["description"] == "how often"


def test_a_description_in_the_annotation_wins() -> None:
    def f(a: Annotated[int, msgspec.Meta(description="by meta")], b: Annotated[int, "by text"]) -> None:
        """Do it.

        Args:
            a: by docstring
            b: by docstring
        """

    assert [entry["description"] for entry in properties(f).values()] == ["by meta", "by text"]


def stars(*names: str) -> None: ...
def double_stars(**names: str) -> None: ...
def positional(name: str, /) -> None: ...
def unsupported(item: range) -> None: ...
def unresolved(item: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # that is the point
def two_contexts(a: ToolContext[Any], b: RunContext[Any]) -> None: ...
def positional_context(ctx: ToolContext[Any], /) -> None: ...
async def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (stars, r"stars: a model names its arguments, so \*names cannot be filled"),
        (double_stars, r"\*\*names .* parameters="),
        (positional, "'name' is positional-only"),
        (positional_context, "'ctx' is positional-only"),
        (unsupported, "unsupported: no JSON schema can be made of 'item', annotated range"),
        (unresolved, "the annotation 'Nowhere' of 'item' cannot be resolved"),
        (two_contexts, "only one parameter may be the context"),
        (generator, "does not yield"),
        (lambda a: a, "give name="),
        (Search.sync, "'self' is not bound"),
    ],
)
def test_what_a_model_could_not_call_is_refused(function: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        tool(function)


@pytest.mark.parametrize(
    "options",
    [{"name": "two words"}, {"name": ""}, {"effect": "maybe"}, {"timeout_s": 0}, {"approval": "yes"}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: Any) -> None:
    if options == {"name": ""}:
        with pytest.raises(ConfigurationError):
            tool(add).renamed("")
    else:
        with pytest.raises(ConfigurationError):
            tool(add, **options)


@pytest.mark.parametrize("given", [{"name": "add"}, 3, "add", None, Search])
def test_what_is_no_function_is_a_type_error(given: Any) -> None:
    with pytest.raises(TypeError, match="expected a tool"):
        as_tool(given)


def test_a_tool_is_taken_as_it_is() -> None:
    made = tool(add)
    assert as_tool(made) is made


# --- the context ---


def by_type(a: int, context: ToolContext[Any]) -> None: ...
def by_run_type(context: RunContext[Any], a: int) -> None: ...
def by_bare_type(a: int, context: ToolContext) -> None: ...
def by_optional(a: int, context: ToolContext[Any] | None = None) -> None: ...
def by_text(a: int, context: "ToolContext[Elsewhere]") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("function", [by_type, by_run_type, by_bare_type, by_optional, by_text])
def test_a_typed_context_is_no_argument(function: Any) -> None:
    made = as_tool(function)
    assert made.context_parameter == "context"
    assert list(properties(made)) == ["a"]


def test_an_unannotated_ctx_is_the_context() -> None:
    def f(a: int, ctx) -> None: ...  # type: ignore[no-untyped-def]  # unannotated is the claim

    assert as_tool(f).context_parameter == "ctx"


def test_an_annotated_ctx_is_an_argument() -> None:
    def f(ctx: str) -> None: ...

    assert as_tool(f).context_parameter is None
    assert list(properties(f)) == ["ctx"]


# --- schemas ---


def test_every_usual_type_has_a_schema() -> None:
    def f(  # type: ignore[no-untyped-def]  # unannotated is Any
        colour: Colour,
        word: Literal["a", "b"],
        point: Point,
        when: datetime.datetime | None = None,
        price: Decimal = Decimal("1.5"),
        items: list[int] = [1, 2],  # noqa: B006  # never changed
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
    items: list[int] = [],  # noqa: B006  # never changed
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
    def f(names: list[str] = pydantic.Field(default_factory=list)) -> None: ...  # noqa: B008  # pydantic's own form

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


# --- a schema from elsewhere ---

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


# --- copies ---


def test_a_renamed_copy_speaks_under_its_new_name() -> None:
    plus = tool(add, effect="read").renamed("plus")
    assert (plus.name, plus.effect, plus.function) == ("plus", "read", add)
    assert problems(plus, a=1) == ("plus: missing argument 'b' (integer)",)


def test_a_replaced_function_is_called_with_the_same_arguments() -> None:
    async def logged(**args: Any) -> Any:
        return args

    made = tool(add).replace(function=logged, origin="logger")
    assert (made.is_async, made.origin) == (True, "logger")
    assert made.validate({"a": 1, "b": "2"}) == {"a": 1, "b": 2}


def test_replaced_parameters_change_what_is_told() -> None:
    shorter = {"type": "object", "properties": {"a": {}, "b": {}}}
    made = tool(add).replace(parameters=shorter)
    assert made.to_dict()["parameters"] == shorter
    assert made.renamed("x").to_dict()["parameters"] == shorter
    assert problems(made, a="x", b=1) == ("add: a: expected int, got 'x'",)


def test_an_unknown_field_to_replace_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="no field 'nmae'"):
        tool(add).replace(nmae="x")


# --- names ---


def test_two_tools_of_one_name_are_refused_with_both_origins() -> None:
    one, other = tool(add), tool(fetch).renamed("add")
    one.origin, other.origin = "agent", "Fetching"
    with pytest.raises(ConfigurationError, match=r"'add': one of agent \(.*\.add\), one of Fetching \(.*\.fetch\)"):
        check_unique([one, other])


def test_the_same_tool_twice_is_fine() -> None:
    one = tool(add)
    check_unique([one, tool(fetch), one])


def test_names_may_be_swapped() -> None:
    check_unique([tool(add).renamed("fetch"), tool(fetch).renamed("add")])
