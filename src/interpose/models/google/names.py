"""Names of functions as the API takes them: as other vendors do, but that the first character is no digit or dash."""

from collections.abc import Iterable
from typing import Any

from interpose.models import wire_names as common


def wire_name(name: str) -> str:
    """Return *name* in a form that the API takes."""
    return _begun(common.wire_name(name))


def wire_names(tools: Iterable[Any]) -> dict[str, str]:
    """Return tool name -> name on the wire, all different; a name that the API takes stays as it is."""
    names = common.wire_names(tools)
    taken = set(names.values())
    for own, wire in names.items():
        if _begun(wire) != wire:
            mended, count = _begun(wire), 2
            while mended in taken:
                mended, count = f"{_begun(wire)[: common.MAX_LENGTH - len(str(count)) - 1]}_{count}", count + 1
            names[own] = mended
            taken.add(mended)
    return names


def _begun(name: str) -> str:
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[: common.MAX_LENGTH]
