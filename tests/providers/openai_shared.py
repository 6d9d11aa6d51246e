"""What OpenAI's two APIs have in common: headers, names, refusals, pieces of text."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tests.providers.wire_server import Asked, Reply, event, json_reply

from interpose.errors import AuthFailed, BadRequest, ContextTooLong, ProviderDown, ProviderError, RateLimited
from interpose.testing.model_contract import Call, Heard, Refusal, Said

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/]+=*)")

# Recorded shapes of refusals: (status, type, code).
REFUSALS: dict[type[ProviderError], tuple[int, str, str | None]] = {
    RateLimited: (429, "requests", "rate_limit_exceeded"),
    ContextTooLong: (400, "invalid_request_error", "context_length_exceeded"),
    AuthFailed: (401, "invalid_request_error", "invalid_api_key"),
    BadRequest: (400, "invalid_request_error", None),
    ProviderDown: (503, "server_error", None),
}


def head_problems(asked: Asked, path: str) -> list[str]:
    problems = []
    if (asked.method, asked.path) != ("POST", path):
        problems.append(f"no such place: {asked.method} {asked.path}")
    if not re.fullmatch(r"Bearer \S+", asked.headers.get("authorization", "")):
        problems.append("no bearer token")
    if asked.headers.get("content-type") != "application/json":
        problems.append(f"content-type {asked.headers.get('content-type')}")
    return problems


def tool_problems(functions: Iterable[Mapping[str, Any]], choice: Any, body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the tools on offer; *choice* is the name that is forced, if one is."""
    names = [function["name"] for function in functions]
    problems = [f"tool name {name!r}" for name in names if not NAME.fullmatch(name)]
    if len(set(names)) < len(names):
        problems.append(f"tool names occur twice: {names}")
    if choice is not None and choice not in names:
        problems.append(f"tool_choice {choice!r} is not among the tools")
    if not body.get("tools"):
        problems += [f"{field} without tools" for field in ("tool_choice", "parallel_tool_calls") if field in body]
        if "tools" in body:
            problems.append("tools is empty")
    return problems


def schema_problems(name: str, schema: Any, is_strict: Any) -> list[str]:
    problems = [] if NAME.fullmatch(name) else [f"schema name {name!r}"]
    if not isinstance(schema, dict) or schema.get("type") != "object":
        problems.append(f"the schema must be an object, got {schema}")
    elif is_strict and (
        schema.get("additionalProperties") is not False
        or set(schema.get("required", ())) != set(schema.get("properties", ()))
    ):
        problems.append("a strict schema must be closed and require all its properties")
    return problems


def image_turn(url: str) -> tuple[str, str | None, str]:
    data = DATA_URL.fullmatch(url)
    if data:
        return ("image", data[1], data[2])
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"no picture: {url[:60]}")
    return ("image", None, url)


def pieces_of(said: Said) -> list[str]:
    """Return the deltas of a text, two where nothing is said about them."""
    middle = len(said.text) // 2
    return [piece for piece in said.pieces or (said.text[:middle], said.text[middle:]) if piece]


def whole(said: Said) -> str:
    text = "".join(said.pieces) or said.text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def halves(call: Call) -> list[str]:
    middle = len(call.args) // 2
    return [piece for piece in (call.args[:middle], call.args[middle:]) if piece]


def error_body(refusal: Refusal) -> dict[str, Any]:
    _, kind, code = REFUSALS[refusal.kind]
    return {"message": refusal.message, "type": kind, "param": None, "code": code}


def refused(refusal: Refusal, heard: Heard, said: bytes, inside: bytes | None = None) -> Reply:
    """Return a refusal, or, where it comes inside a stream, *said* and then the error."""
    headers = {"x-request-id": refusal.request_id} if refusal.request_id else {}
    if refusal.retry_after is not None:
        headers["retry-after"] = refusal.retry_after
    if refusal.after and heard.is_stream:
        error = inside if inside is not None else event({"error": error_body(refusal)})
        return Reply(content_type="text/event-stream; charset=utf-8", payload=said + error, headers=headers)
    return json_reply({"error": error_body(refusal)}, REFUSALS[refusal.kind][0], headers=headers)
