"""A store as a durable run uses it: what it reads and claims is recorded, so that a run begun anew sees the same."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from interpose.checkpoint import Checkpoint
from interpose.durable.journal import current, place
from interpose.messages import Message
from interpose.text import to_jsonable

if TYPE_CHECKING:
    from interpose.stores import Store

Act = Callable[[], Awaitable[Any]]


class StepStore:
    """A store whose acts within a durable run are steps of its workflow, done once.

    Checkpoints of running runs are not written: the workflow keeps their progress.
    """

    def __init__(self, store: "Store") -> None:
        self.real = store

    async def load(self, thread_id: str, /, *, after: int = 0, limit: int | None = None) -> Sequence[Message]:
        """Return the messages of a thread, as they were when this run first read them."""

        async def act() -> Any:
            return to_jsonable(list(await self.real.load(thread_id, after=after, limit=limit)))

        return msgspec.convert(await _once(f"load:{thread_id}:{after}:{limit}", act, reads=True), tuple[Message, ...])

    async def commit(
        self,
        thread_id: str,
        run_id: str,
        messages: Sequence[Message],
        /,
        *,
        expected: int | None = None,
        checkpoint: Checkpoint | None = None,
        replaces: str | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Append the messages of a run to its thread."""

        async def act() -> None:
            kept = (
                None if current() is not None and checkpoint is not None and not checkpoint.interrupts else checkpoint
            )
            options: dict[str, Any] = {"expected": expected, "checkpoint": kept, "replaces": replaces, "state": state}
            await self.real.commit(thread_id, run_id, messages, **options)

        await _once(f"commit:{thread_id}", act)

    async def fork(self, thread_id: str, message_id: str, /) -> str:
        """Return the id of a new thread that ends with a message of this one."""
        forked: str = await _once(f"fork:{thread_id}:{message_id}", lambda: self.real.fork(thread_id, message_id))
        return forked

    async def load_state(self, thread_id: str, /) -> dict[str, Any]:
        """Return the state of a thread, as it was when this run first read it."""
        act: Act = lambda: self.real.load_state(thread_id)  # noqa: E731  # as short as it is
        state: dict[str, Any] = await _once(f"load_state:{thread_id}", act, reads=True)
        return state

    async def save_state(self, thread_id: str, state: Mapping[str, Any], /) -> None:
        """Keep *state* for a thread."""
        await _once(f"save_state:{thread_id}", lambda: self.real.save_state(thread_id, state))

    async def put(self, checkpoint: Checkpoint, /, *, replaces: str | None = None, at: int | None = None) -> None:
        """Write the checkpoint of a run that pauses, whole; until then its parts are gathered."""
        journal = current()
        if journal is None:
            await self.real.put(checkpoint, replaces=replaces, at=at)
            return
        if replaces is not None:
            await self.drop(replaces)
        parts = journal.parts.setdefault(checkpoint.run_id, [])
        parts.append(checkpoint)
        if checkpoint.status == "paused":
            del journal.parts[checkpoint.run_id]
            whole = Checkpoint.fold(parts).replace(part=0)
            await _once(f"put:{checkpoint.run_id}", lambda: self.real.put(whole))

    async def get(self, run_id: str, /) -> Checkpoint | None:
        """Return a run's checkpoint, as it was when this run first read it."""

        async def act() -> Any:
            found = await self.real.get(run_id)
            return None if found is None else found.to_dict()

        found = await _once(f"get:{run_id}", act, reads=True)
        return None if found is None else Checkpoint.from_dict(found)

    async def claim(self, run_id: str, ttl_s: float, /) -> bool:
        """Take a run's checkpoint; a run begun anew still has what it took."""
        return bool(await _once(f"claim:{run_id}", lambda: self.real.claim(run_id, ttl_s)))

    async def release(self, run_id: str, /) -> None:
        """Give back a claim."""
        await _once(f"release:{run_id}", lambda: self.real.release(run_id))

    async def drop(self, run_id: str, /) -> None:
        """Forget a run's checkpoint."""
        await _once(f"drop:{run_id}", lambda: self.real.drop(run_id))

    async def paused(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for answers, as they were when this run first looked."""

        async def act() -> Any:
            return [one.to_dict() for one in await self.real.paused(thread_id)]

        return [Checkpoint.from_dict(one) for one in await _once(f"paused:{thread_id}", act, reads=True)]

    async def unfinished(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for nothing."""
        return await self.real.unfinished(thread_id)

    async def key(self) -> bytes:
        """Return the key of the store."""
        return await self.real.key()


async def _once(name: str, act: Act, *, reads: bool = False) -> Any:
    """Do *act* and record what it gave; where it is recorded, do nothing and return that.

    Of a run that is left to another process nothing is written: how it was cut is nobody's business.
    """
    journal = current()
    if journal is None or (journal.left and reads):
        return await act()
    if journal.left:
        return None
    name = f"{place()}store:{name}"
    found = journal.take(name)
    if found is None:
        found = {"gave": await act()}
        await journal.add(name, found)
    return found["gave"]
