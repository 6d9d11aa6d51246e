"""Processes that live a part of a story, cheaply: forks one for each line that it is told, as JSON.

It imports everything once, and has neither threads nor an event loop when it forks, so that its children begin as new
processes do.
"""

import asyncio
import gc
import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.crash.diary import Diary, DiaryStore
from tests.crash.living import go_on
from tests.crash.stories import STORIES

from interpose import Agent, Approved, ConfigurationError, InterposeError
from interpose.stores import MemoryStore, SQLStore


async def live(job: dict[str, Any]) -> None:
    """Live one life of a story."""
    diary = Diary(Path(job["diary"]), job["dies_at"])
    diary(f"process {job['number']}")
    async with SQLStore(job["url"], timeout_s=20) as store:
        agent = STORIES[job["story"]](diary, store=DiaryStore(store, diary, hold=job.get("hold", False)))
        if "options" in job:
            await contend(agent, diary, job["given"], job["options"])
            return
        await go_on(agent, store, diary, job["name"], job["number"], streams="streamed" in job["story"])


async def contend(agent: Agent[Any], diary: Diary, given: Any, options: dict[str, Any]) -> None:
    """Do one run, as it is asked for, and say what came of it; what is to be resumed is approved."""
    if "resume" in options:
        options = options | {"resume": {asked: Approved() for asked in options["resume"]}}
    try:
        result = await agent.run(given, **options)
    except InterposeError as error:
        diary(f"refused {type(error).__name__}: {error}")
    else:
        diary(f"{result.status} {result.text}")


def _child(job: dict[str, Any]) -> None:
    try:
        asyncio.run(live(job))
    except BaseException as error:
        traceback.print_exc()
        with Path(job["diary"]).open("a") as file:
            file.write(f"failed: {error!r}\n")
    finally:
        os._exit(0)


async def warm_up() -> None:
    """Live a story in memory, so that what is made at first use is there in every child."""
    store, diary = MemoryStore(), Diary(Path(os.devnull))
    await go_on(STORIES["steps"](diary, store=store), store, diary, "warm", 0)


def main() -> None:
    """Fork a child for each job, and say how it ended."""
    asyncio.run(warm_up())
    with suppress(ConfigurationError):  # psycopg is not installed, so no job needs it
        import interpose.stores.postgres  # noqa: F401  # so that no child has to import it
    gc.disable()
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _child(json.loads(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
