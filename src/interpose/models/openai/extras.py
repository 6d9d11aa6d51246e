"""What servers add to messages and calls for their own use: kept as an opaque part, and sent back where it was."""

from collections.abc import Iterable, Mapping
from typing import Any

from interpose.messages import ProviderPart
from interpose.models.openai.shown import NOTE

MESSAGE_FIELDS = ("reasoning_details", "thinking_blocks", "extra_content")
"""Fields of a message that go back: reasoning with its signatures as two routers give it, and Gemini's signatures."""
CALLS = "tool_calls"
"""The field that holds what was added to calls: a list of `{"index", "id"}` with the added fields."""
_OWN_CALL_FIELDS = frozenset({"index", "id", "type", "function"})
_OWN_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}
"""Type of a piece of reasoning -> the field with its text."""


def extras_of(delta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message, or a piece of one, has for its server's own use; empty where there is nothing."""
    found = {field: delta[field] for field in MESSAGE_FIELDS if delta.get(field)}
    calls = [
        {"index": call.get("index", position), "id": call.get("id"), **added}
        for position, call in enumerate(delta.get(CALLS) or ())
        if (added := _added_to(call))
    ]
    return {**found, CALLS: calls} if calls else found


def _added_to(call: Mapping[str, Any]) -> dict[str, Any]:
    added = {key: value for key, value in call.items() if key not in _OWN_CALL_FIELDS and value is not None}
    function = call.get("function") or {}
    inner = {key: value for key, value in function.items() if key not in _OWN_FUNCTION_FIELDS and value is not None}
    return {**added, "function": inner} if inner else added


def merge_extras(pieces: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what came in pieces as one: lists follow each other, and pieces of one text of reasoning are joined."""
    merged: dict[str, Any] = {}
    for piece in pieces:
        for key, value in piece.items():
            old = merged.get(key)
            if isinstance(old, list) and isinstance(value, list):
                merged[key] = [*old, *value]
            elif isinstance(old, Mapping) and isinstance(value, Mapping):
                merged[key] = {**old, **value}
            else:
                merged[key] = value
    for key in ("reasoning_details", "thinking_blocks"):
        if isinstance(merged.get(key), list):
            merged[key] = _join(merged[key])
    return merged


def _join(details: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for detail in details:
        last: Any = joined[-1] if joined else None
        if _belong_together(last, detail):
            key = _TEXTS[detail["type"]]
            text = f"{last.get(key) or ''}{detail.get(key) or ''}"
            told = {name: value for name, value in detail.items() if value is not None}
            joined[-1] = {**last, **told, key: text}
        else:
            joined.append(detail)
    return joined


def _belong_together(last: Any, detail: Any) -> bool:
    """Whether *detail* goes on with the text of *last*: a signature ends one."""
    if not isinstance(last, Mapping) or not isinstance(detail, Mapping):
        return False
    is_same = all(last.get(key) == detail.get(key) for key in ("type", "index"))
    return is_same and detail.get("type") in _TEXTS and not last.get("signature")


def put_back(wire: dict[str, Any], parts: Iterable[ProviderPart], keep: bool) -> None:
    """Put what *parts* hold into *wire*, a message that goes back; unless *keep*, only what no server added."""
    for part in parts:
        if part.data.get("type") == NOTE:
            continue  # for the reader alone
        for key, value in part.data.items():
            if key == CALLS:
                if keep:
                    _into_calls(wire.get(CALLS) or [], value)
            elif keep or key not in MESSAGE_FIELDS:
                wire[key] = [*wire[key], *value] if isinstance(wire.get(key), list) else value


def _into_calls(calls: list[dict[str, Any]], added: Iterable[Mapping[str, Any]]) -> None:
    """Put what was added to calls back: to the call of that id, else of that place where ids were replaced."""
    by_id = {call["id"]: call for call in calls}
    for extra in added:
        fields = {key: value for key, value in extra.items() if key not in ("index", "id")}
        place = extra.get("index")
        call = by_id.get(extra.get("id"))
        if call is None and isinstance(place, int) and 0 <= place < len(calls):
            call = calls[place]
        if call is not None:
            call["function"] |= fields.pop("function", {})
            call.update(fields)
