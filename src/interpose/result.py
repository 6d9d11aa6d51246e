"""What comes out of a run: its result, and the stream of its events."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import field

from interpose.errors import ConfigurationError
from interpose.interrupts import OpenInterrupt
from interpose.messages import Message, Value
from interpose.request import Step, Usage

if TYPE_CHECKING:
    from interpose._engine.run import Run
    from interpose.events import AnyEvent


class RunResult(Value, frozen=True, kw_only=True):
    """What a run came to.

    `messages` is the whole thread after the run, `new_messages` what this run added to its input. `output` is the
    value where an output type was asked for.
    """

    text: str = ""
    output: Any = None
    messages: tuple[Message, ...] = ()
    new_messages: tuple[Message, ...] = ()
    steps: tuple[Step, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    status: Literal["finished", "interrupted"] = "finished"
    interrupts: tuple[OpenInterrupt, ...] = ()
    run_id: str = ""
    thread_id: str = ""
    checkpoint: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-able dicts and lists; of each step its number, response and tool results."""
        from interpose.text import to_jsonable

        data: dict[str, Any] = to_jsonable(self.replace(steps=()))
        data["steps"] = [
            {
                "number": step.number,
                "response": to_jsonable(step.response),
                "tool_results": to_jsonable(step.tool_results),
            }
            for step in self.steps
        ]
        return data

    def to_json(self) -> str:
        """Return the result as compact JSON."""
        from interpose.text import to_json

        return to_json(self.to_dict())


class RunStream:
    """A run that is read event by event, inside `async with`.

    Entering starts the run. A run ends once its reader has taken the last event; leaving the block before that cancels
    it and waits until its `on_abort` hooks have run. A failed run raises from the iterator after its `RUN_ERROR`.
    """

    def __init__(self, run: Run, *, owned: bool = True, after: int = -1) -> None:
        self._run = run
        self._owned = owned
        self._reader: Any = None
        self._after = after
        self.entered = False

    @property
    def run_id(self) -> str:
        """The id of the run; there before the first event."""
        return self._run.run_id

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return self._run.thread_id

    async def __aenter__(self) -> Self:
        if not self.entered:
            self.entered = True
            if self._owned:
                await self._run.agent._begin(self._run)
            self._reader = self._run.reader(self._after)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owned:
            await self._run.leave()
        else:
            self._reader.close()

    def __aiter__(self) -> Self:
        self._check_entered()
        return self

    async def __anext__(self) -> AnyEvent:
        reader = self._reader
        if reader is None:
            self._check_entered()
        event = reader.take()
        if event is None:
            event = await reader.wait()
            if event is None:
                if self._owned:
                    self._run.raise_failure()
                raise StopAsyncIteration
        return event  # type: ignore[no-any-return]  # the buffer holds events

    def abort(self, reason: str = "") -> None:
        """Stop the run at once; works from any thread."""
        self._run.abort(reason)

    async def result(self) -> RunResult:
        """Read on to the end, discarding events, and return the result.

        Raises:
            RunAborted: the run was aborted.
            Exception: what failed the run.
        """
        self._check_entered()
        self._reader.discard()
        return await self._run.wait()

    def _check_entered(self) -> None:
        if not self.entered:
            raise ConfigurationError(
                "a stream is read inside `async with agent.stream(...) as run:`, so that leaving it early ends the run"
            )
