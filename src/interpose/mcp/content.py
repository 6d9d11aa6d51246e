"""What a server's tool came to, as the data of a `ToolResult`."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from typing import Any

from interpose.mcp.sdk import types
from interpose.messages import AudioPart, FilePart, ImagePart, TextPart, ToolResult
from interpose.text import to_json


def result_of(answer: Any) -> ToolResult:
    """Return the SDK's answer as a result: an error stays one, and nothing that was said is lost.

    The data is structured content where the server sends it (and its text says the same, as it should), else the text,
    or parts where there is more than text.
    """
    parts = [part for block in answer.content for part in parts_of(block)]
    structured = answer.structured_content
    if structured is not None and not answer.is_error:
        rest = [part for part in parts if not _says_the_same(part, structured)]
        if not rest:
            return _result(structured, answer)
        parts = [*rest, TextPart(to_json(structured))] if len(rest) == len(parts) else parts
    if all(isinstance(part, TextPart) for part in parts):
        return _result("\n".join([part.text for part in parts]), answer)
    return _result(tuple(parts), answer)


def _result(data: Any, answer: Any) -> ToolResult:
    return ToolResult(tool_call_id="-", data=data, is_error=bool(answer.is_error))


def _says_the_same(part: Any, structured: Any) -> bool:
    """Whether a text is the structured content again, for clients that know none: as JSON, or a sole value bare."""
    if not isinstance(part, TextPart):
        return False
    try:
        said = json.loads(part.text)
    except ValueError:
        said = part.text
    if isinstance(structured, dict) and len(structured) == 1:
        (sole,) = structured.values()
        return said in (structured, sole) or part.text == sole
    return bool(said == structured)


def parts_of(block: Any) -> list[Any]:
    """Return one block of content as parts."""
    match block:
        case types.TextContent():
            return [TextPart(block.text)]
        case types.ImageContent():
            return [_media(ImagePart, block.data, block.mime_type, "picture")]
        case types.AudioContent():
            return [_media(AudioPart, block.data, block.mime_type, "recording")]
        case types.ResourceLink():
            about = "; ".join(one for one in (block.title or block.name, block.mime_type, block.description) if one)
            return [TextPart(f"[resource {block.uri}: {about}]")]
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return [TextPart(f"[resource {resource.uri}]\n{resource.text}")]
        case types.EmbeddedResource(resource=resource):
            return [_blob(resource)]
    return [TextPart(to_json(block.model_dump(mode="json", by_alias=True, exclude_none=True)))]


def _blob(resource: Any) -> Any:
    kind = resource.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return _media(ImagePart, resource.blob, kind, "picture")
    if kind.startswith("audio/"):
        return _media(AudioPart, resource.blob, kind, "recording")
    name = str(resource.uri).rstrip("/").rpartition("/")[2]
    return _media(FilePart, resource.blob, kind, "file", **({"name": name} if name else {}))


def _media(part: Any, data: str, kind: str, what: str, **more: Any) -> Any:
    """Return the part, or a note where the data is no base64: a provider would refuse the whole request for it."""
    try:
        b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return TextPart(f"[a {what} ({kind}) that cannot be read: its data is no base64]")
    return part(data=data, media_type=kind, **more)
