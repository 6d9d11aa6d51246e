"""Messages in the form of the Gemini API: contents of two roles, made of parts.

Source: the API reference of `generateContent`, the guides to function calling and to thought signatures, and the types
of the `google-genai` package 3.6, read 2026-11.
"""

import mimetypes
import re
from collections.abc import Iterable, Mapping
from typing import Any, assert_never

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
from interpose.models.google.names import wire_name
from interpose.text import to_jsonable

Part = dict[str, Any]
Content = dict[str, Any]

BEGINNING = "(The conversation goes on here.)"
"""Stands where the API wants a user's turn and the history has none."""
EMPTY = "(empty message)"
"""Stands for a user's message without content, which the API refuses."""
UNSIGNED = "skip_thought_signature_validator"
"""Stands in for the signature of a call that another model made, or a person: newer models refuse calls without one.

Source: the vendor's guide to thought signatures, "FAQs", read 2026-11.
"""
CONTENT = frozenset(
    {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
     "toolCall", "toolResponse"}
)  # fmt: skip
"""Fields that make a part; other fields are marks of one."""
MARKS = frozenset({"thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
CALL = "call"
"""Key of our own in a mark: the number of the call in its message that the mark belongs to."""

_GENERATION = re.compile(r"gemini-(\d+)")


def generation(model: str) -> int:
    """Return the generation of Gemini that *model* is of; of aliases of the latest one 3, of other models 0."""
    found = _GENERATION.search(model)
    return int(found[1]) if found else 3 if "gemini" in model and "latest" in model else 0


def wire_contents(
    messages: Iterable[Any], names: Mapping[str, str], *, needs_signatures: bool
) -> tuple[list[str], list[Content]]:
    """Return the leading system messages as texts, and the rest as contents.

    The results of a step stand in one content right after their calls and in their order. What of them is no text
    follows in another. A system message further down is told within the user's content. With *needs_signatures*, the
    first call of a content always has one.
    """
    system: list[str] = []
    contents: list[Content] = []
    called: dict[str, str] = {}
    waiting: list[ToolMessage] = []
    for message in messages:
        if waiting and not isinstance(message, ToolMessage):
            _add_results(contents, waiting, called)
            waiting = []
        match message:
            case SystemMessage():
                if not contents:
                    system += [message.text] if message.text.strip() else []
                else:
                    _add(contents, "user", [{"text": f"<system>\n{message.text}\n</system>"}])
            case UserMessage():
                parts = _parts(message.parts) if message.parts else _text(message.text)
                _add(contents, "user", parts or [{"text": EMPTY}])
            case AssistantMessage():
                called = {call.id: names.get(call.name) or wire_name(call.name) for call in message.tool_calls}
                _add(contents, "model", _said(message, called, needs_signatures))
            case ToolMessage():
                waiting.append(message)
            case _:
                assert_never(message)
    _add_results(contents, waiting, called)
    if not contents or contents[0]["role"] != "user":
        contents.insert(0, {"role": "user", "parts": [{"text": BEGINNING}]})
    return system, contents


def _add(contents: list[Content], role: str, parts: list[Part]) -> None:
    """Add parts to the last content where it is of the same role, but never to results."""
    if not parts:
        return
    last = contents[-1] if contents else None
    if last is not None and last["role"] == role and "functionResponse" not in last["parts"][0]:
        last["parts"] += parts
    else:
        contents.append({"role": role, "parts": parts})


def _add_results(contents: list[Content], results: list[ToolMessage], called: Mapping[str, str]) -> None:
    if not results:
        return
    order = {call_id: number for number, call_id in enumerate(called)}
    results = sorted(results, key=lambda result: order.get(result.tool_call_id, len(order)))
    contents.append({"role": "user", "parts": [_result(result, called) for result in results]})
    shown: list[Part] = []
    for result in results:
        parts = _parts([part for part in result.parts if not isinstance(part, TextPart)])
        if parts:
            shown += [{"text": f"Belongs to the result of the function call {result.tool_call_id}:"}, *parts]
    if shown:
        contents.append({"role": "user", "parts": shown})


def _result(message: ToolMessage, called: Mapping[str, str]) -> Part:
    name = called.get(message.tool_call_id) or wire_name(message.name or "")
    response = {"error" if message.is_error else "output": message.text}
    return {"functionResponse": {"id": message.tool_call_id, "name": name, "response": response}}


def _said(message: AssistantMessage, called: Mapping[str, str], needs_signatures: bool) -> list[Part]:
    parts: list[Part] = []
    calls: list[Part] = []
    marks: list[tuple[Part, Mapping[str, Any]]] = []
    for part in message.content():
        match part:
            case TextPart():
                parts += _text(part.text)
            case ReasoningPart():
                parts.append({"text": part.text, "thought": True})
            case ToolCall():
                calls.append(_call(part, called))
                parts.append(calls[-1])
            case ProviderPart():
                own = _add_own(parts, part)
                if own is not None and CALL not in own and parts:
                    marks.append((parts[-1], own))
            case ImagePart() | AudioPart() | FilePart():
                parts.append(_media(part))
    for marked, mark in marks:
        if "functionCall" not in marked:
            marked.update(mark)
    for part in message.parts:
        if isinstance(part, ProviderPart) and _is_own(part) and CALL in part.data:
            _sign(calls, to_jsonable(part.data))
    # A thought is of use to the model by its signature alone, which may as well stand on the part behind it.
    parts = [part for part in parts if not part.get("thought") or "thoughtSignature" in part]
    if needs_signatures and calls and "thoughtSignature" not in calls[0]:
        calls[0]["thoughtSignature"] = UNSIGNED
    return parts


def _sign(calls: list[Part], mark: dict[str, Any]) -> None:
    """Put a mark on the call that it belongs to, by number: its place may have changed."""
    number = mark.pop(CALL)
    if isinstance(number, int) and 0 <= number < len(calls):
        calls[number].update({key: value for key, value in mark.items() if key in MARKS})


def _add_own(parts: list[Part], part: ProviderPart) -> dict[str, Any] | None:
    """Add a part of this API as it is; what is no part of its own is returned, as marks of the part before it."""
    if not _is_own(part):
        return None
    data = to_jsonable(part.data)
    if CONTENT & data.keys():
        parts.append(data)
        return None
    marks = {key: value for key, value in data.items() if key in MARKS or key == CALL}
    return marks or None


def _is_own(part: ProviderPart) -> bool:
    return part.provider in ("", "google") and isinstance(part.data, Mapping)


def _call(call: ToolCall, called: Mapping[str, str]) -> Part:
    # Broken arguments are sent inside an object, since nothing else is taken.
    args = {"invalid_arguments": call.raw} if call.error is not None else to_jsonable(call.args)
    return {"functionCall": {"id": call.id, "name": called[call.id], "args": args}}


def _text(text: str) -> list[Part]:
    return [{"text": text}] if text else []


def _parts(given: Iterable[Any]) -> list[Part]:
    parts: list[Part] = []
    for part in given:
        if isinstance(part, TextPart):
            parts += _text(part.text)
        elif isinstance(part, ProviderPart):
            marks = _add_own(parts, part)
            if marks is not None and parts:
                parts[-1] = {**parts[-1], **marks}
        else:
            parts.append(_media(part))
    return parts


def _media(part: ImagePart | AudioPart | FilePart) -> Part:
    if part.data is not None:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    address = part.url or part.file_id or ""
    if address.startswith("data:") and ";base64," in address:
        head, _, data = address.partition(";base64,")
        return {"inlineData": {"mimeType": head.removeprefix("data:"), "data": data}}
    kind = part.media_type or mimetypes.guess_type(address.partition("?")[0])[0]
    return {"fileData": {"fileUri": address, **({"mimeType": kind} if kind else {})}}
