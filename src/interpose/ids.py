"""Identifiers: unguessable ones for runs and threads, cheap ones for what lives within them."""

import itertools
import os

_counter = itertools.count()
_prefix = os.urandom(6).hex()


def _new_prefix() -> None:
    global _prefix
    _prefix = os.urandom(6).hex()


os.register_at_fork(after_in_child=_new_prefix)


def create_id(prefix: str) -> str:
    """Return an id that begins with *prefix* and is unique across processes.

    It is 48 random bits of this process and a counter: a fifth of the cost of a UUID, and not meant to be unguessable.
    """
    return f"{prefix}_{_prefix}{next(_counter):x}"


def random_id(prefix: str) -> str:
    """Return an id that begins with *prefix* and holds 96 random bits."""
    return f"{prefix}_{os.urandom(12).hex()}"


def message_id() -> str:
    """Return a fresh message id."""
    return f"msg_{_prefix}{next(_counter):x}"
