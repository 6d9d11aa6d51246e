"""A request as the body of a call of the Gemini API.

Source: the API reference of `generateContent`, the guides to function calling and structured output, and the types of
the `google-genai` package 3.6, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

from interpose.errors import BadRequest
from interpose.models.google.history import generation, wire_contents
from interpose.models.google.names import wire_names
from interpose.models.schema_dialect import SchemaDialect, in_dialect
from interpose.request import ModelRequest
from interpose.text import to_json, to_jsonable

JSON_SCHEMA = SchemaDialect(
    keywords=frozenset(
        {"$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "description", "enum", "format", "items",
         "maxItems", "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties", "propertyOrdering",
         "required", "title", "type"}
    ),
    formats=frozenset({"date", "date-time", "time"}),
)  # fmt: skip
"""The part of JSON Schema that the API takes, for arguments and answers alike."""
REQUEST_OPTIONS = frozenset(
    {"extra_body", "extra_headers", "extra_query"}
)  # provider options that are no part of the body
TOP_LEVEL = frozenset(
    {"cachedContent", "contents", "continuationToken", "generationConfig", "labels", "safetySettings", "serviceTier",
     "store", "systemInstruction", "toolConfig", "tools"}
)  # fmt: skip
"""Fields of the body; other provider options are fields of its `generationConfig`."""
OWN_KEYS = frozenset({"labels", "responseJsonSchema", "responseSchema"})
"""Fields whose keys are the caller's own, and stay as they are."""
MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def to_wire(request: ModelRequest) -> dict[str, Any]:
    """Return the body of the call; the model's name is no part of it.

    Provider options are fields of the body, by their names in JSON (`safetySettings`, `cachedContent`), or else of its
    `generationConfig` (`thinkingConfig`, `topK`); objects are merged, and `tools` are added to those of the request.

    Raises:
        BadRequest: an option asks for the arguments of calls in pieces.
    """
    settings = request.settings
    names = wire_names(request.tools)
    newest = generation(request.model) >= 3
    system, contents = wire_contents(request.messages, names, needs_signatures=newest)
    config: dict[str, Any] = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "maxOutputTokens": settings.max_tokens,
        "stopSequences": list(settings.stop) if settings.stop else None,
        "seed": settings.seed,
    }
    told = _add_output(config, request, newest)
    texts = [text for text in (request.instructions, *system, told) if text.strip()]
    config = {key: value for key, value in config.items() if value is not None}
    body: dict[str, Any] = {"contents": contents}
    if texts:
        body["systemInstruction"] = {"parts": [{"text": "\n\n".join(texts)}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_function(tool, names[tool.name]) for tool in request.tools]}]
        calling = _calling(settings.tool_choice, names)
        if calling:
            body["toolConfig"] = {"functionCallingConfig": calling}
    if config:
        body["generationConfig"] = config
    body = _with_options(body, settings.provider_options)
    for key, value in to_jsonable(settings.provider_options.get("extra_body") or {}).items():
        body[key] = _merged(body.get(key), value)
    if _pieces_are_asked_for(body):
        raise BadRequest(
            "arguments of calls that come in pieces are not read; leave streamFunctionCallArguments out",
            provider=request.provider,
            model=request.model,
        )
    return body


def _pieces_are_asked_for(body: Mapping[str, Any]) -> bool:
    config = body.get("toolConfig")
    calling = config.get("functionCallingConfig") if isinstance(config, Mapping) else None
    return isinstance(calling, Mapping) and bool(calling.get("streamFunctionCallArguments"))


def _add_output(config: dict[str, Any], request: ModelRequest, newest: bool) -> str:
    """Ask for the output schema, and return what must be said about it in words."""
    schema = request.output_schema
    if schema is None:
        return ""
    if request.tools and not newest:  # older models take a schema or functions
        return f"When you give the final answer, give only JSON that fits this schema: {to_json(schema)}"
    config["responseMimeType"] = "application/json"
    config["responseJsonSchema"] = in_dialect(schema, JSON_SCHEMA)
    return ""


def _function(tool: Any, name: str) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters.get("properties"):  # an object without any is refused, and may be left out
        function["parametersJsonSchema"] = in_dialect(tool.parameters, JSON_SCHEMA)
    return function


def _calling(choice: str | None, names: Mapping[str, str]) -> dict[str, Any]:
    if choice is not None and choice in names:
        return {"mode": "ANY", "allowedFunctionNames": [names[choice]]}
    return {"mode": MODES[choice]} if choice in MODES else {}


def _with_options(body: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    for given, value in to_jsonable(dict(options)).items():
        key = _camel(given)
        if given in REQUEST_OPTIONS:
            continue
        if key == "tools":
            body["tools"] = [*body.get("tools", ()), *value]
        elif key in OWN_KEYS:
            body[key] = value
        elif key in TOP_LEVEL:
            body[key] = _merged(body.get(key), value)
        else:
            body["generationConfig"] = _merged(body.get("generationConfig"), {key: value})
    return body


def _merged(there: Any, given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    merged = dict(there) if isinstance(there, dict) else {}
    for name, value in given.items():
        key = _camel(name)
        merged[key] = value if key in OWN_KEYS else _merged(merged.get(key), value)
    return merged


def _camel(key: str) -> str:
    """Return a field as JSON has it; the SDK's Python names (`thinking_config`) are taken too."""
    head, *rest = key.split("_")
    return head + "".join(word.capitalize() for word in rest)
