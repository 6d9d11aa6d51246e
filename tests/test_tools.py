"""Tools: what can be lifted to one, how it is described, and its copies."""

import functools
from typing import Annotated, Any

import msgspec
import pytest

from interpose.context import RunContext, ToolContext
from interpose.errors import ConfigurationError
from interpose.tools import ArgumentError, as_tool, check_unique, tool


def add(a: int, b: int) -> int:
    """Add two numbers.

    Exact for any size.

    Args:
        a: the first
        b: the second
    """
    return a + b


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
