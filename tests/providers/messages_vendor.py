"""Anthropic's Messages API as the vendor plays it, strict.

Sources: the API reference, the types of the SDK, and the shapes of recorded answers, read 2026-11.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.providers.typed_dicts import problems_of
from tests.providers.wire_server import Asked, Reply, event, json_reply

from interpose.errors import AuthFailed, BadRequest, ContextTooLong, ProviderDown, ProviderError, RateLimited
from interpose.models import AnthropicMessages, ModelProfile
from interpose.request import Usage
from interpose.testing.model_contract import FEATURES, Answer, Call, Heard, Refusal, Said, Thought

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]+")
MODEL = "claude-sonnet-5"
WORDS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
SAMPLING = {"temperature", "top_p", "top_k"}  # taken in the older version of the API only
STREAM = "text/event-stream; charset=utf-8"

REFUSALS: dict[type[ProviderError], tuple[int, str, str]] = {
    RateLimited: (429, "rate_limit_error", ""),
    ContextTooLong: (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum. "),
    AuthFailed: (401, "authentication_error", ""),
    BadRequest: (400, "invalid_request_error", ""),
    ProviderDown: (529, "overloaded_error", ""),
}


class MessagesVendor:
    """The official API: what its types do not have is refused."""

    features = FEATURES - {"broken_arguments", "mixed_calls"}
    native_output = True

    def model(self, origin: str) -> AnthropicMessages:
        profile = ModelProfile(max_output_tokens=8192, supports_structured_output=self.native_output)
        return AnthropicMessages(MODEL, base_url=origin, api_key="sk-ant-test", profile=profile)

    # What it refuses.

    def problems(self, asked: Asked) -> list[str]:
        from anthropic.types.message_create_params import MessageCreateParams

        body = {key: value for key, value in asked.body.items() if key not in SAMPLING}
        problems = [*_head_problems(asked), *problems_of(body, MessageCreateParams)]
        return problems or [*_field_problems(body), *_turn_problems(body["messages"])]

    # What it hears.

    def heard(self, asked: Asked) -> Heard:
        body = asked.body
        choice = body.get("tool_choice") or {}
        schema = (body.get("output_config") or {}).get("format", {}).get("schema")
        tools = body.get("tools", [])
        if schema is None and choice.get("name") in ("output", "My_Answer"):
            schema, tools, choice = tools[-1]["input_schema"], tools[:-1], {}
        system = body.get("system") or []
        system = [{"text": system}] if isinstance(system, str) else system
        turns = [("system", block["text"]) for block in system]
        for turn in body["messages"]:
            content = turn["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            turns += [part for block in blocks for part in _heard(turn["role"], block)]
        return Heard(
            model=body["model"],
            turns=tuple(turns),
            tools=tuple([tool["name"] for tool in tools]),
            tool_choice="required" if choice.get("type") == "any" else choice.get("name") or choice.get("type"),
            output_schema=schema,
            stop=tuple(body.get("stop_sequences", ())),
            max_tokens=body["max_tokens"],
            temperature=body.get("temperature"),
            is_stream=body.get("stream", False),
        )

    # What it says.

    def answer(self, answer: Answer, heard: Heard) -> Reply:
        if not heard.is_stream:
            return json_reply(_message(answer))
        events = [*_head(answer), *_blocks(answer)]
        if answer.ends == "well":
            delta = {"stop_reason": _word(answer), "stop_sequence": None}
            usage: dict[str, Any] = {"output_tokens": answer.usage.output_tokens} if answer.usage else {}
            if answer.usage and answer.usage.reasoning_tokens is not None:
                usage["output_tokens_details"] = {"thinking_tokens": answer.usage.reasoning_tokens}
            events += [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
        end: Any = {"cut": "cut", "silent": "hang"}.get(answer.ends, "close")
        return Reply(content_type=STREAM, payload=payload_of(*events), piece_bytes=answer.piece_bytes, end=end)

    def refusal(self, refusal: Refusal, heard: Heard) -> Reply:
        status, kind, before = REFUSALS[refusal.kind]
        headers = {"request-id": refusal.request_id or "req_011CSHoEeqs5C35K2UUqR7Fy"}
        if refusal.retry_after is not None:
            headers["retry-after"] = refusal.retry_after
        error = {"type": "error", "error": {"type": kind, "message": before + refusal.message}}
        if refusal.after and heard.is_stream:
            said = Answer(parts=(Said(pieces=(refusal.after,)),))
            events = [*_head(said), *[one for one in _blocks(said) if one["type"] != "content_block_stop"], error]
            return Reply(content_type=STREAM, payload=payload_of(*events), headers=headers)
        return json_reply({**error, "request_id": headers["request-id"]}, status, headers=headers)


class OlderVendor(MessagesVendor):
    """A model, or a compatible server, that takes no schema for its answer: it is asked for with a tool."""

    native_output = False


def payload_of(*events: dict[str, Any]) -> bytes:
    """Return the bytes of a stream, each event under its name."""
    return b"".join([event(one, one["type"]) for one in events])


def _head_problems(asked: Asked) -> Iterator[str]:
    if (asked.method, asked.path) != ("POST", "/v1/messages"):
        yield f"no such place: {asked.method} {asked.path}"
    if asked.headers.get("anthropic-version") not in ("2023-06-01", "2026-10-21"):
        yield f"anthropic-version {asked.headers.get('anthropic-version')}"
    if SAMPLING & asked.body.keys() and asked.headers.get("anthropic-version") != "2023-06-01":
        yield f"{SAMPLING & asked.body.keys()}: Extra inputs are not permitted"
    if not (asked.headers.get("x-api-key") or asked.headers.get("authorization", "").startswith("Bearer ")):
        yield "no key"
    if asked.headers.get("content-type") != "application/json":
        yield f"content-type {asked.headers.get('content-type')}"


def _field_problems(body: dict[str, Any]) -> Iterator[str]:
    names = [tool["name"] for tool in body.get("tools", ())]
    yield from [f"tool name {name!r}" for name in names if not NAME.fullmatch(name)]
    if len(set(names)) < len(names):
        yield f"tool names occur twice: {names}"
    choice = body.get("tool_choice")
    if choice and not names:
        yield "tool_choice without tools"
    if choice and choice["type"] == "tool" and choice["name"] not in names:
        yield f"tool_choice {choice['name']!r} is not among the tools"
    for tool in body.get("tools", ()):
        if "input_schema" in tool and tool["input_schema"].get("type") != "object":
            yield f"input_schema of {tool['name']!r} is no object"
    yield from _schema_problems((body.get("output_config") or {}).get("format", {}).get("schema", {}))
    if not 1 <= body["max_tokens"] <= 128_000:
        yield f"max_tokens {body['max_tokens']}"


def _schema_problems(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _schema_problems(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            yield "output_config: for 'object' type, 'additionalProperties' must be explicitly set to false"
        for key in ("minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems", "oneOf"):
            if key in schema and not isinstance(schema[key], dict):
                yield f"output_config: property {key!r} is not supported"
        for item in schema.values():
            yield from _schema_problems(item)


def _of(turn: dict[str, Any]) -> list[dict[str, Any]]:
    content = turn["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _turn_problems(turns: list[dict[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    if not turns or turns[0]["role"] != "user":
        yield "first message must use the user role"
    for number, turn in enumerate(turns):
        blocks = _of(turn)
        where = f"messages.{number}"
        if number and turns[number - 1]["role"] == turn["role"]:
            yield f"{where}: roles must alternate"
        if not blocks:
            yield f"{where}: content is empty"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            yield f"{where}: tool_use ids {waiting} need their results right after, got {results}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"{where}: tool_result blocks must come first"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting):
            yield f"{where}: tool_use ids must be unique"
        for block in blocks:
            yield from _block_problems(block, where)
    if waiting:
        yield f"tool_use ids {waiting} have no results"
    last = _of(turns[-1])[-1]
    if turns[-1]["role"] == "assistant" and last["type"] == "text" and last["text"] != last["text"].rstrip():
        yield "final assistant content cannot end with trailing whitespace"


def _block_problems(block: dict[str, Any], where: str) -> Iterator[str]:
    if block["type"] == "text" and not block["text"].strip():
        yield f"{where}: text content blocks must contain non-whitespace text"
    if block["type"] == "tool_use" and not (ID.fullmatch(block["id"]) and NAME.fullmatch(block["name"])):
        yield f"{where}: tool_use {block['id']!r} {block['name']!r}"
    if block["type"] == "thinking" and not block["signature"]:
        yield f"{where}: thinking without its signature"
    if isinstance(block.get("content"), list):
        for inner in block["content"]:
            yield from _block_problems(inner, where)


def _heard(role: str, block: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    match block["type"]:
        case "text":
            yield (role, block["text"])
        case "thinking":
            yield ("thought", block["thinking"], block["signature"])
        case "tool_use":
            yield ("call", block["id"], block["name"], block["input"])
        case "image":
            source = block["source"]
            yield ("image", source.get("media_type"), source.get("data") or source.get("url"))
        case "tool_result":
            content = block.get("content", "")
            inner = [{"type": "text", "text": content}] if isinstance(content, str) else content
            yield ("result", block["tool_use_id"], "".join(one["text"] for one in inner if one["type"] == "text"))
            for one in inner:
                if one["type"] != "text":
                    yield from _heard(role, one)
        case kind:
            yield (kind, json.dumps(block))


def _word(answer: Answer) -> str:
    return WORDS.get(answer.reason, "pause_turn")


def _usage(usage: Usage | None, is_start: bool = False) -> dict[str, Any]:
    if usage is None:
        return {}
    told: dict[str, Any] = {"input_tokens": (usage.input_tokens or 0) - (usage.cache_read_tokens or 0)}
    if usage.cache_read_tokens is not None:
        told["cache_read_input_tokens"] = usage.cache_read_tokens
    told["output_tokens"] = 1 if is_start else usage.output_tokens
    if usage.reasoning_tokens is not None and not is_start:
        told["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return {**told, "service_tier": "standard"}


def _message(answer: Answer) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for part in answer.parts:
        match part:
            case Thought():
                blocks.append({"type": "thinking", "thinking": part.text, "signature": part.signature or ""})
            case Said():
                text = "".join(part.pieces) or part.text
                blocks.append(
                    {"type": "text", "text": text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")}
                )
            case Call():
                blocks.append(
                    {"type": "tool_use", "id": part.id, "name": part.name, "input": json.loads(part.args or "{}")}
                )
    return {
        "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": blocks,
        "stop_reason": _word(answer),
        "stop_sequence": None,
        "usage": _usage(answer.usage),
    }


def _head(answer: Answer) -> list[dict[str, Any]]:
    message = {**_message(answer), "content": [], "stop_reason": None, "usage": _usage(answer.usage, is_start=True)}
    return [{"type": "message_start", "message": message}, {"type": "ping"}]


def _blocks(answer: Answer) -> Iterator[dict[str, Any]]:
    for index, part in enumerate(answer.parts):
        start, deltas = _block(part)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if answer.ends == "well" or index + 1 < len(answer.parts):
            yield {"type": "content_block_stop", "index": index}


def _block(part: Thought | Said | Call) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match part:
        case Thought():
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _halves(part.text)]
            signed = [{"type": "signature_delta", "signature": part.signature}] if part.signature else []
            return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, *signed]
        case Said():
            pieces = [piece for piece in part.pieces if piece] or _halves(part.text)
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case Call():
            pieces = ["", *_halves(part.args)]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}, deltas


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]
