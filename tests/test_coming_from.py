"""What docs/coming-from.md says is there, is there: each piece of code in its right-hand columns is looked up."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import interpose
from interpose import builtin, flow, models, report, server, stores, telemetry, testing
from interpose.middleware import HOOKS

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
HOMES = (interpose, builtin, flow, models, report, server, stores, telemetry, testing)
PHASES = ("init",)
ARGUMENTS = ("call_next",)

CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\)")


def right_hand_column() -> Iterator[str]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] != "there":
            yield cells[-1].removesuffix("|")


ENTRIES = sorted({code for cell in right_hand_column() for code in CODE.findall(cell)})


def find(name: str) -> Any:
    """Return what *name* is, from the homes of the names that users import."""
    found = [getattr(home, name) for home in HOMES if name in home.__all__]
    assert found, f"{name} is in no home"
    return found[0]


def has(owner: Any, attribute: str) -> bool:
    fields = owner.__struct_fields__ if isinstance(owner, type) and issubclass(owner, msgspec.Struct) else ()
    return attribute in fields or hasattr(owner, attribute)


def test_the_page_has_entries() -> None:
    assert len(ENTRIES) > 90


@pytest.mark.parametrize("entry", ENTRIES)
def test_right_hand_entry_is_there(entry: str) -> None:
    if entry in HOOKS or entry in PHASES or entry in ARGUMENTS:
        return
    if match := CALL.fullmatch(entry):
        parameters = inspect.signature(find(match["name"])).parameters
        wanted = [argument.strip().partition("=")[0] for argument in match["arguments"].split(",")]
        if "=" in match["arguments"]:
            assert set(wanted) <= set(parameters)
        else:
            assert len(wanted) <= len(parameters)
        return
    owner, dot, attribute = entry.partition(".")
    found = interpose.RunContext if owner == "ctx" else find(owner)
    assert not dot or has(found, attribute)


def test_a_name_that_is_not_there_is_noticed() -> None:
    with pytest.raises(AssertionError, match="NoSuchName"):
        find("NoSuchName")
    assert not has(interpose.ModelRequest, "no_such_field")
