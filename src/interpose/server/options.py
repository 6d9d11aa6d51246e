"""What can be set of a server."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from interpose.errors import ConfigurationError
from interpose.server.caller import Caller
from interpose.server.failures import ShownError
from interpose.server.http import Request

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", re.IGNORECASE)
_HOST = re.compile(r"\[[0-9a-fA-F:.%]+\]|[^:/?#@\s]+")

Auth = str | Mapping[str, str] | Callable[[Request], str | Awaitable[str | None] | None]
"""One token for all, tokens with the owner that each stands for, or what returns the owner of a request."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The settings of `create_app`; times are in seconds.

    *on_disconnect* says what becomes of a run whose last reader leaves: it goes on, or it is cancelled once nobody has
    come back for *disconnect_grace_s*. *client_system_messages* and *client_tools* let clients give instructions, and
    tools that they run themselves. *max_runs* is how many runs one worker has at once, *max_runs_per_owner* how many of
    one owner. *keep_s* is how long the events of a run that ended can still be read. *shutdown_s* is how long runs may
    go on when the server is asked to end. *origins* are the sites whose pages may talk to the server, as
    `https://app.example`; `*` stands for all. *hosts* are the names that it answers to, all where none is given.
    *context* makes the run's `ctx.context` from the caller, *show_error* the text that clients read of what failed.
    """

    on_disconnect: Literal["continue", "cancel"] = "continue"
    disconnect_grace_s: float = 0.0
    client_system_messages: bool = False
    client_tools: bool = False
    max_body_bytes: int = 4_000_000
    body_timeout_s: float = 30.0
    max_runs: int = 1000
    max_runs_per_owner: int | None = None
    heartbeat_s: float = 15.0
    send_timeout_s: float = 30.0
    keep_s: float = 3600.0
    shutdown_s: float = 30.0
    origins: Sequence[str] = ()
    hosts: Sequence[str] = ()
    context: Callable[[Caller], Any] | None = None
    show_error: Callable[[ShownError], str] | None = None

    def __post_init__(self) -> None:
        """Check what was given.

        Raises:
            ConfigurationError: a value makes no sense; says which and what was expected.
        """
        if self.on_disconnect not in ("continue", "cancel"):
            raise ConfigurationError(f"on_disconnect={self.on_disconnect!r}: expected 'continue' or 'cancel'")
        for name in ("max_body_bytes", "body_timeout_s", "max_runs", "heartbeat_s", "send_timeout_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigurationError(f"{name}={value!r}: expected a number above 0")
        for name in ("disconnect_grace_s", "keep_s", "shutdown_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ConfigurationError(f"{name}={value!r}: expected a number of seconds")
        for name in ("origins", "hosts"):
            if isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: expected a list of them")
        for one in map(str, self.origins):
            if one not in ("*", "null") and _ORIGIN.fullmatch(one) is None:
                raise ConfigurationError(f"origins: {one!r} is none; browsers send 'https://app.example'")
        for one in map(str, self.hosts):
            if _HOST.fullmatch(one) is None:
                raise ConfigurationError(f"hosts: {one!r} is none; expected a name without a port, as 'app.example'")
        for name in ("context", "show_error"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise ConfigurationError(f"{name}={value!r}: expected a function")


def options_of(given: Mapping[str, Any]) -> Options:
    """Return what keywords of `create_app` say.

    Raises:
        ConfigurationError: a name is unknown, or a value makes no sense.
    """
    known = [one.name for one in fields(Options)]
    if unknown := sorted(set(given) - set(known)):
        raise ConfigurationError(f"create_app() has no option {unknown[0]!r}; there are: {', '.join(known)}")
    return Options(**given)
