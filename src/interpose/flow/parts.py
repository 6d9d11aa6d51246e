"""Messages and tools that many requests of a run share, kept once.

The record makes each message once, so that the requests of a run hold the same objects: they are told apart by identity
alone, and only against the request before, whose objects are still alive.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any

import msgspec

from interpose.flow.wire import json_of, pack_json, unpack

SHARED = ("messages", "tools")
DROPPED = msgspec.Raw(b'{"role":"other","text":"(not kept any more)"}')
Ranges = list[list[int]]


class Parts:
    """What requests are made of, packed, in the order in which it came."""

    __slots__ = ("_births", "_first", "_items", "_last")

    def __init__(self) -> None:
        self._items: list[bytes | None] = []
        self._births: list[int] = []
        self._first = 0
        self._last: dict[tuple[str, str], tuple[Sequence[Any], list[int], Ranges]] = {}

    def split(self, run_id: str, request: Mapping[str, Any], seq: int) -> tuple[dict[str, Any], int]:
        """Return the *request* of event *seq*, ranges in the place of what is shared, and how many bytes are new."""
        size = 0
        given = dict(request)
        for name in SHARED:
            items = request.get(name)
            if isinstance(items, list | tuple) and items:
                given[name], new = self._ranges((run_id, name), items, seq)
                size += new
        return given, size

    def join(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `split` was given, for an encoder."""
        return {**request, **{name: self._picked(request[name]) for name in SHARED if request.get(name)}}

    def found(self) -> Iterator[tuple[int, bytes]]:
        """Yield each part, packed, and the number of the event that it came with."""
        return ((seq, item) for seq, item in zip(tuple(self._births), tuple(self._items), strict=False) if item)

    def give_up(self, upto: int) -> int:
        """Give up what came with events up to number *upto*, and return how many bytes that frees."""
        freed = 0
        while self._first < len(self._items) and self._births[self._first] <= upto:
            freed += len(self._items[self._first] or b"")
            self._items[self._first] = None
            self._first += 1
        return freed

    def ended(self, run_id: str) -> None:
        """Let the objects of a run go: it will make no more requests."""
        for name in SHARED:
            self._last.pop((run_id, name), None)

    def _ranges(self, key: tuple[str, str], items: Sequence[Any], seq: int) -> tuple[Ranges, int]:
        before, numbers, ranges = self._last.get(key, ((), [], []))
        if len(before) <= len(items) and all(map(is_, before, items)):  # as mostly: the request before, and more
            known, numbers, ranges, rest = {}, list(numbers), [list(one) for one in ranges], items[len(before) :]
        else:
            known, numbers, ranges, rest = dict(zip(map(id, before), numbers, strict=True)), [], [], items
        size = 0
        for item in rest:
            number = known.get(id(item))
            if number is None:
                number = len(self._items)
                self._items.append(packed := pack_json(json_of(item)))
                self._births.append(seq)
                size += len(packed)
            numbers.append(number)
            if ranges and sum(ranges[-1]) == number:
                ranges[-1][1] += 1
            else:
                ranges.append([number, 1])
        self._last[key] = (tuple(items), numbers, ranges)
        return ranges, size

    def _picked(self, ranges: Ranges) -> list[msgspec.Raw]:
        items = [self._items[number] for first, count in ranges for number in range(first, first + count)]
        return [DROPPED if item is None else msgspec.Raw(unpack(item)) for item in items]
