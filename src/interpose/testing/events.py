"""Looking at the events of a run."""

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress

from interpose.events import CustomEvent, Event, TextMessageContentEvent, TextMessageStartEvent
from interpose.result import RunStream


async def collect(run: RunStream) -> list[Event]:
    """Return all events of a `RunStream`, which is entered, and left again, unless it was entered before.

    A run that fails gives the events until then; `await run.result()` raises what failed it.
    """
    events: list[Event] = []
    stack = AsyncExitStack()
    if not run.entered:
        await stack.enter_async_context(run)
    with suppress(Exception):  # the run's own failure, which run.result() raises
        async with stack:
            async for event in run:
                events.append(event)
    return events


def event_types(events: Iterable[Event]) -> list[str]:
    """Return the types, such as `RUN_STARTED`, in order."""
    return [event.type for event in events]


def text_of(events: Sequence[Event]) -> str:
    """Return what the assistant said, joined, without the messages that were superseded."""
    left_out = {
        event.value.get("messageId")
        for event in events
        if isinstance(event, CustomEvent) and event.name == "interpose.superseded"
    }
    for event in events:
        if isinstance(event, TextMessageStartEvent) and event.role not in (None, "assistant"):
            left_out.add(event.message_id)
    contents = [event for event in events if isinstance(event, TextMessageContentEvent)]
    return "".join([event.delta for event in contents if event.message_id not in left_out])
