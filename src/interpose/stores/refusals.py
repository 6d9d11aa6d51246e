"""What every store says when it refuses."""

from interpose.errors import ResumeError, ThreadConflict


def conflict(thread_id: str, expected: int, found: int) -> ThreadConflict:
    """Return the error of a run whose thread was extended meanwhile."""
    return ThreadConflict(
        f"thread {thread_id!r} had {expected} messages when this run loaded it and has {found} now, so another run was "
        "on it; nothing of this run was stored: run it again on the thread as it is"
    )


def used_up(run_id: str) -> ResumeError:
    """Return the error of a resumption that came too late."""
    return ResumeError(f"run {run_id!r} is not there to be resumed: it was resumed already, has ended, or never began")


def went_on(run_id: str) -> ResumeError:
    """Return the error of a resumption of a run that is not dead."""
    return ResumeError(f"run {run_id!r} has gone on since it was read, so another process is at it; nothing changed")


def lost(run_id: str) -> ResumeError:
    """Return the error of a writer whose run is no longer its own."""
    return ResumeError(
        f"run {run_id!r} has no checkpoint any more: it was resumed by another process, or dropped, so it ends here"
    )


def in_use(run_id: str, part: int) -> ResumeError:
    """Return the error of a writer who is not alone."""
    return ResumeError(
        f"part {part} of run {run_id!r} is there already with other content: two runs write under one run id; "
        "give each run an id of its own, or resume the one that waits"
    )


def no_message(thread_id: str, message_id: str) -> LookupError:
    """Return the error of a fork at a message that is not there."""
    return LookupError(f"thread {thread_id!r} has no message {message_id!r} to fork at")
