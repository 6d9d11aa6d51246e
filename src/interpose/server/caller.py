"""Who asks for a run, and the names under which what belongs to an owner is kept."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from interpose.server.http import Refusal

MAX_ID_CHARS = 200
_ID = re.compile(r"[^\x00-\x20\x7f\ud800-\udfff]+")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks for a run, and what came along with it; what runs have as `ctx.context` unless `context=` makes another.

    *owner* is what `auth` says, and empty where everybody is the same. *state*, *context* and *forwarded_props* are
    what an AG-UI client sent: its word, and nobody else's.
    """

    owner: str = ""
    agent: str = ""
    thread_id: str = ""
    run_id: str = ""
    state: Any = None
    context: tuple[Mapping[str, Any], ...] = ()
    forwarded_props: Any = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def kept_id(owner: str, id: str) -> str:
    """Return the name under which an owner's *id* is kept, so that nobody can name what belongs to somebody else.

    Where everybody is the same it is the id itself.
    """
    return f"{quote(owner, safe='')}:{id}" if owner else id


def told_id(owner: str, kept: str) -> str:
    """Return the id that the owner knows of one that is kept."""
    return kept.removeprefix(f"{quote(owner, safe='')}:") if owner else kept


def checked_id(id: Any, what: str) -> str:
    """Return *id* as it is.

    Raises:
        Refusal: it is no text, empty, too long, or has blanks or control characters in it.
    """
    if not isinstance(id, str) or len(id) > MAX_ID_CHARS or _ID.fullmatch(id) is None:
        raise Refusal(
            422, "bad_id", f"{what} must be a text of 1 to {MAX_ID_CHARS} characters, without blanks, got {id!r:.60}"
        )
    return id
