"""Chat Completions on the wire: a request as its JSON body, and a chunk or a whole completion as our chunks.

Source: the API reference of Chat Completions and the types of the `openai` package 3.57, read 2026-11.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from interpose.models.base import (
    Finish,
    MessageStart,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from interpose.models.openai.dialect import OFFICIAL, Dialect
from interpose.models.openai.history import wire_messages
from interpose.models.openai.strict import is_strict
from interpose.models.wire_names import schema_name, wire_names
from interpose.request import ModelRequest, Usage
from interpose.text import to_json, to_jsonable

REQUEST_OPTIONS = frozenset({"extra_headers", "extra_query"})  # provider options that are no part of the body

FINISH_REASONS = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",  # compatible routers, when the server behind them failed
}


def to_wire(request: ModelRequest, dialect: Dialect = OFFICIAL) -> dict[str, Any]:
    """Return the body of the call, without what says whether it streams.

    Provider options go into the body as they are, over everything else.

    Raises:
        BadRequest: a part that this API has no form for (audio or a document by URL).
    """
    settings = request.settings
    names = wire_names(request.tools)
    schema = request.output_schema
    as_format = schema is not None and schema.get("type") == "object"
    # The API takes objects only; any other schema is told in words, and the engine checks the answer in both cases.
    told = f"Answer only with JSON that fits this schema: {to_json(schema)}" if schema and not as_format else ""
    instructions = "\n\n".join(text for text in (request.instructions, told) if text)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": wire_messages(request, instructions, names, dialect),
        "temperature": settings.temperature,
        dialect.max_tokens_field: settings.max_tokens,
        "top_p": settings.top_p,
        "stop": list(settings.stop) if settings.stop else None,
        "seed": settings.seed,
        "response_format": _response_format(schema) if schema is not None and as_format else None,
    }
    if request.tools:
        body["tools"] = [_tool(tool, names[tool.name]) for tool in request.tools]
        body["tool_choice"] = _tool_choice(settings.tool_choice, names)
        body["parallel_tool_calls"] = settings.parallel_tool_calls
    body = {key: value for key, value in body.items() if value is not None}
    options = {key: value for key, value in settings.provider_options.items() if key not in REQUEST_OPTIONS}
    return {**body, **to_jsonable(options)}


def _tool(tool: Any, name: str) -> dict[str, Any]:
    function = {"name": name, "description": tool.description, "parameters": to_jsonable(tool.parameters)}
    if not tool.description:
        del function["description"]
    return {"type": "function", "function": function}


def _tool_choice(choice: str | None, names: Mapping[str, str]) -> Any:
    if choice is not None and choice in names:
        return {"type": "function", "function": {"name": names[choice]}}
    return choice if choice in ("auto", "none", "required") else None  # a tool that is no longer offered forces nothing


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    plain = to_jsonable(schema)
    named: dict[str, Any] = {"name": schema_name(schema), "schema": plain}
    if is_strict(plain):
        named["strict"] = True
    return {"type": "json_schema", "json_schema": named}


def from_wire(chunk: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Iterator[ModelChunk]:
    """Yield what a chunk, or a whole completion, says; of several choices only the first is read.

    *names* maps the names on the wire to those of the tools. `Finish` may come before the usage, as it does on the
    wire: the caller holds it back until the end.
    """
    choices = [choice for choice in chunk.get("choices") or () if not choice.get("index")]
    for choice in choices[:1]:
        if chunk.get("id"):
            yield MessageStart(str(chunk["id"]))
        whole = choice.get("message")
        yield from _delta(choice.get("delta") or whole or {}, names or {}, whole is not None)
        if choice.get("finish_reason"):
            yield Finish(FINISH_REASONS.get(choice["finish_reason"], "unknown"))
    if isinstance(chunk.get("usage"), Mapping):
        yield UsageUpdate(usage_of(chunk["usage"]))


def _delta(delta: Mapping[str, Any], names: Mapping[str, str], whole: bool) -> Iterator[ModelChunk]:
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")  # two spellings of compatible servers
    if reasoning and isinstance(reasoning, str):
        yield ReasoningDelta(reasoning)
    for text in (_text(delta.get("content")), delta.get("refusal")):
        if text:
            yield TextDelta(text)
    for position, call in enumerate(delta.get("tool_calls") or ()):
        function = call.get("function") or {}
        args = function.get("arguments")
        name = function.get("name") or ""
        yield ToolCallDelta(
            index=call.get("index", position if whole else None),
            id=call.get("id") or None,
            name=names.get(name, name) or None,
            args=args if isinstance(args, str) else "" if args is None else to_json(args),
        )


def _text(content: Any) -> str:
    if isinstance(content, list):  # some compatible servers answer in parts
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content or ""


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return the usage that a completion tells; details that are not told stay unknown."""
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        total_tokens=usage.get("total_tokens"),
        cache_read_tokens=prompt.get("cached_tokens"),
        cache_write_tokens=prompt.get("cache_write_tokens"),
        reasoning_tokens=completion.get("reasoning_tokens"),
    )
