"""Messages in the form of the Messages API: turns that take each other's place, made of blocks.

Source: the API reference of Messages and the types of the `anthropic` package 2.14, read 2026-11.
"""

import base64
import re
import zlib
from collections.abc import Mapping
from typing import Any, assert_never

from interpose.errors import BadRequest
from interpose.messages import (
    AssistantMessage,
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
from interpose.models.wire_names import wire_id, wire_name
from interpose.request import ModelRequest
from interpose.text import to_jsonable

Block = dict[str, Any]

BEGINNING = "(The conversation goes on here.)"
"""Stands where the API wants a user's turn and the history has none."""
EMPTY = "(empty message)"
"""Stands for a user's message without content, which the API refuses."""
CUT_OFF = "(This was cut off.)"
"""Stands for an answer of which nothing is left that the API takes."""
_UNFINISHED = frozenset({"server_tool_use", "mcp_tool_use"})
STOP_FIELDS = ("stop_reason", "stop_details")
"""What a message tells about its end, such as why it was refused: kept for the reader, and not sent back."""

_SIGNATURE = re.compile(r"[A-Za-z0-9+/=_-]+")


def wire_messages(request: ModelRequest, names: Mapping[str, str]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the leading system messages of *request* as texts, and the rest as turns.

    Messages of one side that follow each other are one turn, so all results of a step stand in one, in front of what
    the user says next. A system message further down is told within the user's turn.
    """
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for message in request.messages:
        match message:
            case SystemMessage():
                if not turns:
                    system += [message.text] if message.text.strip() else []
                else:
                    _add(turns, "user", _text(f"<system>\n{message.text}\n</system>"))
            case UserMessage():
                _add(turns, "user", _user(message, request) or _text(EMPTY))
            case AssistantMessage():
                _add(turns, "assistant", _assistant(message, names))
            case ToolMessage():
                _add(turns, "user", [_result(message, request)])
            case _:
                assert_never(message)
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": _text(BEGINNING)})
    _drop_unfinished(turns)
    _strip_end(turns[-1])
    for turn in turns:
        turn["content"] = _simple(turn["content"])
    return system, turns


def _add(turns: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _drop_unfinished(turns: list[dict[str, Any]]) -> None:
    """Take out what the vendor's own tools began and did not end, as in a turn that was cut off: the API refuses it.

    In the last turn the vendor may still go on with it, and so it may where a call of ours is answered in between.
    """
    answered = {block.get("tool_use_id") for turn in turns for block in turn["content"]}
    for turn in turns[:-1]:
        kinds = {block["type"] for block in turn["content"]}
        if _UNFINISHED & kinds and "tool_use" not in kinds:
            kept = [
                block for block in turn["content"] if block["type"] not in _UNFINISHED or block.get("id") in answered
            ]
            turn["content"] = kept or _text(CUT_OFF)


def _strip_end(turn: dict[str, Any]) -> None:
    """Take blanks off an answer that the model is to go on with: the API refuses them at its end."""
    last = turn["content"][-1]
    if turn["role"] == "assistant" and last["type"] == "text":
        turn["content"][-1] = {**last, "text": last["text"].rstrip()}


def _simple(blocks: list[Block]) -> list[Block] | str:
    """Return a lone text as it is, without its block."""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} else blocks


def _text(text: str) -> list[Block]:
    return [{"type": "text", "text": text}] if text.strip() else []  # the API refuses blank ones


def _user(message: UserMessage, request: ModelRequest) -> list[Block]:
    return _blocks(message.parts, request) if message.parts else _text(message.text)


def _assistant(message: AssistantMessage, names: Mapping[str, str]) -> list[Block]:
    blocks: list[Block] = []
    # A signature does not say whose it is. Where another vendor's parts stand beside it, it is that vendor's, and so is
    # one of other letters than this vendor's.
    is_foreign = any(isinstance(part, ProviderPart) and not _is_own(part) for part in message.parts)
    for part in message.content():
        match part:
            case TextPart():
                blocks += _text(part.text)
            case ReasoningPart():
                # The API takes back what it signed, and nothing else.
                if part.signature is not None and not is_foreign and _SIGNATURE.fullmatch(part.signature):
                    blocks.append({"type": "thinking", "thinking": part.text, "signature": part.signature})
            case ToolCall():
                blocks.append(_call(part, names))
            case ProviderPart():
                _add_own(blocks, part)
            case ImagePart() | FilePart():
                pass  # not a thing that this model says
    return blocks


def _call(call: ToolCall, names: Mapping[str, str]) -> Block:
    # Broken arguments are sent inside an object, since nothing else is taken.
    args = {"invalid_arguments": call.raw} if call.error is not None else to_jsonable(call.args)
    name = names.get(call.name) or wire_name(call.name)
    return {"type": "tool_use", "id": wire_id(call.id), "name": name, "input": args}


def _result(message: ToolMessage, request: ModelRequest) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": wire_id(message.tool_call_id)}
    if message.parts:
        plain = [part for part in message.parts if not _is_mark(part)]
        block["content"] = _blocks(plain, request)
        marks = [part.data for part in message.parts if isinstance(part, ProviderPart) and _is_mark(part)]
        for mark in marks:
            block.update(to_jsonable(mark))  # a mark within a result is one of the result
    elif message.text:
        block["content"] = message.text
    if message.is_error:
        block["is_error"] = True
    return block


def _blocks(parts: Any, request: ModelRequest) -> list[Block]:
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, TextPart):
            blocks += _text(part.text)
        elif isinstance(part, ProviderPart):
            _add_own(blocks, part)
        else:
            blocks.append(_media(part, request))
    return blocks


def _add_own(blocks: list[Block], part: ProviderPart) -> None:
    """Add a part of this API: a block as it is, or marks of the block before it, as for the cache or citations."""
    if not _is_own(part):
        return
    if not _is_mark(part):
        blocks.append(to_jsonable(part.data))
        return
    marks = {key: value for key, value in to_jsonable(part.data).items() if key not in STOP_FIELDS}
    if not blocks or not marks:
        return
    if "citations" in marks:
        _cite(blocks, marks)
    elif blocks[-1]["type"] not in ("thinking", "redacted_thinking"):  # these take no marks
        blocks[-1] = {**blocks[-1], **marks}


def _cite(blocks: list[Block], marks: dict[str, Any]) -> None:
    """Give the end of the last text its citations: as much of it as they were told for, the rest stands before it.

    A text that is not what they were told for, since it was changed, has none.
    """
    last = blocks[-1]
    if last["type"] != "text" or "citations" in last:
        return
    length = min(marks.get("length") or len(last["text"]), len(last["text"]))
    head, cited = last["text"][: len(last["text"]) - length], last["text"][len(last["text"]) - length :]
    if marks.get("check", check_of(cited)) == check_of(cited):
        blocks[-1:] = [*_text(head), {"type": "text", "text": cited, "citations": marks["citations"]}]


def check_of(text: str) -> int:
    """Return a sum by which a text is known again."""
    return zlib.crc32(text.encode("utf-8", "replace"))


def _is_own(part: ProviderPart) -> bool:
    return part.provider in ("", "anthropic") and isinstance(part.data, Mapping)


def _is_mark(part: Any) -> bool:
    return isinstance(part, ProviderPart) and _is_own(part) and "type" not in part.data


def _media(part: Any, request: ModelRequest) -> Block:
    match part:
        case ImagePart():
            return {"type": "image", "source": _source(part)}
        case FilePart(data=str(), media_type=str(kind)) if kind.startswith("image/"):
            return {"type": "image", "source": _source(part)}
        case FilePart(data=str(), media_type=str(kind)) if kind.startswith("text/"):
            source = {"type": "text", "media_type": "text/plain", "data": _decoded(part, request)}
            return _titled({"type": "document", "source": source}, part)
        case FilePart():
            return _titled({"type": "document", "source": _source(part)}, part)
    raise _refused(
        f"the Messages API takes no {type(part).__name__}; give the model text, pictures or documents", request
    )


def _source(part: ImagePart | FilePart) -> Block:
    if part.url is not None and part.url.startswith("data:") and ";base64," in part.url:
        head, _, data = part.url.partition(";base64,")
        return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
    if part.url is not None:
        return {"type": "url", "url": part.url}
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    return {"type": "base64", "media_type": part.media_type, "data": part.data}


def _titled(block: Block, part: FilePart) -> Block:
    return {**block, "title": part.name} if part.name else block


def _decoded(part: FilePart, request: ModelRequest) -> str:
    try:
        return base64.b64decode("".join((part.data or "").split()), validate=True).decode("utf-8", "replace")
    except ValueError as error:
        raise _refused(f"the data of a FilePart is not base64: {error}", request) from error


def _refused(message: str, request: ModelRequest) -> BadRequest:
    return BadRequest(message, provider=request.provider, model=request.model)
