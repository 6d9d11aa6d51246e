"""What the server takes from Starlette, and how it refuses and answers. The one file that knows Starlette."""

from collections.abc import Mapping
from typing import Any

from interpose.errors import ConfigurationError
from interpose.text import to_json

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware as Layer
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import RedirectResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"interpose.server needs {error.name}; install the extra: pip install 'interpose[server]'"
    ) from error

JSON = "application/json"
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

__all__ = [
    "CORSMiddleware",
    "ClientDisconnect",
    "HTTPException",
    "Layer",
    "RedirectResponse",
    "Refusal",
    "Request",
    "Response",
    "Route",
    "Starlette",
    "json_response",
]


class Refusal(Exception):
    """A request that is not done: its status, a code for programs, and a text that a stranger may read."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
        self.more = more

    def body(self) -> dict[str, Any]:
        """Return what the answer says, in the shape that OpenAI's clients read too."""
        kind = KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"code": self.code, "message": self.message, "type": kind, "param": None, **self.more}}

    def response(self) -> Response:
        """Return the answer."""
        return json_response(self.body(), self.status, self.headers)


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return *data* as a JSON answer that nobody keeps."""
    return Response(to_json(data), status, {**HEADERS, **(headers or {})}, JSON)
