"""What an owner can look at: threads, what was said in them, and which questions are open."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from interpose.event_log import ServedThread
from interpose.events import messages_to_wire
from interpose.interrupts import OpenInterrupt
from interpose.server.caller import kept_id, told_id
from interpose.server.client_tools import ASKED
from interpose.server.frames import Failed, Shown, bound
from interpose.server.runs import Runs

MOST = 100
"""Threads of one answer."""
MOST_MESSAGES = 1000


async def threads(runs: Runs, name: str, owner: str, limit: int, before: float | None) -> dict[str, Any]:
    """Return an owner's threads, those used last first, as they stand on the wire."""
    found = await runs.log(name).threads(name, owner, limit, before)
    going = {one.thread_id: one.run_id for one in runs.active.values() if (one.name, one.owner) == (name, owner)}
    last = found[-1].updated_at if len(found) == limit else None
    return {"threads": [_thread(one, owner, going) for one in found], "before": last}


def _thread(thread: ServedThread, owner: str, going: Mapping[str, str]) -> dict[str, Any]:
    told_thread = {
        "threadId": told_id(owner, thread.thread_id),
        "title": thread.title,
        "createdAt": _time(thread.created_at),
        "updatedAt": _time(thread.updated_at),
    }
    run = going.get(thread.thread_id)
    return {**told_thread, "runId": told_id(owner, run)} if run else told_thread


async def thread(runs: Runs, name: str, owner: str, thread_id: str) -> dict[str, Any] | None:
    """Return one thread: its last messages, the run that goes on in it, and what waits for answers; None for none."""
    kept = kept_id(owner, thread_id)
    store = runs.agents[name].store
    messages = [] if store is None else list(await store.load(kept, after=-MOST_MESSAGES))
    going = [one.run_id for one in runs.active.values() if (one.name, one.thread_id) == (name, kept)]
    waiting = await questions(runs, name, owner, thread_id)
    if not messages and not going and not waiting:
        known = await runs.log(name).threads(name, owner, MOST, None)
        if kept not in [one.thread_id for one in known]:
            return None
    shown = Shown(owner, "", kept, Failed(), runs.options.show_error)
    return {
        "threadId": thread_id,
        "messages": [shown.message(one) for one in messages_to_wire(messages)],
        "runs": [told_id(owner, run) for run in going],
        "interrupts": waiting,
    }


async def questions(runs: Runs, name: str, owner: str, thread_id: str | None) -> list[dict[str, Any]]:
    """Return the runs of an owner that wait for answers, with what they ask; of one thread, or of all."""
    kept = None if thread_id is None else kept_id(owner, thread_id)
    waiting: list[tuple[str, str, Sequence[OpenInterrupt]]] = []
    agent = runs.agents[name]
    if agent.store is None:
        for (of_agent, of_thread), one in runs.paused.items():
            if of_agent == name and _is_own(owner, of_thread) and kept in (None, of_thread):
                waiting.append((one.run_id, of_thread, one.interrupts))
    else:
        for found in await agent.store.paused(kept):
            if _is_own(owner, found.thread_id) and await runs.is_own(name, found.run_id, found.agent):
                waiting.append((found.run_id, found.thread_id, found.interrupts))
    return [_question(owner, *one) for one in waiting]


def _is_own(owner: str, kept_thread: str) -> bool:
    return not owner or kept_id(owner, told_id(owner, kept_thread)) == kept_thread


def _question(owner: str, run_id: str, thread_id: str, asked: Sequence[OpenInterrupt]) -> dict[str, Any]:
    run = told_id(owner, run_id)
    return {
        "runId": run,
        "threadId": told_id(owner, thread_id),
        "interrupts": [bound(one.to_wire(), run) for one in asked if one.reason != ASKED],
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
