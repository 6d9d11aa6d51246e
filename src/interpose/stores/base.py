"""What a store is: it keeps threads, the checkpoints of runs that are under way or wait, and a key."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from interpose.checkpoint import Checkpoint
from interpose.messages import Message


class Store(Protocol):
    """Keeps what outlives a run. Each method is one act: all of it holds, or none.

    What goes in is copied, what comes out is the caller's own. Everything is JSON; types are never chosen by data.
    `interpose.testing.store_contract` tests a store of one's own.
    """

    # Threads.

    async def load(self, thread_id: str, /, *, after: int = 0, limit: int | None = None) -> Sequence[Message]:
        """Return the messages of a thread, oldest first; empty where there is none.

        Skips the first *after* messages, and returns *limit* at most. Below 0, *after* counts from the end: `after=-20`
        gives the last 20. A thread is only ever appended to, so these places are stable.
        """
        ...

    async def commit(
        self,
        thread_id: str,
        run_id: str,
        messages: Sequence[Message],
        /,
        *,
        expected: int | None = None,
        checkpoint: Checkpoint | None = None,
        replaces: str | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Append the messages of a run to its thread, and end the run's checkpoint; the same run twice changes nothing.

        *expected* is how many messages the thread had when the run loaded it. *checkpoint*, a whole one, takes the
        place of the run's parts, for a run that may still be gone on with; without it they are dropped. *replaces* is a
        run that this one has settled without a checkpoint of its own: it is dropped in the same act. *state* becomes
        the state of the thread.

        Raises:
            ThreadConflict: the thread has more messages, or fewer, than *expected*.
            ResumeError: the run in *replaces* is not there (any more).
        """
        ...

    async def fork(self, thread_id: str, message_id: str, /) -> str:
        """Return the id of a new thread that holds this one up to and including a message, and its state.

        Raises:
            LookupError: the thread has no such message.
        """
        ...

    async def load_state(self, thread_id: str, /) -> dict[str, Any]:
        """Return the state of a thread; empty where there is none."""
        ...

    async def save_state(self, thread_id: str, state: Mapping[str, Any], /) -> None:
        """Keep *state* for a thread, in place of what was there; the thread need not have messages yet."""
        ...

    # Checkpoints.

    async def put(self, checkpoint: Checkpoint, /, *, replaces: str | None = None, at: int | None = None) -> None:
        """Append a part of a run's checkpoint; the same part twice changes nothing.

        `part` 0 begins it. A resumed run begins with the whole of what it goes on from, under its own run id, and names
        the old run in *replaces*, which is dropped in the same act: that is what makes a resumption happen once. *at*
        is the last part of the old run that it has read.

        Raises:
            ResumeError: the run in *replaces* is not there (any more), or has got further than *at*; or this run is
                not there, though `part` is above 0, since it was dropped or gone on with elsewhere; or another writer
                has put another such part.
        """
        ...

    async def get(self, run_id: str, /) -> Checkpoint | None:
        """Return all parts of a run's checkpoint as one, made with `Checkpoint.fold`; None where there is none.

        Of a run that was gone on with it is the checkpoint of the run that took its place, under the id of that.

        Raises:
            ResumeError: what is stored is damaged, or of a newer release.
        """
        ...

    async def claim(self, run_id: str, ttl_s: float, /) -> bool:
        """Take a run's checkpoint for oneself; False where it is taken, or not there. Lapses after *ttl_s* seconds."""
        ...

    async def release(self, run_id: str, /) -> None:
        """Give back a claim that was made through this store object; others', and none, are left alone."""
        ...

    async def drop(self, run_id: str, /) -> None:
        """Forget a run's checkpoint and the claim on it; harmless where there is none."""
        ...

    async def paused(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for answers, of one thread or of all, by `created_at`.

        Of all, those that cannot be read are left out.

        Raises:
            ResumeError: one of this thread is damaged, or of a newer release.
        """
        ...

    async def unfinished(self, thread_id: str | None = None, /) -> Sequence[Checkpoint]:
        """Return the checkpoints that wait for nothing, by `created_at`: of runs under way, killed or failed.

        As with `paused`, of one thread or of all.
        """
        ...

    # The key.

    async def key(self) -> bytes:
        """Return 32 random bytes, made at the first call and then kept, to seal what travels through a client."""
        ...
