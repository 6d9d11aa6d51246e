"""A request as the engine takes it, and the engine's chunks as ours.

A model of 135M parameters neither decides when to call a tool nor keeps to a format by itself. So under the policy
"first" the decision is made here, and the format is forced by a grammar:
- tool choice "required" or a tool's name: one call, of the tools on offer or of that one;
- "auto": one call where no tool has answered since the newest user message and this is not the run's final step;
  after that the results stand beside the question as data, and the model answers in words;
- an output schema: JSON that fits it, once no call is due.
Under "model", for larger models, the tools go into the prompt and the model decides; a required call is forced as well.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, assert_never

from msgspec import Struct

from interpose.errors import ContextTooLong, ProviderError
from interpose.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from interpose.models.base import Finish, ModelChunk, ReasoningDelta, TextDelta, ToolCallDelta, UsageUpdate
from interpose.models.local.schema import call_schema, output_schema
from interpose.request import ModelRequest, Usage
from interpose.text import to_jsonable

ToolPolicy = Literal["first", "model"]

CALL_HEAD = "You can call these functions:"
CALL_HINT = "Reply with JSON that names one function and gives its arguments."
ANSWER_HINT = "Answer in one short sentence, using the data that you are given."
UNSEEN = {"image": "(a picture)", "audio": "(a sound)", "file": "(a document)"}
FINISH_REASONS = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}


class Plan(Struct, frozen=True):
    """How a request is answered: the engine's *body*, and whether its text is a forced call."""

    body: dict[str, Any]
    is_call: bool = False


def to_wire(request: ModelRequest, policy: ToolPolicy, max_output_tokens: int) -> Plan:
    """Return how to answer *request*. The temperature is 0 unless the settings say otherwise."""
    settings = request.settings
    limit = min(settings.max_tokens or max_output_tokens, max_output_tokens)
    body: dict[str, Any] = {
        "temperature": settings.temperature if settings.temperature is not None else 0,
        "max_tokens": limit,
        "top_p": settings.top_p,
        "stop": list(settings.stop) if settings.stop else None,
        "seed": settings.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,  # chunks while the prompt is read, between which the call can be stopped
        **to_jsonable(dict(settings.provider_options)),
    }
    body = {key: value for key, value in body.items() if value is not None}
    wants_json = request.output_schema is not None
    called = _tools_to_call(request, policy)
    if called:
        hint = "\n".join([CALL_HEAD, *map(_described, called), CALL_HINT])
        forced = {"messages": chat(request, hint), "response_format": _format("call", call_schema(called))}
        return Plan(body | forced, is_call=True)
    offered = _tools_on_offer(request) if policy == "model" else ()
    if offered and not (wants_json and _is_answered(request.messages)):
        tools = [_function(tool) for tool in offered]
        return Plan(body | {"messages": turns(request), "tools": tools, "parallel_tool_calls": False})
    if request.output_schema is not None:
        body["response_format"] = _format("output", output_schema(request.output_schema))
    has_data = bool(request.messages) and isinstance(request.messages[-1], ToolMessage)
    hint = ANSWER_HINT if has_data and not wants_json else ""
    return Plan(body | {"messages": chat(request, hint) if policy == "first" else turns(request)})


def _tools_on_offer(request: ModelRequest) -> tuple[Any, ...]:
    is_over = request.is_final_step or request.settings.tool_choice == "none"
    return () if is_over else request.tools


def _tools_to_call(request: ModelRequest, policy: ToolPolicy) -> tuple[Any, ...]:
    """Return the tools of which one has to be called now; none where the model is free, or words are due."""
    choice = request.settings.tool_choice
    if choice not in (None, "auto", "none"):
        return tuple([tool for tool in request.tools if choice in ("required", tool.name)])
    return () if policy == "model" or _is_answered(request.messages) else _tools_on_offer(request)


def _is_answered(messages: Sequence[Message]) -> bool:
    """Whether a tool has answered since the newest user message."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            return True
        if isinstance(message, UserMessage):
            return False
    return False


def _format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


def _described(tool: Any) -> str:
    parameters = ", ".join(tool.parameters.get("properties") or ())
    about = " ".join(tool.description.split())
    return f"{tool.name}({parameters}): {about}" if about else f"{tool.name}({parameters})"


def _function(tool: Any) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": to_jsonable(tool.parameters)}
    return {"type": "function", "function": function}


def _system(request: ModelRequest, hint: str) -> list[dict[str, Any]]:
    """Return one system message of the instructions, the conversation's leading system messages, and *hint*."""
    texts = [request.instructions, *(message.text for message in _leading(request.messages)), hint]
    text = "\n\n".join(text for text in texts if text)
    return [{"role": "system", "content": text}] if text else []


def _leading(messages: Sequence[Message]) -> Iterable[Message]:
    for message in messages:
        if not isinstance(message, SystemMessage):
            return
        yield message


def chat(request: ModelRequest, hint: str) -> list[dict[str, Any]]:
    """Return the conversation as plain talk: calls are left out, and results stand under the question as data."""
    wire = _system(request, hint)
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    for message in request.messages[len(list(_leading(request.messages))) :]:
        match message:
            case SystemMessage():
                wire.append({"role": "system", "content": message.text})
            case UserMessage():
                wire.append({"role": "user", "content": _said(message)})
            case AssistantMessage():
                if message.text:
                    wire.append({"role": "assistant", "content": message.text})
            case ToolMessage():
                data = f"Data from {names.get(message.tool_call_id) or 'a function'}: {_said(message)}"
                if wire and wire[-1]["role"] == "user":
                    wire[-1] = {"role": "user", "content": f"{wire[-1]['content']}\n{data}"}
                else:
                    wire.append({"role": "user", "content": data})
            case _:
                assert_never(message)
    return wire


def turns(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the conversation with its calls and results, for a template that knows them."""
    wire = _system(request, "")
    for message in request.messages[len(list(_leading(request.messages))) :]:
        turn: dict[str, Any] = {"role": message.role, "content": _said(message)}
        if message.tool_calls:
            turn["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args_json}}
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            turn["tool_call_id"] = message.tool_call_id
        wire.append(turn)
    return wire


def _said(message: Message) -> str:
    """Return the text of a message, with a word in place of each part that a text model cannot see."""
    parts = getattr(message, "parts", ())
    unseen = [UNSEEN[kind] for part in parts if (kind := part.__struct_config__.tag) in UNSEEN]
    return "\n".join(text for text in (message.text, *unseen) if text)


def from_wire(chunk: Mapping[str, Any]) -> Iterator[ModelChunk]:
    """Yield what a chunk of the engine says; `Finish` comes before the usage, as it does there."""
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("reasoning_content"):
            yield ReasoningDelta(delta["reasoning_content"])
        if delta.get("content"):
            yield TextDelta(delta["content"])
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            yield ToolCallDelta(call.get("index"), None, function.get("name"), function.get("arguments") or "")
        if choice.get("finish_reason"):
            yield Finish(FINISH_REASONS.get(choice["finish_reason"], "unknown"))
    usage = chunk.get("usage")
    if usage:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        total = usage.get("total_tokens")
        yield UsageUpdate(Usage(usage.get("prompt_tokens"), usage.get("completion_tokens"), total, cached))


def to_error(told: Any, model: str) -> ProviderError:
    """Return the engine's own error as one of ours."""
    detail: Mapping[str, Any] = told if isinstance(told, Mapping) else {"message": str(told)}
    message, code = str(detail.get("message") or told), detail.get("type")
    if code == "exceed_context_size_error":
        return ContextTooLong(
            f"local:{model}: the request has {detail.get('n_prompt_tokens')} tokens, the context holds "
            f"{detail.get('n_ctx')}. Shorten the history, with ContextWindow(...) for instance, or give "
            "LocalModel(context_tokens=...).",
            provider="local",
            model=model,
            code=code,
        )
    return ProviderError(f"local:{model}: the engine failed: {message}", provider="local", model=model, code=code)


class CallText:
    """The text of a forced call, as it comes, turned into pieces of a tool call: the name, then the arguments."""

    HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"]*)"\s*,\s*"arguments"\s*:\s*')

    def __init__(self) -> None:
        self._held = ""
        self._is_named = False

    def read(self, text: str) -> Iterator[ToolCallDelta]:
        """Yield what is certain by now; the brace that closes the whole is never given out."""
        self._held += text
        if not self._is_named:
            head = self.HEAD.match(self._held)
            if head is None:
                return
            self._is_named = True
            self._held = self._held[head.end() :]
            yield ToolCallDelta(0, None, head[1])
        end = len(self._held.rstrip())
        if self._held[:end].endswith("}"):
            end -= 1  # perhaps the last one
        if end and self._held[:end].strip():
            given, self._held = self._held[:end], self._held[end:]
            yield ToolCallDelta(0, args=given)
