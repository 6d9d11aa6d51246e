"""What a store is."""

from collections.abc import Sequence
from typing import Protocol

from interpose.messages import Message


class Store(Protocol):
    """Keeps threads: the messages of each, appended run by run."""

    async def load(self, thread_id: str, /) -> Sequence[Message]:
        """Return the messages of a thread, oldest first; empty where there is none."""
        ...

    async def commit(self, thread_id: str, run_id: str, messages: Sequence[Message], /) -> None:
        """Append the messages of a run, all or none; the same run twice adds nothing."""
        ...
