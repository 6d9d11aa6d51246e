"""Signals, where the event loop can tell of them."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress


def call_on(number: signal.Signals, callback: Callable[[], None]) -> None:
    """Have the running loop call *callback* on a signal; where loops know of none, it keeps its usual effect.

    That is so on Windows, and outside the main thread.
    """
    with suppress(NotImplementedError, RuntimeError, ValueError):  # what loops raise that cannot
        asyncio.get_running_loop().add_signal_handler(number, callback)
