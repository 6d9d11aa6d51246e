"""One outermost run as it was seen: its events in order, and what a list of runs says of it."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interpose.flow.parts import Parts
from interpose.flow.wire import Wire, head_bytes, light, merged, pack, unpack, whole

MAX_NODES = 20_000
"""Further nodes of a run are counted, and not kept."""
NOT_KEPT = -1


class RunLog:
    """The events of one run. Their bodies are packed; an end has all that its start had, which is then given up."""

    __slots__ = (
        "_bodies",
        "_first_body",
        "_heads",
        "_parts",
        "_shared",
        "duration_ms",
        "errors",
        "finish_reason",
        "id",
        "left_out",
        "name",
        "nested",
        "nodes",
        "open",
        "outcome",
        "started_at",
        "status",
        "steps",
        "stored_bytes",
        "thread_id",
        "usage",
    )

    def __init__(self, run_id: str, first: Wire) -> None:
        self.id = run_id
        self.name: str = first.head["name"] if first.head["kind"] == "run" else run_id
        self.thread_id: str | None = first.head.get("thread_id")
        self.status = "running"
        self.outcome: str | None = None
        self.finish_reason: str | None = None
        self.started_at: float = first.head["started_at"]
        self.duration_ms: float | None = None
        self.nodes = 0
        self.steps = 0
        self.errors = 0
        self.left_out = 0
        self.usage: dict[str, Any] = {}
        self.open: dict[str, int] = {}
        self.nested: set[str] = set()
        self.stored_bytes = 0
        self._heads: list[bytes] = []
        self._bodies: list[bytes | None] = []
        self._first_body = 0
        self._parts = Parts()
        self._shared: set[int] = set()

    def __len__(self) -> int:
        """How many events are kept."""
        return len(self._heads)

    @property
    def state(self) -> tuple[str, str]:
        """What pages are told at once when it changes: the name, and whether the run is going on."""
        return self.name, self.status

    def add(self, wire: Wire) -> int | None:
        """Take an event and return its number, or None where it is counted and not kept."""
        head = wire.head
        own_run = head["kind"] == "run" and head["run_id"] == self.id
        if own_run:
            self._note_own(head)
        seq = len(self._heads)
        at_end = head["phase"] == "end"
        start = self.open.pop(head["id"], None) if at_end else None
        if start is None:  # a new node; its start was not seen where this is its end
            self.nodes += 1
            self.steps += head["kind"] == "step" and head["run_id"] == self.id
            self.left_out += self.nodes > MAX_NODES
        if at_end:
            self.errors += head.get("status") == "error"
            self._note_usage(head, own_run)
        else:
            self.open[head["id"]] = NOT_KEPT if self.nodes > MAX_NODES else seq
        if start == NOT_KEPT or (start is None and self.nodes > MAX_NODES):
            return None
        if start is not None:
            self._give_up_body(start)
        self._heads.append(head_bytes(wire, self.id, seq))
        self._bodies.append(packed := pack(self._split(wire, seq)))
        self.stored_bytes += len(packed)
        if at_end and head["kind"] == "run":
            self._parts.ended(head["run_id"])
        return seq

    def whole(self, seq: int) -> bytes | None:
        """Return event number *seq* with all that is kept of it, as JSON, where it is there."""
        heads, bodies = self._heads, self._bodies
        if not 0 <= seq < min(len(heads), len(bodies)):
            return None
        head, body = heads[seq], bodies[seq]
        if seq not in self._shared or body is None:
            return whole(head, body)
        told = msgspec.json.decode(unpack(body))
        if content := told.get("content"):  # else it was too large
            told["content"] = {**content, "in": self._parts.join(content["in"])}
        return merged(head, told)

    def summary(self) -> dict[str, Any]:
        """Return what a list of runs says."""
        return {
            "id": self.id,
            "name": self.name,
            "thread_id": self.thread_id,
            "status": self.status,
            "outcome": self.outcome,
            "finish_reason": self.finish_reason,
            "started_at": self.started_at,
            "duration_ms": self.duration_ms,
            "nodes": self.nodes,
            "steps": self.steps,
            "errors": self.errors,
            "left_out": self.left_out,
            "usage": self.usage,
            "events": len(self._heads),
        }

    def lights(self, start: int = 0, end: int | None = None) -> list[bytes]:
        """Return the events from number *start* on, before *end*, as they are streamed."""
        heads, bodies = self._heads, self._bodies  # another thread may give the run up meanwhile
        stop = min(len(heads), len(bodies)) if end is None else min(end, len(heads), len(bodies))
        return [light(heads[seq], bodies[seq], apart=seq in self._shared) for seq in range(max(0, start), stop)]

    def texts(self) -> Iterator[tuple[int, bytes]]:
        """Yield what can be searched, packed, each with the number of the event that brought it."""
        yield from ((seq, body) for seq, body in enumerate(tuple(self._bodies)) if body)
        yield from self._parts.found()

    def lose(self) -> None:
        """Take the run for ended, by what nobody saw."""
        self.status = "error"
        self.outcome = "lost"
        self.open.clear()

    def give_up(self, size: int) -> int:
        """Give up the oldest bodies until at least *size* bytes are free, or there are none; return how many are."""
        freed = 0
        while freed < size and self._first_body < len(self._bodies):
            body = self._bodies[self._first_body]
            if body:
                freed += len(body)
                self._bodies[self._first_body] = None
            freed += self._parts.give_up(self._first_body)
            self._first_body += 1
        self.stored_bytes -= freed
        return freed

    def clear(self) -> None:
        """Give up everything but the summary."""
        self._heads, self._bodies, self.stored_bytes = [], [], 0
        self._parts = Parts()
        self._shared.clear()
        self.open.clear()

    def _split(self, wire: Wire, seq: int) -> dict[str, Any]:
        """Return the body, of which what other requests hold too is kept apart."""
        content = wire.body.get("content")
        given = content.get("in") if isinstance(content, Mapping) else None
        if wire.head["kind"] != "model" or not isinstance(content, Mapping) or not isinstance(given, Mapping):
            return wire.body
        request, size = self._parts.split(wire.head["run_id"], given, seq)
        self.stored_bytes += size
        self._shared.add(seq)
        return {**wire.body, "content": {**content, "in": request}}

    def _give_up_body(self, seq: int) -> None:
        """Give up what a start said: its end says it too."""
        self.stored_bytes -= len(self._bodies[seq] or b"")
        self._bodies[seq] = b""
        self._shared.discard(seq)

    def _note_own(self, head: dict[str, Any]) -> None:
        self.name = head["name"]
        self.thread_id = head.get("thread_id", self.thread_id)
        if head["phase"] == "start":
            self.started_at, self.status, self.duration_ms = head["started_at"], "running", None
        else:
            self.status = "error" if head["status"] == "error" else "ok"
            self.duration_ms = head["duration_ms"]
            self.outcome = head.get("outcome")
            self.finish_reason = head.get("finish_reason")

    def _note_usage(self, head: dict[str, Any], own_run: bool) -> None:
        usage = head.get("usage")
        if usage and own_run:
            self.usage = usage
        elif usage and head["kind"] == "model":
            self.usage = {name: self.usage.get(name, 0) + usage.get(name, 0) for name in {**self.usage, **usage}}
