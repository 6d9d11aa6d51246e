"""Tools whose annotations are texts: resolved where the tool is made, without what only a type checker imports."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from interpose.errors import ConfigurationError
from interpose.tools import as_tool, tool

if TYPE_CHECKING:
    import decimal

    from interpose.context import ToolContext


@dataclasses.dataclass
class Place:
    name: str


def at_module_level(place: Place, ctx: ToolContext[Any]) -> None: ...


def test_annotations_of_the_module_are_resolved() -> None:
    made = as_tool(at_module_level)
    assert made.context_parameter == "ctx"
    assert made.validate({"place": {"name": "Lyon"}}) == {"place": Place("Lyon")}


def test_a_context_imported_for_the_type_checker_only_is_recognised() -> None:
    def f(a: int, context: ToolContext[decimal.Decimal] | None = None) -> None: ...

    assert as_tool(f).context_parameter == "context"


def test_annotations_of_the_function_around_are_resolved() -> None:
    @dataclasses.dataclass
    class Local:
        n: int

    @tool
    def f(local: Local) -> None: ...

    assert f.validate({"local": {"n": 1}}) == {"local": Local(1)}


def test_an_argument_type_imported_for_the_type_checker_only_is_refused() -> None:
    def f(price: decimal.Decimal) -> None: ...

    with pytest.raises(ConfigurationError, match=r"f: the annotation 'decimal\.Decimal' of 'price' cannot be resolved"):
        as_tool(f)


def test_the_type_of_the_result_need_not_be_resolved() -> None:
    def f(a: int) -> decimal.Decimal: ...  # type: ignore[empty-body]  # never called

    assert as_tool(f).name == "f"
