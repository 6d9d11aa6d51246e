"""From where requests may come: under names that this server has, and not from pages of other sites."""

from typing import Any
from urllib.parse import urlsplit

from interpose.server.http import Refusal

SAFE = ("GET", "HEAD", "OPTIONS")


class Door:
    """Refuses what a page of another site sends, since a browser would add what its user may do.

    *hosts* are the names that the server answers to, all where there are none: a site may let a name of its own point
    at this machine, and its pages would then be of the same origin.
    """

    def __init__(self, app: Any, origins: tuple[str, ...], hosts: tuple[str, ...]) -> None:
        self._app = app
        self._origins = origins
        self._hosts = tuple([one.lower() for one in hosts])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer, or hand on."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal.response()(scope, receive, send)

    def _refusal(self, scope: Any) -> Refusal | None:
        headers = dict(scope["headers"])
        here = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts and _name(here) not in self._hosts:
            return Refusal(403, "other_host", "this server does not answer to that name")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin or scope["method"] in SAFE or {"*", origin} & set(self._origins):
            return None
        if _netloc(origin) == here:
            return None
        return Refusal(403, "other_origin", "pages of this origin may not use this server; it can be allowed them")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name(host: str) -> str:
    return host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
