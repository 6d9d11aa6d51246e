"""Bodies of requests: JSON, of a size that was agreed on, in good time."""

import asyncio
import re
from typing import Any, TypeVar

import msgspec

from interpose.server.http import Refusal, Request
from interpose.server.options import Options

T = TypeVar("T")
LONE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Escapes in JSON, of which the group is half of a character, as of an emoji that was cut. U+FFFD stands for it."""
DRAINED_BYTES = 256_000_000
"""So much of a body that is too large is thrown away before the answer, since many clients read only after writing."""


async def read_json(request: Request, options: Options) -> Any:
    """Return what the body of a request says.

    Raises:
        Refusal: it is of another type, too large, too slow, or no JSON.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        got = f"got {kind[:60]!r}" if kind else "there is none"
        raise Refusal(415, "not_json", f"send JSON, with `Content-Type: application/json`; {got}")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal(415, "encoded", "send the body as it is, without a content encoding")
    try:
        async with asyncio.timeout(options.body_timeout_s):
            body = await _read(request, options.max_body_bytes)
    except TimeoutError:
        raise Refusal(
            408,
            "too_slow",
            f"the body did not come within {options.body_timeout_s:g} s",
            headers={"connection": "close"},
        ) from None
    try:
        return _decoded(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "bad_json", f"the body is no JSON: {error}") from None


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        if b"surrogate" not in str(error).encode() or (clean := LONE.sub(_whole, body)) == body:
            raise
        return msgspec.json.decode(clean)


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape[1] else escape[0]


async def _read(request: Request, most: int) -> bytes:
    stated = request.headers.get("content-length", "")
    too_large = Refusal(
        413, "too_large", f"the body is larger than {most} bytes", headers={"connection": "close"}, max_bytes=most
    )
    if stated.isdecimal() and int(stated) > DRAINED_BYTES:
        raise too_large
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > DRAINED_BYTES:
            raise too_large
        if size <= most:
            parts.append(part)
        else:
            parts.clear()
    if size > most:
        raise too_large
    return b"".join(parts)


def convert(data: Any, kind: type[T], what: str) -> T:
    """Return *data* as a value of *kind*.

    Raises:
        Refusal: a field is missing, or of the wrong type; says which.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise Refusal(422, "bad_input", f"this is no {what}: {error}") from None
