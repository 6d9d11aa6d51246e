"""The tight loop of streamed text, where a run spends its time: a delta costs one event, its hooks and an append."""

from __future__ import annotations

from collections.abc import AsyncIterator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from interpose._engine.buffer import BUFFER_SIZE
from interpose._engine.signals import Signal
from interpose.events import TextMessageContentEvent
from interpose.models.base import TextDelta
from interpose.outcomes import DROP

if TYPE_CHECKING:
    from interpose._engine.model_call import ModelCall
    from interpose._engine.narrator import Narrator


async def read_text(  # noqa: C901  # one loop on purpose: a call in it would cost more than its work
    stream: AsyncIterator[Any], narrator: Narrator, call: ModelCall
) -> Any:
    """Read text deltas of the open message; return the first chunk that is not for here, or None at the end.

    Not for here is everything that is not plain text within a message that has started: the slow path takes it.
    """
    run, pipe = call.run, call.run.pipe
    ctx, buffer = run.ctx, pipe.buffer
    message, hooks = narrator.message, pipe.pairs
    if message is None or not message.started or not message.is_text or message.carry:
        return await anext(stream, None)
    async for chunk in stream:
        if chunk.__class__ is not TextDelta or call.overlap or pipe.emitted or pipe.busy:
            return chunk
        text = chunk.text
        if not text or not text.isascii():
            return chunk
        event = TextMessageContentEvent(message.id, text)
        pipe.index += 1
        if hooks:
            pipe.busy = True
            try:
                for pair in hooks:
                    hook, is_async = pair
                    said = hook(ctx, event)
                    if is_async:
                        said = await said
                    if said is None:
                        continue
                    if said is DROP:
                        events = []
                        break
                    if isawaitable(said) and (said := await said) is None:
                        continue
                    if said.__class__ is TextMessageContentEvent and said.message_id == message.id:
                        event = said
                        continue
                    events = await pipe.rest(_place(pair, hooks), event, said)
                    break
                else:
                    events = None
            finally:
                pipe.busy = False
                if pipe.waiters:
                    pipe.release_turn()
            if run.noted is not None:
                raise Signal(run.noted)
            if events is not None:
                if events:
                    await narrator.deliver(message, events)
                continue
            if not event.delta:
                continue
        elif run.noted is not None:
            raise Signal(run.noted)
        message.pieces.append(event.delta)
        if pipe.held is not None:
            pipe.held.append(event)
        elif buffer is not None:
            buffer.append(event)
            if len(buffer.items) >= BUFFER_SIZE:
                await buffer.room()
    return None


def _place(pair: Any, hooks: tuple[Any, ...]) -> int:
    """Return where *pair* itself stands: one hook may be there twice."""
    return next(index for index, one in enumerate(hooks) if one is pair)
