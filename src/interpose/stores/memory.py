"""A store in memory, for one process."""

from collections.abc import Sequence

from interpose.messages import Message


class MemoryStore:
    """Keeps threads as long as it lives."""

    def __init__(self) -> None:
        self._threads: dict[str, tuple[Message, ...]] = {}
        self._runs: dict[str, set[str]] = {}

    async def load(self, thread_id: str, /) -> Sequence[Message]:
        """Return the messages of a thread, oldest first."""
        return self._threads.get(thread_id, ())

    async def commit(self, thread_id: str, run_id: str, messages: Sequence[Message], /) -> None:
        """Append the messages of a run; the same run twice adds nothing."""
        runs = self._runs.setdefault(thread_id, set())
        if run_id not in runs:
            runs.add(run_id)
            self._threads[thread_id] = (*self._threads.get(thread_id, ()), *messages)
