"""Who may look: the right host and origin, `GET` alone, and a token where one is asked for."""

import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from interpose.text import to_json

Message = Mapping[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

WILDCARDS = ("0.0.0.0", "::", "")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Sent with every answer."""


class Guard:
    """An ASGI application that lets through to *app* what may see the page.

    *host* is the name that was given to listen at. A page of another site cannot get through: a name that it lets
    point here is no known host, and what it asks for by the right name has its own origin.
    """

    def __init__(self, app: App, host: str, token: str | None = None) -> None:
        self._app = app
        self._host = _plain(host)
        self._token = token
        self._cookie = None if token is None else _derived(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        else:
            status, text, more = refusal
            body = to_json({"error": text}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
            await send({"type": "http.response.start", "status": status, "headers": [*headers, *HEADERS]})
            await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self._is_known(hosts[0]):
            return 403, f"this page answers to {self._host} and to loopback names alone", []
        for origin in _values(scope, b"origin"):
            if origin.lower() not in (f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"):
                return 403, "pages of other origins may not read this one", []
        if scope["path"].startswith("/api/") and _values(scope, b"sec-fetch-site")[:1] in (
            ["cross-site"],
            ["same-site"],
        ):
            return 403, "pages of other sites may not read this one", []
        if scope["method"] != "GET":
            return 405, f"only GET is served, not {scope['method']}", [(b"allow", b"GET")]
        return self._without_token(scope) if self._token is not None else None

    def _is_known(self, host: str) -> bool:
        name = _plain(_without_port(host))
        if not name:
            return False
        if name in (self._host, "localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self._host in WILDCARDS  # no other site can be reached by a bare address

    def _without_token(self, scope: Scope) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Let in who has the token as cookie or header; who brings it in the address is given the cookie."""
        token, cookie = str(self._token), str(self._cookie)
        if any(_same(given, f"Bearer {token}") for given in _values(scope, b"authorization")):
            return None
        name = cookie_name(scope)
        if any(_same(given, cookie) for given in _cookies(scope, name)):
            return None
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if len(asked) == 1 and _same(asked[0], token):
            here = (b"location", b"./")
            kept = f"{name}={cookie}; HttpOnly; SameSite=Strict; Path=/".encode()
            return 303, "the token is right", [here, (b"set-cookie", kept)]
        return 401, "a token is needed: open the page once as /?token=…", [(b"www-authenticate", b"Bearer")]


def cookie_name(scope: Scope) -> str:
    """Return the cookie's name; cookies do not know ports, so several pages on one machine need several names."""
    server = scope.get("server") or ("", 0)
    return f"interpose_flow_{server[1]}"


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in HEADERS if name not in own]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return send_with_headers


def _derived(token: str) -> str:
    """Return what the cookie holds: made from the token, and of no use anywhere else."""
    return hmac.new(token.encode(), b"interpose flow cookie", hashlib.sha256).hexdigest()


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _cookies(scope: Scope, name: str) -> list[str]:
    found = []
    for value in _values(scope, b"cookie"):
        try:
            cookie = SimpleCookie(value)
        except CookieError:
            continue
        found += [cookie[name].value] if name in cookie else []
    return found


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()
