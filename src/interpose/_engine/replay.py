"""Replaying a chain after a pause: what the inside of a paused layer had given is given again, and runs once."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interpose._engine.call import Call
    from interpose._engine.chain import Entry, Next


def replaying(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return *entries* as they are after a pause: what the inside of a layer had given is given again, once."""
    return tuple([_replaying(one) for one in entries])


def _replaying(entry: Entry) -> Entry:
    def enter(call: Call, index: int, value: Any, via: Next | None) -> Coroutine[Any, Any, Any]:
        if via is not None and via.used and (key := layer_key(call, index - 1)) in call.replay:  # type: ignore[operator]  # there
            return replayed(call, via, value, key)
        return entry(call, index, value, via)

    return enter


def layer_key(call: Call, index: int) -> str:
    """Return the name of layer *index*; where an outer layer has the same, with its number behind it."""
    name = call.layers[index].name
    same = sum(layer.name == name for layer in call.layers[:index])
    return f"{name}#{same + 1}" if same else name


async def replayed(call: Call, via: Next | None, value: Any, key: str) -> Any:
    """Return what the inside of a layer had given before a pause; it does not run again."""
    result = call.replay.pop(key)  # type: ignore[union-attr]  # called where there is one
    call.resume_with(value, result)
    if via is not None:
        via.given = result
    return result
