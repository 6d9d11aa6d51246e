"""Who changed what: the fields of a model request, or of a tool call, that each middleware left other than it got them.

Nothing is noted while a call passes its layers: what each was given is kept by the chain anyway, and compared after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from interpose.info import Change, RunConfig
from interpose.messages import ToolCall
from interpose.request import ModelRequest, ModelSettings

if TYPE_CHECKING:
    from interpose._engine.call import Call
    from interpose.redaction import Redactor

Passed = tuple[str, str, Any, Any]
"""(middleware, hook, what it was given, what it passed on)."""

MODEL_HOOKS = "model hooks"
MAX_TEXT = 300
MAX_LISTED = 6
CONTEXT = 20
"""How much of what is the same stands on either side of a difference."""


def passed_on(call: Call, rewrote: Mapping[int, tuple[Any, Any]], hooks: Sequence[Passed] = ()) -> Iterator[Passed]:
    """Yield each hand-over of *call* that changed the value.

    *rewrote* has what before-hooks did, by layer, as (old, new); *hooks* what model hooks did, within their layer.
    """
    values = call.values
    given = [rewrote[i][0] if i in rewrote else value for i, value in enumerate(values)]
    for index, layer in enumerate(call.layers):
        value, inside = given[index], given[index + 1]
        if value is None:
            return
        if index in rewrote:
            old, value = rewrote[index]
            yield layer.name, layer.before.name if layer.before is not None else "", old, value
        if inside is None or inside is value:
            continue
        if layer.name == MODEL_HOOKS and hooks:
            yield from hooks
        else:
            hook = layer.wrap or layer.after or layer.before
            yield layer.name, hook.name if hook is not None else "", value, inside


def untouched(values: Sequence[Any]) -> bool:
    """Whether all layers that were reached were given the same object."""
    first = values[0]
    for value in values:  # noqa: SIM110  # a generator costs four times as much, on every call
        if value is not first and value is not None:
            return False
    return True


def config_passed(base: RunConfig, changes: Sequence[tuple[str, RunConfig]]) -> Iterator[Passed]:
    """Yield each change of a config; *changes* are (`middleware.hook`, config) in order."""
    before = base
    for who, config in changes:
        name, _, hook = who.rpartition(".")
        yield name, hook, before, config
        before = config


def changes_of(passed: Iterable[Passed], redactor: Redactor) -> tuple[Change, ...]:
    """Return, field by field, what was changed on the way."""
    found = []
    for who, hook, old, new in passed:
        differ = _call_fields(old, new, redactor) if new.__class__ is ToolCall else _fields(old, new, redactor)
        found += [Change(who, hook, field, before, after) for field, before, after in differ]
    return tuple(found)


def _call_fields(old: ToolCall, new: ToolCall, redactor: Redactor) -> Iterator[tuple[str, Any, Any]]:
    if old.name != new.name:
        yield "name", redactor.cut(old.name), redactor.cut(new.name)
    yield from _entries("args", old.args, new.args, redactor)


def _fields(
    old: ModelRequest | RunConfig, new: ModelRequest | RunConfig, redactor: Redactor
) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, ModelRequest) and isinstance(new, ModelRequest) and old.provider != new.provider:
        yield "provider", old.provider, new.provider
    if old.model is not new.model and old.model != new.model:
        yield "model", _model_name(old.model), _model_name(new.model)
    if old.instructions != new.instructions:
        yield "instructions", *_texts(redactor.cut(old.instructions), redactor.cut(new.instructions))
    if old.messages is not new.messages and old.messages != new.messages:
        yield "messages", *_messages(old.messages, new.messages, redactor)
    if old.tools is not new.tools and old.tools != new.tools:
        yield "tools", *_tools(old.tools, new.tools)
    if old.settings is not new.settings:
        for name in ModelSettings.__struct_fields__:
            before, after = getattr(old.settings, name), getattr(new.settings, name)
            if name == "provider_options":
                yield from _entries(f"settings.{name}", before, after, redactor)
            elif before != after:
                yield f"settings.{name}", redactor.value(before), redactor.value(after)
    if old.output_schema is not new.output_schema and old.output_schema != new.output_schema:
        yield "output_schema", _compact(old.output_schema, redactor), _compact(new.output_schema, redactor)
    if old.metadata is not new.metadata:
        yield from _entries("metadata", old.metadata, new.metadata, redactor)


def _entries(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], redactor: Redactor
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the entries of a mapping that differ."""
    if old is new:
        return
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if before is not after and not _equal(before, after):
            shown = [_short(redactor.value({key: value})) for value in (before, after)]
            yield f"{name}.{key}", *[next(iter(one.values())) if isinstance(one, dict) else one for one in shown]


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        return False


def _short(entry: Any) -> Any:
    """Return a redacted `{key: value}` whose value, where it is long, is its cut JSON."""
    if not isinstance(entry, dict):
        return entry
    return {key: _compact_shown(value) for key, value in entry.items()}


def _compact(value: Any, redactor: Redactor) -> Any:
    return _compact_shown(redactor.value(value))


def _compact_shown(value: Any) -> Any:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return value if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _model_name(model: Any) -> str:
    return model if isinstance(model, str) else str(getattr(model, "name", None) or type(model).__name__)


def _texts(old: str, new: str) -> tuple[str, str]:
    """Return where two texts differ, with a little of what is the same on either side."""
    if len(old) <= MAX_TEXT and len(new) <= MAX_TEXT:
        return old, new
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    start, rest = max(head - CONTEXT, 0), max(tail - CONTEXT, 0)
    return _window(old, start, rest), _window(new, start, rest)


def _window(text: str, start: int, rest: int) -> str:
    shown = text[start : len(text) - rest]
    if len(shown) > MAX_TEXT:
        shown = f"{shown[: MAX_TEXT // 2]} … {shown[-MAX_TEXT // 2 :]}"
    return f"{'…' if start else ''}{shown}{'…' if rest else ''}"


def _messages(old: Sequence[Any], new: Sequence[Any], redactor: Redactor) -> tuple[Any, Any]:
    """Return what differs between two lists of messages: how many there are, from where on, and their beginnings."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] is not new[i] and old[i] != new[i]), shorter)
    left = shorter - head
    tail = next((i for i in range(left) if old[-1 - i] is not new[-1 - i] and old[-1 - i] != new[-1 - i]), left)
    return _part_of(old, head, tail, redactor), _part_of(new, head, tail, redactor)


def _part_of(messages: Sequence[Any], head: int, tail: int, redactor: Redactor) -> dict[str, Any]:
    differ = messages[head : len(messages) - tail]
    listed = differ if len(differ) <= MAX_LISTED else (*differ[: MAX_LISTED // 2], None, *differ[-MAX_LISTED // 2 :])
    more = f"… {len(differ) - MAX_LISTED} more"
    return {
        "count": len(messages),
        "from": head,
        "differ": [more if one is None else _brief(one, redactor) for one in listed],
    }


def _brief(message: Any, redactor: Redactor) -> str:
    text = " ".join(redactor.cut(message.text).split())
    calls = ", ".join([f"{call.name}()" for call in message.tool_calls])
    said = f"{text[:100]}…" if len(text) > 100 else text
    return f"{message.role}: {said}{' → ' if calls and said else ''}{calls}"


def _tools(old: Sequence[Any], new: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Return the names of two lists of tools; one that was replaced by another of its name is marked."""
    before = {tool.name: tool for tool in old}
    named = [
        f"{tool.name} (changed)" if tool.name in before and tool is not before[tool.name] else tool.name for tool in new
    ]
    return [tool.name for tool in old], named
