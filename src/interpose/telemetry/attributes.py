"""What spans say: the attributes of a run, a model call and a tool call, made of the nodes of the record."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interpose.info import Node
from interpose.request import Usage
from interpose.telemetry.conventions import Conventions, provider_names
from interpose.text import to_json

Attribute = str | bool | int | float | Sequence[str]
OPERATIONS = {"run": "invoke_agent", "model": "chat", "tool": "execute_tool"}
ERROR_NAME = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")
TOOL_ERROR_NAME = re.compile(r"[A-Z]\w*(?:Error|Exception|Timeout|Exit|Exceeded)(?=:|\(|$)")
MAX_META = 500
"""How many characters of a text in `meta` become an attribute."""


def span_name(node: Node) -> str:
    """Return the name of the node's span."""
    return f"{OPERATIONS[node.kind]} {node.name}".rstrip()


def at_start(node: Node, conventions: Conventions) -> dict[str, Attribute]:
    """Return what is known when the span begins, and what samplers may look at."""
    told: dict[str, Attribute] = {"gen_ai.operation.name": OPERATIONS[node.kind], "interpose.run_id": node.run_id}
    if node.thread_id:
        told["gen_ai.conversation.id"] = node.thread_id
    if node.step is not None:
        told["interpose.step"] = node.step
    if node.kind == "run":
        told["gen_ai.agent.name"] = node.name
        if node.resumed_from is not None:
            told["interpose.resumed_from"] = node.resumed_from
    elif node.kind == "tool":
        told["gen_ai.tool.name"] = node.name
        told["gen_ai.tool.type"] = "function"
        if node.tool_call_id is not None:
            told["gen_ai.tool.call.id"] = node.tool_call_id
    else:
        told |= model_names(node, conventions)
    return told


def model_names(node: Node, conventions: Conventions) -> dict[str, Attribute]:
    """Return what a model call is of; a layer may have chosen another model after its span began."""
    told: dict[str, Attribute] = {"gen_ai.request.model": node.name}
    if node.provider:
        told |= provider_names(node.provider, conventions)
    if node.call_class and node.call_class != "agent":
        told["interpose.call_class"] = node.call_class
    if node.call_class == "structured_output":
        told["gen_ai.output.type"] = "json"
    return told


def agent_model(names: Mapping[str, Attribute], conventions: Conventions) -> dict[str, Attribute]:
    """Return, of the *names* of the model that a run called last, those that the run itself is told by."""
    shown = {
        "gen_ai.request.model",
        *(("gen_ai.provider.name", "gen_ai.system") if conventions.provider_on_agent else ()),
    }
    return {name: value for name, value in names.items() if name in shown}


def at_end(node: Node, conventions: Conventions) -> dict[str, Attribute]:
    """Return what is known when the node ends, without any content."""
    told: dict[str, Attribute] = {}
    if node.kind == "model":
        told |= model_names(node, conventions)
        if node.made_by is not None:
            told["interpose.made_by"] = node.made_by
        elif node.usage is not None:
            told |= model_usage(node.usage, conventions)
        if node.finish_reason is not None:
            told["gen_ai.response.finish_reasons"] = (node.finish_reason,)
        if node.attempts is not None:
            told["interpose.attempts"] = node.attempts
        if node.superseded:
            told["interpose.superseded"] = node.superseded
    if node.kind == "run":
        if node.usage is not None:
            told |= {f"interpose.usage.{name}": value for name, value in known(node.usage)}
        if node.finish_reason is not None:
            told["interpose.finish_reason"] = node.finish_reason
    if node.outcome is not None and (node.kind == "run" or node.outcome != "finished"):
        told["interpose.outcome"] = node.outcome
    if node.status == "error":
        told["error.type"] = error_type(node)
    return told | meta(node.meta)


def model_usage(usage: Usage, conventions: Conventions) -> dict[str, Attribute]:
    """Return the tokens of a model call, by the names of the conventions, and its cost, for which they have none."""
    names = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        conventions.cache_write: usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "interpose.cost_usd": usage.cost_usd,
    }
    return {name: value for name, value in names.items() if value is not None}


def known(usage: Usage) -> Iterator[tuple[str, int | float]]:
    """Yield the fields of *usage* that are known."""
    for name in Usage.__struct_fields__:
        value = getattr(usage, name)
        if value is not None:
            yield name, value


def error_type(node: Node) -> str:
    """Return the kind of a node's error: the name of the exception, else a word; never its text."""
    error = node.error or ""
    if node.kind == "tool":
        found = TOOL_ERROR_NAME.match(error)
        return found[0] if found else "tool_error"
    found = ERROR_NAME.match(error)
    return found[0] if found else "_OTHER"


def meta(given: Mapping[str, Any]) -> dict[str, Attribute]:
    """Return the plain values of a node's `meta`; what is structured may be content."""
    told: dict[str, Attribute] = {}
    for name, value in given.items():
        if isinstance(value, str):
            told[f"interpose.meta.{name}"] = value[:MAX_META]
        elif isinstance(value, bool | int | float):
            told[f"interpose.meta.{name}"] = value
    return told


# With content.


def content(node: Node) -> dict[str, Attribute]:
    """Return what went in and came out of a node that has ended, redacted and cut as in the record."""
    given = node.content or {}
    inside, outside = given.get("in"), given.get("out")
    told: dict[str, Any] = {}
    if node.kind == "tool":
        told["gen_ai.tool.call.arguments"] = (inside or {}).get("args")
        told["gen_ai.tool.call.result"] = (outside or {}).get("data")
    elif node.kind == "run":
        told["gen_ai.input.messages"] = messages(inside)
        if outside and outside.get("text"):
            reason = {"finish_reason": outside.get("finish_reason", "stop")}
            told["gen_ai.output.messages"] = [{**message({"role": "assistant", "text": outside["text"]}), **reason}]
    else:
        told |= request(inside or {})
        if outside:
            reason = {"finish_reason": outside.get("finish_reason", "stop")}
            told["gen_ai.output.messages"] = [{**message(outside), **reason}]
    if node.meta:
        told["interpose.meta"] = {name: value for name, value in node.meta.items() if isinstance(value, dict | list)}
    return {name: value if isinstance(value, _PLAIN) else to_json(value) for name, value in told.items() if value}


_PLAIN = (str, bool, int, float, tuple)


def request(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a request as the record shows it."""
    settings = shown.get("settings") or {}
    told: dict[str, Any] = {"gen_ai.input.messages": messages(shown)}
    if shown.get("instructions"):
        told["gen_ai.system_instructions"] = [{"type": "text", "content": shown["instructions"]}]
    if shown.get("tools"):
        told["gen_ai.tool.definitions"] = [{"type": "function", **one} for one in shown["tools"]]
    for name in ("temperature", "max_tokens", "top_p", "seed"):
        if settings.get(name) is not None:
            told[f"gen_ai.request.{name}"] = settings[name]
    if settings.get("stop"):
        told["gen_ai.request.stop_sequences"] = tuple(settings["stop"])
    return told


def messages(shown: Any) -> list[dict[str, Any]] | None:
    """Return messages as the conventions write them."""
    if not isinstance(shown, Mapping):
        return None
    return [message(one) for one in shown.get("messages") or ()]


def message(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return one message as the conventions write it: a role, and parts."""
    if shown.get("tool_call_id"):
        answer = {"type": "tool_call_response", "id": shown["tool_call_id"], "response": shown.get("text", "")}
        return {"role": "tool", "parts": [answer]}
    parts: list[dict[str, Any]] = []
    if shown.get("reasoning"):
        parts.append({"type": "reasoning", "content": shown["reasoning"]})
    if shown.get("text"):
        parts.append({"type": "text", "content": shown["text"]})
    for part in shown.get("parts") or ():
        parts.append({**part, "type": part.get("type", "other")} if isinstance(part, Mapping) else {"type": "other"})
    for call in shown.get("tool_calls") or ():
        parts.append({"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call.get("args")})
    return {"role": shown.get("role", "user"), "parts": parts}
