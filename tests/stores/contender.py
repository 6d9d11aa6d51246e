"""A process that does one thing with a store once it is told to: `python contender.py URL ACT NUMBER`.

It says "ready", waits for a line, acts, and says what came of it as JSON. *NUMBER* tells contenders apart.
"""

import asyncio
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from interpose import ToolResult, UserMessage
from interpose.checkpoint import Checkpoint
from interpose.errors import ResumeError, ThreadConflict
from interpose.saved import SavedResult
from interpose.stores import SQLStore, StoreError
from interpose.testing.store_values import some_checkpoint, some_messages

FILE_SIZE = 400_000
Act = Callable[[SQLStore, int, Callable[[], Awaitable[str]]], Awaitable[Any]]


def say(what: object) -> None:
    """Tell whoever started this process."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def extend(store: SQLStore, number: int, go: Callable[[], Awaitable[str]]) -> str:
    """Extend a thread that was loaded before all were told to go."""
    base = len(await store.load("t1"))
    await go()
    try:
        await store.commit("t1", f"run{number}", some_messages(3, number * 3), expected=base)
    except ThreadConflict:
        return "conflict"
    return "won"


async def claim(store: SQLStore, number: int, go: Callable[[], Awaitable[str]]) -> str:
    """Claim a paused run."""
    await store.get("r0")
    await go()
    return "won" if await store.claim("r0", 60) else "taken"


async def claim_and_die(store: SQLStore, number: int, go: Callable[[], Awaitable[str]]) -> str:
    """Claim a paused run for a moment, and wait to be killed."""
    assert await store.claim("r0", 0.3)
    await go()
    return "alive"


async def resume(store: SQLStore, number: int, go: Callable[[], Awaitable[str]]) -> str:
    """Begin a run in place of a paused one."""
    await store.get("r0")
    await go()
    try:
        await store.put(some_checkpoint(f"resumed{number}"), replaces="r0")
    except ResumeError:
        return "refused"
    return "won"


async def write(store: SQLStore, number: int, go: Callable[[], Awaitable[str]]) -> int:
    """Write a hundred parts of a run of one's own, and append to a thread that all share."""
    await store.load("t1")
    await go()
    await store.put(some_checkpoint(f"run{number}"))
    for part in range(1, 100):
        await store.put(Checkpoint(run_id=f"run{number}", part=part, started=(f"c{part}",)))
        if part % 10 == 0:
            await store.commit("t1", f"run{number}_{part}", [UserMessage(f"{number}")])
    return 99


async def put_until_killed(store: SQLStore, number: int, go: Callable[[], Awaitable[str]]) -> None:
    """Say of each part that it is stored, once it is."""
    await store.put(some_checkpoint("r1"))
    await go()
    for part in range(1, 1_000_000):
        saved = SavedResult.of(ToolResult(tool_call_id=f"c{part}", data="x" * (part % 500)))
        await store.put(Checkpoint(run_id="r1", part=part, answered={f"c{part}": saved}))
        say(part)


async def fill_the_disk(store: SQLStore, number: int, go: Callable[[], Awaitable[str]]) -> dict[str, Any]:
    """Write until files may not grow any more, then give room and write on."""
    await store.put(some_checkpoint("r1"))
    await go()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, hard))
    part, said = 1, ""
    while not said and part < 10_000:
        try:
            await store.put(Checkpoint(run_id="r1", part=part, phase="x" * 2_000))
            part += 1
        except StoreError as error:
            said = str(error)
    parallel = await asyncio.gather(
        *[store.put(Checkpoint(run_id="r1", part=part + n, phase="y" * 2_000)) for n in range(3)],
        return_exceptions=True,
    )
    full = await store.get("r1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.put(Checkpoint(run_id="r1", part=part, phase="again"))
    after = await store.get("r1")
    return {
        "stored": part - 1,
        "said": said,
        "parallel": [type(one).__name__ for one in parallel],
        "while_full": full.part if full else None,
        "after": [after.part, after.phase] if after else None,
    }


ACTS: dict[str, Act] = {
    act.__name__: act for act in (extend, claim, claim_and_die, resume, write, put_until_killed, fill_the_disk)
}


async def _main(url: str, act: str, number: int) -> None:
    async def go() -> str:
        say("ready")
        return await asyncio.to_thread(sys.stdin.readline)

    async with SQLStore(url, timeout_s=30) as store:
        say(json.dumps(await ACTS[act](store, number, go)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
