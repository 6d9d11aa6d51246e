"""Messages in the form of Chat Completions."""

import mimetypes
from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from interpose.errors import BadRequest
from interpose.messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from interpose.models.openai.dialect import Dialect
from interpose.models.openai.extras import put_back
from interpose.models.wire_names import wire_id, wire_name
from interpose.request import ModelRequest
from interpose.text import to_json

MAX_ID_LENGTH = 40  # of ids of calls, as the API says when it refuses one, 2026-11
AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}  # where the subtype is not the API's word


def wire_messages(
    request: ModelRequest, instructions: str, names: Mapping[str, str], dialect: Dialect
) -> list[dict[str, Any]]:
    """Return *instructions* and the messages of *request* as the API takes them.

    A tool's answer holds text only, and answers of one step stand together: pictures and other parts of answers follow
    them in a user message.
    """
    wire: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    shown: list[dict[str, Any]] = []
    for message in request.messages:
        if shown and not isinstance(message, ToolMessage):
            wire.append({"role": "user", "content": shown})
            shown = []
        match message:
            case SystemMessage():
                wire.append({"role": "system", "content": message.text})
            case UserMessage():
                wire.append(_user(message, request))
            case AssistantMessage():
                wire.append(_assistant(message, request, names, dialect))
            case ToolMessage():
                id = wire_id(message.tool_call_id, MAX_ID_LENGTH)
                wire.append({"role": "tool", "tool_call_id": id, "content": message.text})
                shown += _shown(message, request)
            case _:
                assert_never(message)
    return [*wire, {"role": "user", "content": shown}] if shown else wire


def _user(message: UserMessage, request: ModelRequest) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "user", "content": message.text}
    if message.parts:
        wire["content"] = _parts(message.parts, request) or message.text
    if message.name:
        wire["name"] = wire_name(message.name)
    return wire


def _shown(message: ToolMessage, request: ModelRequest) -> list[dict[str, Any]]:
    """Return the parts of a tool's answer that are no text, under a line that says whose they are."""
    parts = _parts([part for part in message.parts if not isinstance(part, TextPart)], request)
    said = {
        "type": "text",
        "text": f"Belongs to the result of the tool call {wire_id(message.tool_call_id, MAX_ID_LENGTH)}:",
    }
    return [said, *parts] if parts else []


def _assistant(
    message: AssistantMessage, request: ModelRequest, names: Mapping[str, str], dialect: Dialect
) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.tool_calls:
        wire["content"] = message.text or None
        wire["tool_calls"] = [_call(call, names) for call in message.tool_calls]
    if dialect.send_reasoning and message.reasoning:
        wire[dialect.reasoning_field] = message.reasoning
    own = [part for part in message.parts if isinstance(part, ProviderPart) and _is_own(part, request)]
    if own:
        put_back(wire, own, dialect.keep_extras)
    return wire


def _call(call: ToolCall, names: Mapping[str, str]) -> dict[str, Any]:
    # Broken arguments are sent inside an object: servers that read the history refuse anything else.
    args = call.args_json if call.error is None else to_json({"invalid_arguments": call.args_json})
    name = names.get(call.name) or wire_name(call.name)
    return {"id": wire_id(call.id, MAX_ID_LENGTH), "type": "function", "function": {"name": name, "arguments": args}}


def _is_own(part: ProviderPart, request: ModelRequest) -> bool:
    return part.provider in ("", request.provider) and isinstance(part.data, Mapping)


def _parts(parts: Iterable[Any], request: ModelRequest) -> list[dict[str, Any]]:
    return [wire for part in parts if (wire := _part(part, request)) is not None]


def _part(part: Any, request: ModelRequest) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart(file_id=None):
            return {"type": "image_url", "image_url": {"url": part.url or data_url(part)}}
        case AudioPart(data=str()):
            subtype = _plain_type(part).partition("/")[2]
            return {
                "type": "input_audio",
                "input_audio": {"data": part.data, "format": AUDIO_FORMATS.get(subtype, subtype)},
            }
        case FilePart(data=str()):
            return {"type": "file", "file": {"filename": part.name or file_name(part), "file_data": data_url(part)}}
        case ImagePart(file_id=str()) | FilePart(file_id=str()):
            return {"type": "file", "file": {"file_id": part.file_id}}
        case ProviderPart():
            return dict(part.data) if _is_own(part, request) else None
        case ReasoningPart() | ToolCall():
            return None
    given = "a url" if part.url is not None else "a file_id"
    raise BadRequest(
        f"Chat Completions takes no {type(part).__name__} with {given}; give data= (base64) and media_type=",
        provider=request.provider,
        model=request.model,
    )


def data_url(part: Any) -> str:
    """Return the base64 data of *part* as a `data:` address."""
    return f"data:{part.media_type};base64,{part.data}"


def file_name(part: Any) -> str:
    """Return a name for a file that has none, by its media type: the API goes by what it ends with."""
    kind = _plain_type(part)
    return f"file{mimetypes.guess_extension(kind) or '.' + (kind.partition('/')[2] or 'bin')}"


def _plain_type(part: Any) -> str:
    """Return the media type of *part* without its parameters, as in `audio/wav;rate=16000`."""
    return str(part.media_type or "").partition(";")[0].strip().lower()
