"""Names of tools that vendors take: letters, digits, `_` and `-`, 64 at most."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

MAX_LENGTH = 64  # of names of functions and schemas, API reference, read 2026-11
_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")


def wire_name(name: str) -> str:
    """Return *name* in a form that the API takes; an empty one, as a model may have called it, becomes `unnamed`."""
    return _REFUSED.sub("_", name)[:MAX_LENGTH] or "unnamed"


def wire_names(tools: Iterable[Any]) -> dict[str, str]:
    """Return tool name -> name on the wire, all different; a name that the API takes stays as it is."""
    names: dict[str, str] = {}
    ordered = sorted([tool.name for tool in tools], key=lambda name: wire_name(name) != name)
    for name in ordered:
        mended, count = wire_name(name), 2
        while mended in names.values():
            tail = f"_{count}"
            mended, count = wire_name(name)[: MAX_LENGTH - len(tail)] + tail, count + 1
        names[name] = mended
    return names


def wire_id(id: str, max_length: int = MAX_LENGTH) -> str:
    """Return the id of a call in a form that vendors take: one of another vendor may be longer, or have other letters.

    Equal ids stay equal, and different ones different.
    """
    if id and len(id) <= max_length and _REFUSED.search(id) is None:
        return id
    mark = hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{_REFUSED.sub('_', id)[: max_length - 17]}_{mark}"


def schema_name(schema: Mapping[str, Any]) -> str:
    """Return the name under which an output schema is sent: its title, or `output`."""
    title = schema.get("title")
    return wire_name(title) if isinstance(title, str) and title else "output"
