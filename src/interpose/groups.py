"""Atomic groups: what of a history stays or goes as one, and what always stays."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from interpose.messages import Message, SystemMessage


class Group(NamedTuple):
    """An assistant message that calls tools, with the results that answer it; or any other message by itself.

    *places* are its positions in the history. *may_go* is false for the group of the newest user message and for the
    newest group.
    """

    places: tuple[int, ...]
    may_go: bool


def leading(messages: Sequence[Message]) -> int:
    """Return how many system messages stand before everything else; they always stay."""
    return next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))


def newest_user(messages: Sequence[Message]) -> int | None:
    """Return the position of the newest user message."""
    return next((place for place in range(len(messages) - 1, -1, -1) if messages[place].role == "user"), None)


def groups_of(messages: Sequence[Message]) -> list[Group]:
    """Return the groups behind the leading system messages, oldest first. A system message further back is one."""
    groups: list[list[int]] = []
    asked_in: dict[str, list[int]] = {}
    for place in range(leading(messages), len(messages)):
        message = messages[place]
        own = asked_in.get(message.tool_call_id) if message.tool_call_id is not None else None
        if own is not None:
            own.append(place)
            continue
        groups.append([place])
        for call in message.tool_calls:
            asked_in[call.id] = groups[-1]
    always = {newest_user(messages), len(messages) - 1}
    return [Group(tuple(places), always.isdisjoint(places)) for places in groups]


def without(messages: Sequence[Message], gone: Collection[int]) -> list[Message]:
    """Return *messages* without those at the positions *gone*."""
    return [message for place, message in enumerate(messages) if place not in gone]


def insert_note(messages: list[Message], place: int, text: str) -> None:
    """Put a system message at *place*; before the call, where that would come between a call and its results."""
    while place > 0 and place < len(messages) and messages[place].role == "tool":
        place -= 1
    messages.insert(place, SystemMessage(text))
