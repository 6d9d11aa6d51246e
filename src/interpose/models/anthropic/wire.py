"""A request as the body of a call of the Messages API.

Source: the API reference of Messages and the types of the `anthropic` package 2.14, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

from interpose.models.anthropic.history import wire_messages
from interpose.models.anthropic.output import output_format, output_tool
from interpose.models.wire_names import wire_names
from interpose.request import ModelRequest
from interpose.text import to_json, to_jsonable

DEFAULT_MAX_TOKENS = 4096  # the API wants a limit; every model it serves can answer at this length
REQUEST_OPTIONS = frozenset(
    {"betas", "extra_body", "extra_headers", "extra_query"}
)  # provider options that are no part of the body
CACHE_OPTIONS = frozenset({"cache_instructions", "cache_tools"})
EPHEMERAL = {"type": "ephemeral"}


def to_wire(
    request: ModelRequest, *, max_tokens: int = DEFAULT_MAX_TOKENS, native_output: bool = True
) -> dict[str, Any]:
    """Return the body of the call, without what says whether it streams.

    *max_tokens* is the limit where the settings have none. With *native_output* the model takes an output schema in
    the call; otherwise its answer is asked for as the arguments of a tool (see `forced_output`), or in words. Provider
    options go into the body as they are, over everything else, but for `tools`, which are added to those of the
    request, and `output_config`, which is merged; `cache_instructions` and `cache_tools` mark the end of both for the
    prompt cache (true, or a `cache_control` of one's own).

    Raises:
        BadRequest: a part that this API has no form for (audio).
    """
    settings = request.settings
    given = settings.provider_options
    options = {key: value for key, value in given.items() if key not in REQUEST_OPTIONS} | (
        given.get("extra_body") or {}
    )
    names = wire_names(request.tools)
    system, messages = wire_messages(request, names)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": max_tokens if settings.max_tokens is None else settings.max_tokens,
        "messages": messages,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": list(settings.stop) if settings.stop else None,
        "tools": [*_tools(request, names), *(options.pop("tools", None) or ())],
        "tool_choice": _tool_choice(request, names) if request.tools else None,
    }
    told = _add_output(body, request, native_output)
    texts = [text for text in (request.instructions, *system, told) if text.strip()]
    body["system"] = "\n\n".join(texts)
    _mark(body, {key: options.pop(key) for key in CACHE_OPTIONS & options.keys()})
    body = {key: value for key, value in body.items() if value not in (None, "", [])}
    if "output_config" in body and isinstance(options.get("output_config"), Mapping):
        options["output_config"] = {**body["output_config"], **options["output_config"]}
    return {**body, **to_jsonable(options)}


def forced_output(request: ModelRequest, *, native_output: bool = True) -> str | None:
    """Return the name of the tool whose arguments are the answer, or None where the answer is text."""
    schema = request.output_schema
    if schema is None or request.tools or schema.get("type") != "object" or _thinks(request):
        return None
    return None if native_output and output_format(schema) is not None else output_tool(schema)["name"]


def _thinks(request: ModelRequest) -> bool:
    """Whether the model is told to think, which rules out a forced tool."""
    thinking = request.settings.provider_options.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") not in (None, "disabled")


def _add_output(body: dict[str, Any], request: ModelRequest, native_output: bool) -> str:
    """Ask for the output schema, and return what must be said about it in words."""
    schema = request.output_schema
    if schema is None:
        return ""
    fitting = output_format(schema) if native_output else None
    if fitting is not None:
        body["output_config"] = {"format": fitting}
        return ""
    name = forced_output(request, native_output=native_output)
    if name is None:
        return f"Answer only with JSON that fits this schema: {to_json(schema)}"
    body["tools"] = [*body["tools"], output_tool(schema)]
    body["tool_choice"] = {"type": "tool", "name": name, "disable_parallel_tool_use": True}
    return ""


def _tools(request: ModelRequest, names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [_tool(tool, names[tool.name]) for tool in request.tools]


def _tool(tool: Any, name: str) -> dict[str, Any]:
    schema = to_jsonable(tool.parameters)
    wire = {"name": name, "description": tool.description, "input_schema": {"type": "object", **schema}}
    if not tool.description:
        del wire["description"]
    return wire


def _tool_choice(request: ModelRequest, names: Mapping[str, str]) -> dict[str, Any] | None:
    choice, parallel = request.settings.tool_choice, request.settings.parallel_tool_calls
    wire: dict[str, Any] | None = None
    if choice is not None and choice in names:
        wire = {"type": "tool", "name": names[choice]}
    elif choice in ("auto", "none", "required"):
        wire = {"type": {"required": "any"}.get(choice, choice)}
    if parallel is None or choice == "none":
        return wire
    return {**(wire or {"type": "auto"}), "disable_parallel_tool_use": not parallel}


def _mark(body: dict[str, Any], marks: Mapping[str, Any]) -> None:
    """Mark the end of the tools, or of the instructions, as what the prompt cache should keep."""
    tools = marks.get("cache_tools")
    if tools and body["tools"]:
        body["tools"] = [*body["tools"][:-1], {**body["tools"][-1], "cache_control": _control(tools)}]
    instructions = marks.get("cache_instructions")
    if instructions and body["system"]:
        body["system"] = [{"type": "text", "text": body["system"], "cache_control": _control(instructions)}]


def _control(given: Any) -> Any:
    return EPHEMERAL if given is True else to_jsonable(given)
