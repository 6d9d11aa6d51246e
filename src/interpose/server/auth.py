"""Who asks: a bearer token, or a function of one's own, turned into the owner of what is asked for."""

import hmac
from collections.abc import Mapping
from inspect import isawaitable
from typing import Any

from interpose.errors import ConfigurationError
from interpose.server.failures import error_id, logger
from interpose.server.http import Refusal, Request
from interpose.server.options import Auth

CHALLENGE = {"www-authenticate": "Bearer"}


class Gate:
    """Lets requests in, and says whose they are."""

    def __init__(self, auth: Auth | None) -> None:
        self.is_open = auth is None
        self._ask: Any = auth if callable(auth) else None
        self._tokens: tuple[tuple[bytes, str], ...] = ()
        if isinstance(auth, str):
            self._tokens = ((_token(auth), ""),)
        elif isinstance(auth, Mapping):
            if not auth:
                raise ConfigurationError("auth={} lets nobody in; give tokens and their owners, or None for everybody")
            self._tokens = tuple([(_token(token), _owner(owner)) for token, owner in auth.items()])
        elif auth is not None and self._ask is None:
            raise ConfigurationError(
                f"auth={type(auth).__name__}: expected a token, a mapping of tokens to owners, or a function of the "
                "request"
            )

    async def owner(self, request: Request) -> str:
        """Return whose request it is; empty where everybody is the same.

        Raises:
            Refusal: it may not come in.
        """
        if self.is_open:
            return ""
        if self._ask is not None:
            return await self._asked(request)
        said = set(request.headers.getlist("authorization"))
        if len(said) > 1:  # which one holds would be a guess, and another one for a proxy in between
            raise Refusal(401, "wrong_token", "there is more than one `Authorization`; send one", headers=CHALLENGE)
        given = next(iter(said), "")
        scheme, _, token = given.partition(" ")
        if not given:
            raise Refusal(401, "no_token", "a token is needed: send `Authorization: Bearer …`", headers=CHALLENGE)
        found = [owner for known, owner in self._tokens if _same(known, token.strip())]
        if scheme.lower() != "bearer" or not found:
            raise Refusal(401, "wrong_token", "this token is not known here", headers=CHALLENGE)
        return found[0]

    async def _asked(self, request: Request) -> str:
        try:
            owner = self._ask(request)
            if isawaitable(owner):
                owner = await owner
        except Refusal:
            raise
        except PermissionError:
            raise Refusal(403, "forbidden", "this is not allowed") from None
        except Exception as error:
            id = error_id("auth", id_of(error))
            logger.exception("auth failed (%s); the request was refused", id)
            raise Refusal(500, "auth_failed", f"who asks could not be found out (error id {id})") from None
        if owner is None or owner is False:
            raise Refusal(401, "not_known", "who asks is not known here", headers=CHALLENGE)
        if not isinstance(owner, str) or not owner:
            id = error_id("auth", type(owner).__name__)
            logger.error("auth returned %s (%s); expected a name, or None to refuse", type(owner).__name__, id)
            raise Refusal(500, "auth_failed", f"who asks could not be found out (error id {id})")
        return owner


def id_of(error: BaseException) -> str:
    """Return what tells one error from another."""
    return f"{id(error)}{error!r}"


def _same(known: bytes, given: str) -> bool:
    return hmac.compare_digest(known, given.encode("utf-8", "replace"))


def _token(token: Any) -> bytes:
    if not isinstance(token, str) or not token.strip() or token != token.strip():
        raise ConfigurationError("auth: a token must be a text that is not empty, without blanks around it")
    return token.encode("utf-8", "replace")


def _owner(owner: Any) -> str:
    if not isinstance(owner, str) or not owner:
        raise ConfigurationError(f"auth: the owner that a token stands for must be a name, got {owner!r}")
    return owner
