"""Of two runs on one thread the second waits: a lock a thread, in this process, for every loop and OS thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from interpose.errors import ConfigurationError

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]
_held: ContextVar[tuple[tuple[int, str], ...]] = ContextVar("held_threads", default=())
_waiting: WeakKeyDictionary[Any, dict[str, deque[Waiter]]] = WeakKeyDictionary()
_lock = threading.Lock()
COMING_S = (0.0, 0.0, 0.01, 0.04)
"""How long to look for others that come to wait for a thread, in seconds."""


async def acquire(owner: Any, thread_id: str) -> None:
    """Wait until no run of *owner* (a store, or an agent without one) is on the thread, and take it.

    Raises:
        ConfigurationError: the run that holds it waits for this one.
    """
    key = (id(owner), thread_id)
    if key in _held.get():
        raise ConfigurationError(
            f"a run on thread {thread_id!r} was started from within a run on that thread, and would wait for it for "
            f"ever; give it a thread of its own, or use agent.as_tool()"
        )
    with _lock:
        threads = _waiting.setdefault(owner, {})
        queue = threads.get(thread_id)
        if queue is None:
            threads[thread_id] = deque()
            waiter = None
        else:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            queue.append((loop, waiter))
    if waiter is not None:
        try:
            await waiter
        except BaseException:
            _give_up(owner, thread_id, waiter)
            raise
    _held.set((*_held.get(), key))


async def give_way(owner: Any, thread_id: str) -> bool:
    """Let those who wait for the thread, which the caller holds, go first; False where nobody waits."""
    for wait_s in (*COMING_S, None):  # one that has just claimed what this run wants may be on its way here
        with _lock:
            if _waiting[owner][thread_id]:
                break
        if wait_s is None:
            return False
        await asyncio.sleep(wait_s)
    key = (id(owner), thread_id)
    _held.set(tuple([one for one in _held.get() if one != key]))
    release(owner, thread_id)
    await acquire(owner, thread_id)
    return True


def _give_up(owner: Any, thread_id: str, waiter: asyncio.Future[None]) -> None:
    with _lock:
        queue = _waiting[owner][thread_id]
        mine = next((one for one in queue if one[1] is waiter), None)
        if mine is not None:
            queue.remove(mine)
            return
    release(owner, thread_id)  # it had been handed over already


def release(owner: Any, thread_id: str) -> None:
    """Hand the thread on to the run that has waited longest."""
    with _lock:
        queue = _waiting[owner][thread_id]
        if not queue:
            del _waiting[owner][thread_id]
            return
        loop, waiter = queue.popleft()
    if loop.is_closed():
        release(owner, thread_id)
    else:
        loop.call_soon_threadsafe(_wake, waiter, owner, thread_id)


def _wake(waiter: asyncio.Future[None], owner: Any, thread_id: str) -> None:
    if waiter.cancelled():
        release(owner, thread_id)
    elif not waiter.done():
        waiter.set_result(None)
