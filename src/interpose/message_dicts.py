"""Messages as dicts: our own JSON, and the shape of OpenAI's Chat Completions, which most histories are kept in.

Source: the message schemas of the Chat Completions API, read 2026-11.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from interpose.ids import create_id
from interpose.messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from interpose.text import clean, readable


def message_from_dict(given: Mapping[str, Any]) -> Message:
    """Return the message that *given* describes.

    Raises:
        ValueError: it lacks what its role needs, or something in it is of the wrong kind.
    """
    if "content" not in given and ("text" in given or "parts" in given):
        return _own_json(given)
    for key in ("id", "name", "tool_call_id", "reasoning", "reasoning_content"):
        if not isinstance(given.get(key), str | None):
            raise ValueError(f"{key!r} of a message must be a text, got {given[key]!r:.80}")
    try:
        return _from_openai(given)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this dict is no message: {error!r}: {given!r:.120}") from error


def _from_openai(given: Mapping[str, Any]) -> Message:
    common: dict[str, Any] = {"metadata": given.get("metadata")}
    if given.get("id"):
        common["id"] = given["id"]
    content = given.get("content")
    match role := given.get("role"):
        case "system" | "developer":
            return SystemMessage(_plain(content), **common)
        case "user":
            parts = _content_parts(content)
            text = "" if parts else clean(content or "")
            return UserMessage(text, parts=parts, name=given.get("name"), **common)
        case "assistant":
            calls = tuple(_call_from_dict(call) for call in given.get("tool_calls") or ())
            reasoning = given.get("reasoning") or given.get("reasoning_content")
            return AssistantMessage(_plain(content), reasoning=reasoning, tool_calls=calls, **common)
        case "tool":
            parts = _content_parts(content)
            text = "" if parts else _plain(content)
            error = bool(given.get("is_error"))
            return ToolMessage(text, given.get("tool_call_id") or "", error, given.get("name"), parts, **common)
    raise ValueError(f"a message's role must be system, developer, user, assistant or tool, got {role!r}")


def _own_json(given: Mapping[str, Any]) -> Message:
    try:
        return msgspec.convert(dict(given), Message)  # type: ignore[no-any-return]  # a union of structs
    except msgspec.ValidationError as error:
        raise ValueError(f"this dict is no message: {error}: {given!r:.120}") from error


def _plain(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, Sequence):
        return "".join(clean(str(part.get("text") or part.get("refusal") or "")) for part in content)
    return readable(content)


MediaT = TypeVar("MediaT", ImagePart, FilePart)


def _content_parts(content: Any) -> tuple[Any, ...]:
    if content is None or isinstance(content, str):
        return ()
    if not isinstance(content, Sequence):
        raise ValueError(f"a message's content must be text or a list of parts, got {type(content).__name__}")
    return tuple(_part_from_dict(part) for part in content)


def _part_from_dict(part: Any) -> Part:
    if isinstance(part, Part):
        return part
    if isinstance(part, str):
        return TextPart(clean(part))
    match part.get("type"):
        case "text" | "input_text":
            return TextPart(clean(part["text"]))
        case "image_url":
            image = part["image_url"]
            return _media(ImagePart, image["url"] if isinstance(image, Mapping) else image)
        case "input_audio":
            audio = part["input_audio"]
            return AudioPart(data=audio["data"], media_type=f"audio/{audio['format']}")
        case "file" if isinstance(part.get("file"), Mapping):
            file = part["file"]
            if file.get("file_id"):
                return FilePart(file_id=file["file_id"], name=file.get("filename"))
            return _media(FilePart, file["file_data"], name=file.get("filename"))
        case "image" | "audio" | "file" | "provider":
            return msgspec.convert(dict(part), Part)  # type: ignore[no-any-return]  # a union of structs
    raise ValueError(f"unknown content part of type {part.get('type')!r}; known: text, image_url, input_audio, file")


def _media(kind: type[MediaT], url: str, **more: Any) -> MediaT:
    if url.startswith("data:") and ";base64," in url:
        head, _, data = url.partition(";base64,")
        return kind(data=data, media_type=head.removeprefix("data:"), **more)
    return kind(url=url, **more)


def _call_from_dict(call: Mapping[str, Any]) -> ToolCall:
    if "function" in call:
        function = call["function"]
        call_id, name = call.get("id") or create_id("call"), function.get("name") or ""
        if not (isinstance(call_id, str) and isinstance(name, str)):
            raise ValueError(f"id and name of a tool call must be texts, got {call_id!r:.80} and {name!r:.80}")
        own = {key: call[key] for key in ("idempotency_key", "edited_by") if call.get(key)}
        return ToolCall(call_id, name, function.get("arguments"), **own)
    return msgspec.convert(dict(call), ToolCall)
