"""One worker of the fleet: `python -m examples.fleet.worker URL SCHEMA`. It works until it is stopped, or killed."""

import asyncio
import logging
import signal
import sys

from examples.fleet.shop import fleet


async def main() -> None:
    """Work until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with fleet(sys.argv[1], schema=sys.argv[2], worker=True) as agents:
        print(agents.executor, flush=True)
        await stopped.wait()


logging.basicConfig(format="worker: %(message)s")
asyncio.run(main())
