"""One pass through a chain: what its layers share, and the rules of its seam."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from interpose._engine.signals import Note, Rank
from interpose._engine.steering import wrong

if TYPE_CHECKING:
    from interpose._engine.chain import Entry, Layer, Next
    from interpose._engine.run import Run


class Call:
    """One pass through a chain: what is shared by its layers, and the rules of the seam."""

    seam = ""
    takes: type | None = None
    gives: type = object
    steers: ClassVar[Mapping[str, tuple[type, ...]]] = {}

    __slots__ = (
        "answered",
        "ctx",
        "entries",
        "layers",
        "noted",
        "odd",
        "paused_at",
        "replay",
        "result_type",
        "retries",
        "run",
        "stray",
        "task",
        "value_type",
        "values",
    )

    def __init__(self, run: Run, ctx: Any, layers: tuple[Layer, ...], entries: tuple[Entry, ...]) -> None:
        self.run = run
        self.ctx = ctx
        self.layers = layers
        self.entries = entries
        self.values: list[Any] = [None] * (len(layers) + 1)
        self.answered = False
        self.noted: Note | None = None
        self.odd = True  # an ending may be noted, or a part may run in another task; where False, neither is so
        self.stray: dict[Next, set[asyncio.Task[Any]]] | None = None
        self.value_type, self.result_type = self.takes, self.gives
        self.retries: dict[int, int] | None = None
        self.paused_at: tuple[str, Any] | None = None
        self.replay: dict[str, Any] | None = None
        self.task = run.task

    def note(self, rank: Rank, value: Any) -> None:
        """Note an ending; on the run, unless the seam keeps it to itself."""
        self.run.note(rank, value)

    def pending(self) -> Note | None:
        """Return what was noted, the higher rank first."""
        noted, own = self.run.noted, self.noted
        return own if noted is None or (own is not None and own.rank > noted.rank) else noted

    def made(self, layer: Layer, result: Any) -> Any:  # noqa: ARG002  # for seams that mark it
        """Return *result*, which *layer* made up, marked as such where the seam has a mark."""
        return result

    def lift(self, layer: Layer, hook: str, value: Any) -> Any:
        """Return *value*, which is not of the seam's type, as a result.

        Raises:
            HookError: it cannot become one.
        """
        raise wrong(layer, hook, value, self.gives.__name__)

    def changed(self, layer: Layer, hook: str, before: Any, after: Any) -> Any:  # noqa: ARG002  # for seams that check
        """Return a value that a before-hook put in place of another, checked."""
        return after

    def resume_with(self, value: Any, result: Any) -> None:  # noqa: ARG002  # for seams that keep account
        """Take account of a *result* from before a pause."""
        self.answered = True

    def again_value(self, value: Any) -> Any:
        """Return the value of a further attempt."""
        return value

    def retry_value(self, value: Any, result: Any, feedback: str) -> Any:  # noqa: ARG002  # for seams that retry
        """Return the value of another attempt after *result* was rejected."""
        return value
