"""Messages in the form of Responses: one list of items."""

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
from interpose.models.openai.history import data_url, file_name
from interpose.models.openai.responses.reasoning import TYPE, item_of
from interpose.models.wire_names import wire_id, wire_name
from interpose.request import ModelRequest
from interpose.text import to_json

MESSAGE_NOTE, CALL_NOTE = "message", "function_call"
"""Types of parts that say more about the text or the call before them, and are no item by themselves."""
NOTE_FIELDS = {MESSAGE_NOTE: ("phase",), CALL_NOTE: ("namespace", "caller", "async")}
"""What of such a part goes back; its id does too, behind the reasoning that it belongs to."""


def wire_input(request: ModelRequest, names: Mapping[str, str], stored: bool) -> list[dict[str, Any]]:
    """Return the messages of *request* as items; *stored* says that the server knows its own items by their ids."""
    items: list[dict[str, Any]] = []
    for message in request.messages:
        match message:
            case SystemMessage():
                items.append({"role": "system", "content": message.text})
            case UserMessage():
                items += _asked(message, request)
            case AssistantMessage():
                items += _said(message, request, names, stored)
            case ToolMessage():
                items.append(_result(message, request))
            case _:
                assert_never(message)
    return items


def _asked(message: UserMessage, request: ModelRequest) -> list[dict[str, Any]]:
    """Return what a person said, after the items of the vendor's own that came with it, such as an approval."""
    contents = _contents(message.parts, request)
    own = [one for one in contents if not str(one.get("type")).startswith("input_")]
    said = [one for one in contents if one not in own]
    return own if own and not said else [*own, {"role": "user", "content": said or message.text}]


def _result(message: ToolMessage, request: ModelRequest) -> dict[str, Any]:
    shown = [part for part in message.parts if not isinstance(part, ProviderPart)]
    is_plain = all(isinstance(part, TextPart) for part in shown)
    output: Any = message.text if is_plain else _contents(shown, request)
    return {"type": "function_call_output", "call_id": wire_id(message.tool_call_id), "output": output}


def _said(
    message: AssistantMessage, request: ModelRequest, names: Mapping[str, str], stored: bool
) -> list[dict[str, Any]]:
    """Return the items of an answer.

    A server refuses an item by its id where the reasoning before it is gone, as a layer may have cut it, and reasoning
    that is not followed by its item. So ids go back right behind reasoning only, and reasoning that nothing follows
    stays behind.
    """
    items: list[dict[str, Any]] = []
    for part in message.content():
        match part:
            case ReasoningPart():
                item = item_of(part.text, part.signature, request.provider)
                if item is not None and (stored or item.get("encrypted_content") or item.get("content")):
                    items.append(item)
            case TextPart():
                if part.text:
                    items.append(_answer(part.text))
            case ToolCall():
                items.append(_call(part, names))
            case ProviderPart(provider=provider, data=data):
                if provider in ("", request.provider) and isinstance(data, Mapping):
                    _put_back(items, data)
            case ImagePart() | AudioPart() | FilePart():
                pass  # no vendor says these, and no server takes them of an answer
    while items and items[-1].get("type") == TYPE:
        items.pop()
    return items or [_answer(message.text)]


def _answer(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text}


def _call(call: ToolCall, names: Mapping[str, str]) -> dict[str, Any]:
    # Broken arguments are sent inside an object: servers that read the history refuse anything else.
    args = call.args_json if call.error is None else to_json({"invalid_arguments": call.args_json})
    name = names.get(call.name) or wire_name(call.name)
    return {"type": "function_call", "call_id": wire_id(call.id), "name": name, "arguments": args}


def _put_back(items: list[dict[str, Any]], data: Mapping[str, Any]) -> None:
    """Put a part of the vendor's own back: as an item, or, where it only says more about one before, into that."""
    kind = data.get("type")
    if kind not in NOTE_FIELDS:
        items.append(dict(data))
        return
    place = _place_of(items, data)
    if place is None:
        return
    item = items[place]
    item.update({field: data[field] for field in NOTE_FIELDS[kind] if data.get(field) is not None})
    if data.get("id") and place and items[place - 1].get("type") == TYPE:
        item["id"] = data["id"]
        if kind == MESSAGE_NOTE:
            text = {"type": "output_text", "text": item["content"], "annotations": []}
            item.update(status="completed", content=[text])


def _place_of(items: list[dict[str, Any]], note: Mapping[str, Any]) -> int | None:
    """Return where the item stands that *note* is about: the last one of its type, of calls the one with its id."""
    kind = note["type"]
    places = [place for place in range(len(items) - 1, -1, -1) if items[place].get("type") == kind]
    call_id = wire_id(note["call_id"]) if note.get("call_id") else None
    return next((place for place in places if items[place].get("call_id") == call_id), next(iter(places), None))


def _contents(parts: Iterable[Any], request: ModelRequest) -> list[dict[str, Any]]:
    return [wire for part in parts if (wire := _content(part, request)) is not None]


def _content(part: Any, request: ModelRequest) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart(file_id=str()):
            return {"type": "input_image", "detail": "auto", "file_id": part.file_id}
        case ImagePart():
            return {"type": "input_image", "detail": "auto", "image_url": part.url or data_url(part)}
        case FilePart(file_id=str()):
            return {"type": "input_file", "file_id": part.file_id}
        case FilePart(url=str()):
            return {"type": "input_file", "file_url": part.url}
        case FilePart():
            return {"type": "input_file", "filename": part.name or file_name(part), "file_data": data_url(part)}
        case ProviderPart():
            is_own = part.provider in ("", request.provider) and isinstance(part.data, Mapping)
            return dict(part.data) if is_own else None
    raise BadRequest(
        f"Responses takes no {type(part).__name__}; OpenAIChat takes sound as data=",
        provider=request.provider,
        model=request.model,
    )
