"""The chat page as Starlette routes: the page, its files, and the names of the agents."""

from collections.abc import Iterable
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from interpose.text import to_json

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Sent with every answer. The page may load, and talk to, nothing but the server that it came from."""


def routes(agents: Iterable[str]) -> list[Route]:
    """Return the routes of the chat page for agents of these names (a mapping by name will do).

    `/` leads to `/ui/`, where the page is. It and its files hold nothing that is secret, and must be reachable without a
    token: the page asks for one as soon as another address answers 401. `/ui/agents` has the names of the agents, so a
    server that keeps them from strangers guards it like the rest.
    """
    names = tuple(agents)
    known = {
        one.name: (one.read_bytes(), kind)
        for one in files("interpose.server.ui").joinpath("static").iterdir()
        if (kind := TYPES.get("." + one.name.rpartition(".")[2]))
    }

    def file(name: str) -> Response:
        if name not in known:
            raise HTTPException(404, f"the chat page has no file {name!r}")
        content, kind = known[name]
        return Response(content, media_type=kind, headers=HEADERS)

    async def root(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/ui/", 307, headers=HEADERS)

    async def page(_: Request) -> Response:
        return file("index.html")

    async def static(request: Request) -> Response:
        return file(request.path_params["name"])

    async def listed(_: Request) -> Response:
        body = to_json({"agents": [{"name": name} for name in names]})
        return Response(body, media_type="application/json", headers=HEADERS)

    return [
        Route("/", root),
        Route("/ui", root),
        Route("/ui/", page),
        Route("/ui/static/{name}", static),
        Route("/ui/agents", listed),
    ]
