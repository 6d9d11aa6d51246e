"""Going on with a story where the processes before left it, as whoever keeps an application running would."""

import json
from typing import Any

from tests.crash.diary import Diary

from interpose import Agent, Approved, RunResult
from interpose.testing import collect


async def go_on(agent: Agent[Any], store: Any, diary: Diary, name: str, number: int, *, streams: bool = False) -> None:
    """Live the *number*-th life of the story on the thread *name*: begin, resume with all approved, or see it is over.

    *store* is the agent's, without the diary. Runs are named after the story and the life.
    """
    names = [f"{name}-{life}" for life in range(number + 1)]
    found = [await store.get(one) for one in names[:-1]]  # under every id that the run had
    there = list({one.run_id: one for one in found if one is not None}.values())
    if len(there) > 1:
        diary(f"failed: there are {len(there)} checkpoints of one run")
        return
    options: dict[str, Any] = {"run_id": names[-1]}
    given: Any = None
    if there:
        asked = there[0].interrupts
        for one in asked:
            diary(f"approves {one.tool_call.id if one.tool_call else one.id}: {one.message}")
        options |= {"parent_run_id": there[0].run_id, "resume": {one.id: Approved() for one in asked}}
    elif await store.load(name):
        diary(f"over {await thread_of(store, name)}")
        return
    else:
        given, options["thread_id"] = "Go", name
    result = await _play(agent, given, options, streams=streams)
    if result.status == "interrupted":
        diary("pauses")
        return
    told = {"text": result.text, "steps": len(result.steps), "tokens": result.usage.total_tokens}
    diary(f"result {json.dumps(told)}")
    if left := [one for one in names if await store.get(one) is not None]:
        diary(f"failed: the run is over, and there are checkpoints of {left}")
    diary(f"over {await thread_of(store, name)}")


async def _play(agent: Agent[Any], given: Any, options: dict[str, Any], *, streams: bool) -> RunResult:
    if not streams:
        return await agent.run(given, **options)
    async with agent.stream(given, **options) as run:
        await collect(run)
        return await run.result()


async def thread_of(store: Any, thread_id: str) -> str:
    """Return the roles and texts of a thread, as JSON."""
    messages = await store.load(thread_id)
    return json.dumps([[m.role, m.text, [call.name for call in m.tool_calls]] for m in messages])
