"""A request as the JSON body of Responses.

Source: the API reference of Responses and the types of the `openai` package 3.57, read 2026-11.
"""

import re
from collections.abc import Mapping
from typing import Any

from interpose.errors import BadRequest
from interpose.models.openai.responses.history import wire_input
from interpose.models.openai.strict import is_strict
from interpose.models.openai.wire import body_options
from interpose.models.wire_names import schema_name, wire_names
from interpose.request import ModelRequest
from interpose.text import to_json, to_jsonable

ENCRYPTED = "reasoning.encrypted_content"
_WITHOUT_REASONING = re.compile(r"(ft:)?(gpt-3|gpt-4|chatgpt|gpt-5[^:]*-chat)")
"""Names of models that do not reason, and refuse to be asked for encrypted reasoning."""


def to_wire(request: ModelRequest, *, store: bool = False) -> dict[str, Any]:
    """Return the body of the call, without what says whether it streams.

    Provider options go into the body: `tools` and `include` are added to those that are there, objects are merged,
    anything else goes over what is there. `seed` is left out, as this API has none.

    Raises:
        BadRequest: stop sequences, or a part that this API has no form for.
    """
    settings = request.settings
    if settings.stop:
        raise BadRequest(
            "Responses takes no stop sequences; leave stop= out, or use Chat Completions ('openai:...', OpenAIChat)",
            provider=request.provider,
            model=request.model,
        )
    names = wire_names(request.tools)
    options = body_options(settings.provider_options)
    stored = bool(options.get("store", store))
    schema = request.output_schema
    as_format = schema is not None and schema.get("type") == "object"
    # The API takes objects only; any other schema is told in words, and the engine checks the answer in both cases.
    told = f"Answer only with JSON that fits this schema: {to_json(schema)}" if schema and not as_format else ""
    instructions = "\n\n".join(text for text in (request.instructions, told) if text)
    body: dict[str, Any] = {
        "model": request.model,
        "input": wire_input(request, names, stored),
        "instructions": instructions or None,
        "temperature": settings.temperature,
        "max_output_tokens": settings.max_tokens,
        "top_p": settings.top_p,
        "text": {"format": _format(schema)} if schema is not None and as_format else None,
        "store": store,
        "include": None if stored or _WITHOUT_REASONING.match(request.model) else [ENCRYPTED],
        "tools": [_tool(tool, names[tool.name]) for tool in request.tools] or None,
    }
    if request.tools or options.get("tools"):
        body["tool_choice"] = _tool_choice(settings.tool_choice, names)
        body["parallel_tool_calls"] = settings.parallel_tool_calls
    return _with_options({key: value for key, value in body.items() if value is not None}, options)


def _with_options(body: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in options.items():
        old = body.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            body[key] = {**old, **value}
        elif key in ("tools", "include") and isinstance(old, list) and isinstance(value, list):
            body[key] = [*old, *[one for one in value if one not in old]]
        else:
            body[key] = value
    return body


def _tool(tool: Any, name: str) -> dict[str, Any]:
    wire = {
        "type": "function",
        "name": name,
        "description": tool.description,
        "parameters": to_jsonable(tool.parameters),
    }
    if not tool.description:
        del wire["description"]
    # Strict by default in this API, which refuses most schemas then; arguments are validated by the engine.
    return {**wire, "strict": False}


def _tool_choice(choice: str | None, names: Mapping[str, str]) -> Any:
    if choice is not None and choice in names:
        return {"type": "function", "name": names[choice]}
    return choice if choice in ("auto", "none", "required") else None  # a tool that is no longer offered forces nothing


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    plain = to_jsonable(schema)
    return {"type": "json_schema", "name": schema_name(schema), "schema": plain, "strict": is_strict(plain)}
