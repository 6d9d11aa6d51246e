"""Two runs side by side, step by step: what was asked, answered and done, where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from interpose.report.stored import StoredRun
from interpose.text import to_json

MAX_TEXT = 160
CONTEXT = 24


class Difference(NamedTuple):
    """One thing that differs: *where* it is (`run`, `step 0`, `step 0, look`), *what*, and how it is in each run."""

    where: str
    what: str
    first: str
    second: str


def compare(first: StoredRun, second: StoredRun) -> list[Difference]:
    """Return where two runs differ, in the order of their steps; ids and times are not compared."""
    found = list(_fields("run", _run(first), _run(second)))
    for number, (one, other) in enumerate(zip_longest(_steps(first), _steps(second))):
        where = f"step {number}"
        if one is None or other is None:
            made = _told(one or other or [])
            found.append(Difference(where, "only in one", made if one else "—", made if other else "—"))
            continue
        found += _calls(where, one, other)
    return found


def _run(run: StoredRun) -> dict[str, Any]:
    names = ("name", "outcome", "finish_reason", "error", "steps", "model_calls", "tool_calls")
    shown = {name: run.summary.get(name) for name in names} | _usage(run.summary)
    root = run.nodes[0]
    return {**shown, "given": _said(_get(root, "in", "messages")), "text": _get(root, "out", "text")}


def _usage(node: Mapping[str, Any]) -> dict[str, Any]:
    usage = node.get("usage") or {}
    return {name: usage.get(name) for name in ("input_tokens", "output_tokens", "cost_usd")}


def _steps(run: StoredRun) -> list[list[dict[str, Any]]]:
    """Return the nodes below each step of the outermost run, the model calls first."""
    root = run.nodes[0]["id"]
    steps = {node["id"]: [node] for node in run.nodes if node["kind"] == "step" and node.get("parent_id") == root}
    for node in run.nodes:
        if node.get("parent_id") in steps:
            steps[node["parent_id"]].append(node)
    return list(steps.values())


def _calls(where: str, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> Iterator[Difference]:
    """Yield where two steps differ: their model calls in order, then their tool calls, by name and order."""
    yield from _fields(where, {"outcome": one[0].get("outcome")}, {"outcome": other[0].get("outcome")})
    nothing: dict[str, Any] = {}
    for first, second in zip_longest(_kind(one, "model"), _kind(other, "model"), fillvalue=nothing):
        yield from _fields(where, _model(first), _model(second))
    names = dict.fromkeys(node["name"] for node in (*_kind(one, "tool"), *_kind(other, "tool")))
    for name in names:
        first_calls = [node for node in _kind(one, "tool") if node["name"] == name]
        second_calls = [node for node in _kind(other, "tool") if node["name"] == name]
        for number, (first, second) in enumerate(zip_longest(first_calls, second_calls, fillvalue=nothing)):
            place = f"{where}, {name}" + (f" #{number + 1}" if number else "")
            if not first or not second:
                yield Difference(place, "called", "yes" if first else "no", "yes" if second else "no")
            else:
                yield from _fields(place, _tool(first), _tool(second))


def _kind(nodes: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [node for node in nodes if node["kind"] == kind]


def _model(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is compared of a model call."""
    said = _get(node, "out") or {}
    return {
        "model": node.get("name"),
        "made by": node.get("made_by"),
        "attempts": node.get("attempts"),
        "instructions": _get(node, "in", "instructions"),
        "messages": _said(_get(node, "in", "messages")),
        "tools": [tool.get("name") for tool in _get(node, "in", "tools") or ()],
        "settings": _get(node, "in", "settings"),
        "changes": [f"{one['middleware']}: {one['field']}" for one in node.get("changes", ())],
        "text": said.get("text"),
        "calls": [f"{call['name']}({to_json(call.get('args'))})" for call in said.get("tool_calls", ())],
        "finish reason": node.get("finish_reason"),
        "error": node.get("error"),
        **_usage(node),
    }


def _tool(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "args": _get(node, "in", "args"),
        "result": _get(node, "out", "data"),
        "status": node.get("status"),
        "error": node.get("error"),
    }


def _get(node: Mapping[str, Any], *path: str) -> Any:
    found: Any = node
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _said(messages: Any) -> list[str] | None:
    """Return messages without their ids, which differ from run to run."""
    if not isinstance(messages, list | tuple):
        return None
    return [
        f"{one.get('role')}: {one.get('text')}" + "".join([f" → {call['name']}" for call in one.get("tool_calls", ())])
        for one in messages
    ]


def _fields(where: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*one, *other)):
        first, second = one.get(name), other.get(name)
        if first != second:
            yield Difference(where, name, *_differing(first, second))


def _differing(first: Any, second: Any) -> tuple[str, str]:
    """Return two unequal values as texts: of lists and long texts the part that differs."""
    if isinstance(first, list) and isinstance(second, list):
        same = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
        same = min(len(first), len(second)) if same is None else same
        shown = [[f"… {same} the same"] * bool(same) + rest[same:] for rest in (first, second)]
        return _short("; ".join(shown[0])), _short("; ".join(shown[1]))
    a, b = ["—" if one is None else one if isinstance(one, str) else to_json(one) for one in (first, second)]
    if max(len(a), len(b)) > MAX_TEXT:
        shorter = min(len(a), len(b))
        head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
        start = max(head - CONTEXT, 0)
        a, b = [("…" if start else "") + text[start:] for text in (a, b)]
    return _short(a), _short(b)


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _told(nodes: Sequence[dict[str, Any]]) -> str:
    names = [node["name"] for node in nodes if node["kind"] in ("model", "tool")]
    return ", ".join(names) or "nothing"
