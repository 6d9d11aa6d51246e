"""The chat page as routes: the page and its files. All that it shows it asks from the server's AG-UI addresses."""

from importlib.resources import files

from interpose.server.http import HTTPException, RedirectResponse, Request, Response, Route

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


def routes(_agents: object = None) -> list[Route]:
    """Return the routes of the chat page, `/ui/`, to which `/` leads.

    The page and its files hold nothing that is secret and need no token: the page asks for one as soon as an address
    of AG-UI answers 401. It learns there which agents there are.
    """
    known = {
        one.name: (one.read_bytes(), kind)
        for one in files("interpose.server.ui").joinpath("static").iterdir()
        if (kind := TYPES.get("." + one.name.rpartition(".")[2]))
    }

    def file(name: str) -> Response:
        if name not in known:
            raise HTTPException(404, f"the chat page has no file {name!r:.60}")
        content, kind = known[name]
        return Response(content, media_type=kind, headers=HEADERS)

    async def root(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/ui/", 307, headers=HEADERS)

    async def page(_: Request) -> Response:
        return file("index.html")

    async def static(request: Request) -> Response:
        return file(request.path_params["name"])

    return [
        Route("/", root, methods=["GET"]),
        Route("/ui", root, methods=["GET"]),
        Route("/ui/", page, methods=["GET"]),
        Route("/ui/static/{name}", static, methods=["GET"]),
    ]
