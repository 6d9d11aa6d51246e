"""The chunk pipeline: every event of a run goes through `on_chunk` here, and what is remembered is what leaves it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from interpose._engine.buffer import BUFFER_SIZE
from interpose._engine.plan import name_of
from interpose._engine.signals import Signal
from interpose._engine.steering import wrong
from interpose.errors import HookError
from interpose.events import (
    CustomEvent,
    Event,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from interpose.outcomes import DROP
from interpose.text import clean, to_json

if TYPE_CHECKING:
    from interpose._engine.plan import Hook
    from interpose._engine.run import Run

WATCHED_ONLY = (RunStartedEvent, RunFinishedEvent, RunErrorEvent, StepStartedEvent, StepFinishedEvent)


class Pipe:
    """The way of a run's events: through the hooks, then to those held back or to the reader's buffer."""

    __slots__ = (
        "active",
        "buffer",
        "busy",
        "dropped_at",
        "emitted",
        "held",
        "hooks",
        "index",
        "narrator",
        "pairs",
        "run",
        "waiters",
    )

    def __init__(self, run: Run) -> None:
        self.run = run
        self.hooks: tuple[Hook, ...] = run.plan.on_chunk
        self.pairs = tuple([(hook.call, hook.is_async) for hook in self.hooks])
        self.buffer = run.buffer
        self.active = bool(self.hooks) or run.buffer is not None
        self.index = -1
        self.dropped_at = 0
        self.busy = False
        self.waiters: list[asyncio.Future[None]] = []
        self.held: list[Event] | None = None
        self.emitted: list[CustomEvent] = []
        self.narrator: Any = None

    def open_text(self) -> str:
        """Return the text of the open message so far."""
        return "" if self.narrator is None else self.narrator.open_text()

    def put(self, event: Event) -> None:
        """Hand *event* to the reader, or keep it where the stream is held."""
        if self.held is not None:
            self.held.append(event)
        elif self.buffer is not None:
            self.buffer.append(event)

    async def room(self) -> None:
        """Wait while the reader is `BUFFER_SIZE` events behind."""
        if self.buffer is not None and self.held is None and len(self.buffer.items) >= BUFFER_SIZE:
            await self.buffer.room()

    def release(self) -> None:
        """Send what was held back."""
        held, self.held = self.held, None
        if held and self.buffer is not None:
            for event in held:
                self.buffer.append(event)

    async def send(self, event: Event) -> None:
        """Pipe an event that belongs to no message, and hand on what comes out."""
        if not self.active:
            return
        if self.emitted:
            await self.flush()
        for one in await self.through(event):
            self.put(one)
        if event.__class__ is StepStartedEvent:
            self.run.open_step = event.step_name
        elif event.__class__ is StepFinishedEvent:
            self.run.open_step = None
        elif event.__class__ is RunStartedEvent:
            self.run.said_started = True
        await self.room()

    async def through(self, event: Event, stop: int | None = None) -> list[Event]:
        """Return what the hooks make of *event*; only the first *stop* hooks, where that is given.

        Raises:
            HookError: a hook returned something that is no event.
        """
        if not self.hooks:
            self.index += 1
            return [event]
        await self.acquire()
        try:
            self.index += 1
            return await self._from([event], 0, stop)
        finally:
            self.release_turn()

    async def acquire(self) -> None:
        """Wait until nobody else is in the pipe, and take it."""
        while self.busy:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter
        self.busy = True

    def release_turn(self) -> None:
        """Let the next one into the pipe."""
        self.busy = False
        waiters = self.waiters
        while waiters:
            waiter = waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                break

    async def _from(self, events: list[Event], first: int, stop: int | None = None) -> list[Event]:
        """Take *events* through the hooks from *first* on."""
        ctx, run = self.run.ctx, self.run
        self.dropped_at = len(self.hooks)
        for index, hook in enumerate(self.hooks[first:stop], first):
            out: list[Event] = []
            for event in events:
                said = hook.call(ctx, event)
                if hook.is_async or (said is not None and said is not DROP and isawaitable(said)):
                    said = await said
                if run.noted is not None and not run.closing:
                    raise Signal(run.noted)
                if said is None:
                    out.append(event)
                else:
                    out.extend(accept(hook, event, said))
            events = out
            if not events:
                self.dropped_at = index
                break
        return events

    async def rest(self, index: int, event: Event, said: Any) -> list[Event]:
        """Go on after hook *index*, one that a tight loop was in, said something else than nothing."""
        return await self._from(list(accept(self.hooks[index], event, said)), index + 1)

    def emit(self, name: str, value: Any) -> None:
        """Send a `CUSTOM` event of a hook or tool; from any thread."""
        run = self.run
        if not self.active or run.closing:
            return
        if threading.get_ident() != run.thread_ident:
            run.loop.call_soon_threadsafe(self.emit, name, value)
            return
        self.emitted.append(CustomEvent(name, checked(name, value)))
        if run.pump is not None:
            run.wake_pump()
        elif not self.busy and run.said_started:
            run.spawn_flush()

    async def flush(self) -> None:
        """Pipe what was emitted; nothing before `RUN_STARTED`."""
        while self.emitted and self.run.said_started:
            event = self.emitted.pop(0)
            for one in await self.through(event):
                self.put(one)


def checked(name: str, value: Any) -> Any:
    """Return *value* if it can go on the wire.

    Raises:
        ValueError: it contains itself, or is nested too deep.
    """
    if isinstance(value, dict | list | tuple):
        try:
            to_json(value)
        except RecursionError as error:
            raise ValueError(f"the value emitted as {name!r} contains itself, or is nested too deep") from error
    return value


class IdlePipe:
    """The pipe of a run whose events nobody sees; shared by all such runs."""

    active = False
    busy = False
    index = -1
    held = None
    buffer = None
    narrator = None
    emitted: tuple[CustomEvent, ...] = ()

    def open_text(self) -> str:
        """Return nothing: no text is told."""
        return ""

    def emit(self, name: str, value: Any) -> None:
        """Send to nobody."""

    def release(self) -> None:
        """Hold nothing."""

    def put(self, event: Event) -> None:
        """Send to nobody."""

    async def send(self, event: Event) -> None:
        """Send to nobody."""

    async def flush(self) -> None:
        """Have nothing to send."""

    async def room(self) -> None:
        """Return at once."""


IDLE: Any = IdlePipe()


def accept(hook: Hook, event: Event, said: Any) -> Sequence[Event]:
    """Return what *hook* made of *event* as a list.

    Raises:
        HookError: it is neither an event, nor a list of events, nor `DROP`.
    """
    if said is DROP:
        out: Sequence[Event] = ()
    elif isinstance(said, Event):
        out = (said,)
    elif isinstance(said, list | tuple) and all(isinstance(one, Event) for one in said):
        out = said
    else:
        raise wrong(_Named(hook), "on_chunk", said, "an event, a list of events, DROP")
    kind: type = event.__class__
    if kind in WATCHED_ONLY:
        return (event,)
    subject = subject_of(event) if kind in SCOPED else None
    for one in out:
        if one is event or one.__class__ is kind:
            foreign = subject_of(one) != subject and kind in SCOPED
        else:
            foreign = one.__class__ in PLACED and not (
                subject_of(one) == subject and one.__class__ in BEFORE_END.get(kind, ())
            )
        if foreign:
            raise HookError(_changed_id(hook, event, one))
    return [cleaned(one) for one in out]


def cleaned(event: Event) -> Event:
    """Return *event* without half characters in a message's text: the record is made of it, and the next request."""
    if not isinstance(event, CONTENTS):
        return event
    whole = clean(event.delta)
    return event if whole is event.delta else event.replace(delta=whole)


class _Named:
    __slots__ = ("name",)

    def __init__(self, hook: Hook) -> None:
        self.name = name_of(hook.middleware)


def subject_of(event: Event) -> str | None:
    """Return the id of the message or call that *event* belongs to."""
    return getattr(event, "message_id", None) or getattr(event, "tool_call_id", None)


def _changed_id(hook: Hook, event: Event, said: Event) -> str:
    return (
        f"{hook!r} returned a {said.type} for {subject_of(said)!r} in the place of a {event.type} for "
        f"{subject_of(event)!r}; the id of a message or call must stay, and only its own events may be sent within it"
    )


STARTS = (TextMessageStartEvent, ReasoningMessageStartEvent)
CONTENTS = (TextMessageContentEvent, ReasoningMessageContentEvent)
ENDS = (TextMessageEndEvent, ReasoningMessageEndEvent)
CALL_EVENTS = (ToolCallStartEvent, ToolCallArgsEvent, ToolCallEndEvent)
BEFORE_END: dict[type, tuple[type, ...]] = {
    TextMessageEndEvent: (TextMessageContentEvent,),
    ReasoningMessageEndEvent: (ReasoningMessageContentEvent,),
    ToolCallEndEvent: (ToolCallArgsEvent,),
}
"""What a hook may put before an end: what it had held back."""
PLACED: frozenset[type[Event]] = frozenset(
    (
        *STARTS,
        *CONTENTS,
        *ENDS,
        *CALL_EVENTS,
        *WATCHED_ONLY,
        ToolCallResultEvent,
        ReasoningStartEvent,
        ReasoningEndEvent,
    )
)
"""Events that have their place in a run, so that no hook may send them in the place of others."""
SCOPED: frozenset[type[Event]] = frozenset((*STARTS, *CONTENTS, *ENDS, *CALL_EVENTS))
