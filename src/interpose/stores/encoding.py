"""Messages and states as the JSON texts that stores keep."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from interpose.checkpoint import Checkpoint
from interpose.errors import ResumeError, StoreError
from interpose.messages import Message
from interpose.text import to_json

logger = logging.getLogger("interpose")

_messages = msgspec.json.Decoder(tuple[Message, ...])
_state = msgspec.json.Decoder(dict[str, Any])


def read_messages(thread_id: str, texts: Sequence[str]) -> tuple[Message, ...]:
    """Return the messages that *texts* describe, in one pass.

    Raises:
        StoreError: one is damaged.
    """
    if not texts:
        return ()
    try:
        return _messages.decode(f"[{','.join(texts)}]")
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreError(f"thread {thread_id!r} holds something that is no message: {error}") from error


def read_state(thread_id: str, text: str | None) -> dict[str, Any]:
    """Return the state that *text* describes.

    Raises:
        StoreError: it is damaged.
    """
    try:
        return {} if text is None else _state.decode(text)
    except msgspec.DecodeError as error:
        raise StoreError(f"the state of thread {thread_id!r} is damaged: {error}") from error


def write_state(state: Mapping[str, Any]) -> str:
    """Return *state* as JSON text."""
    return to_json(dict(state))


def read_checkpoint(run_id: str, texts: Sequence[str]) -> Checkpoint | None:
    """Return the checkpoint whose parts *texts* describe; None where there are none.

    Raises:
        ResumeError: one is damaged, or of a newer release.
    """
    if not texts:
        return None
    try:
        return Checkpoint.fold([Checkpoint.from_json(text) for text in texts])
    except ResumeError as error:
        raise ResumeError(f"run {run_id!r} cannot be gone on with: {error}") from error


def read_runs(rows: Iterable[tuple[str, str]], thread_id: str | None) -> list[Checkpoint]:
    """Return the checkpoints of *rows*, pairs of run id and part, those of a run next to each other.

    Where they are of all threads, a run that cannot be read must not hide the others: it is logged and left out.

    Raises:
        ResumeError: they are of one thread, and one is damaged, or of a newer release.
    """
    read = []
    for run_id, group in groupby(rows, lambda row: row[0]):
        try:
            read.append(read_checkpoint(run_id, [text for _, text in group]))
        except ResumeError as error:
            if thread_id is not None:
                raise
            logger.warning("left out of the runs of the store: %s", error)
    return [one for one in read if one is not None]
