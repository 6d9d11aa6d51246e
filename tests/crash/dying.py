"""A store that is lost to its process at some write, as where the process dies; others go on from what it has."""

import asyncio
from typing import Any

from interpose import Agent
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel


class Dies(MemoryStore):
    """Dies at write number `at` (from 0): before it, or after it. Claims are real."""

    def __init__(self, at: int | None = None, after: bool = True) -> None:
        super().__init__()
        self.at, self.after, self.count, self.dead = at, after, 0, asyncio.Event()

    async def _write(self, act: Any) -> Any:
        number, self.count = self.count, self.count + 1
        if self.dead.is_set() or (number == self.at and not self.after):
            self.dead.set()
            await asyncio.get_running_loop().create_future()
        came = await act()
        if number == self.at:
            self.dead.set()
            await asyncio.get_running_loop().create_future()
        return came

    async def put(self, checkpoint: Any, /, **options: Any) -> None:
        up = super().put
        await self._write(lambda: up(checkpoint, **options))

    async def commit(self, *args: Any, **options: Any) -> None:
        up = super().commit
        await self._write(lambda: up(*args, **options))

    async def drop(self, run_id: str, /) -> None:
        up = super().drop
        await self._write(lambda: up(run_id))

    async def save_state(self, *args: Any) -> None:
        up = super().save_state
        await self._write(lambda: up(*args))

    async def release(self, run_id: str, /) -> None:
        if not self.dead.is_set():
            await super().release(run_id)


async def killed(agent: Agent[Any], given: Any = "Go", **options: Any) -> None:
    """Run until the store dies, and give the run up as a dying process does."""
    store = agent.store
    run = asyncio.create_task(agent.run(given, **{"run_id": "r1", "thread_id": "t1", **options}))
    dead = asyncio.create_task(store.dead.wait())
    await asyncio.wait((run, dead), return_when=asyncio.FIRST_COMPLETED)
    assert not run.done(), f"it was not killed: {run.exception() or run.result().text}"
    run.cancel()
    await asyncio.wait((run,), timeout=0.05)  # what it does now reaches no store


def reborn(store: Dies) -> Dies:
    """Return the store as another process sees it."""
    new = Dies()
    own = ("at", "after", "count", "dead")
    new.__dict__.update({name: value for name, value in store.__dict__.items() if name not in own})
    return new


def agent(*turns: Any, **options: Any) -> Agent[Any]:
    """Return an agent on a scripted model."""
    return Agent(ScriptedModel(*turns), **{"post_model_hooks": (), **options})
