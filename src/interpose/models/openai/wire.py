"""A request as the JSON body of Chat Completions.

Source: the API reference of Chat Completions and the types of the `openai` package 3.57, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

from interpose.models.openai.dialect import OFFICIAL, Dialect
from interpose.models.openai.history import wire_messages
from interpose.models.openai.strict import is_strict
from interpose.models.wire_names import schema_name, wire_names
from interpose.request import ModelRequest
from interpose.text import to_json, to_jsonable

REQUEST_OPTIONS = frozenset(
    {"extra_headers", "extra_query", "extra_body"}
)  # provider options that are no part of the body


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
    return {**body, **body_options(settings.provider_options)}


def body_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provider options that go into the body, those under `extra_body` too."""
    options = {key: value for key, value in given.items() if key not in REQUEST_OPTIONS}
    return {**to_jsonable(options), **to_jsonable(given.get("extra_body") or {})}


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
