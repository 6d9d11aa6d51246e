"""OpenAI's Responses as the vendor plays it.

Sources: the API reference, the types of the SDK, and the shapes of recorded answers, read 2026-11.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.providers.openai_shared import (
    NAME,
    error_body,
    halves,
    head_problems,
    image_turn,
    pieces_of,
    refused,
    schema_problems,
    tool_problems,
    whole,
)
from tests.providers.typed_dicts import problems_of
from tests.providers.wire_server import Asked, Reply, event, json_reply

from interpose.models import OpenAIResponses
from interpose.request import Usage
from interpose.testing.model_contract import FEATURES, Answer, Call, Heard, Refusal, Said, Thought

MAX_ID_LENGTH = 64
SUMMARY_BREAK = "\n\n"  # what stands between two summaries of one item, where they are shown as one text
ID = "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b"


class ResponsesVendor:
    """The official API, strict: what its types do not have is refused."""

    features = FEATURES - {"stop"}

    def model(self, origin: str) -> OpenAIResponses:
        return OpenAIResponses("gpt-5.5", base_url=f"{origin}/v1", api_key="sk-test")

    # What it refuses.

    def problems(self, asked: Asked) -> list[str]:
        from openai.types.responses.response_create_params import ResponseCreateParams

        body = asked.body
        problems = head_problems(asked, "/v1/responses") + problems_of(body, ResponseCreateParams)
        return problems or [*_field_problems(body), *_item_problems(body["input"])]

    # What it hears.

    def heard(self, asked: Asked) -> Heard:
        body = asked.body
        choice = body.get("tool_choice")
        system = [("system", body["instructions"])] if "instructions" in body else []
        return Heard(
            model=body["model"],
            turns=(*system, *[turn for item in body["input"] for turn in _turns(item)]),
            tools=tuple([tool["name"] for tool in body.get("tools", ()) if tool["type"] == "function"]),
            tool_choice=choice["name"] if isinstance(choice, dict) else choice,
            output_schema=body.get("text", {}).get("format", {}).get("schema"),
            max_tokens=body.get("max_output_tokens"),
            temperature=body.get("temperature"),
            is_stream=body.get("stream", False),
        )

    # What it says.

    def answer(self, answer: Answer, heard: Heard) -> Reply:
        if not heard.is_stream:
            return json_reply(_response(answer))
        payload = b"".join(_numbered(_events(answer)))
        end: Any = {"cut": "cut", "silent": "hang"}.get(answer.ends, "close")
        kind = "text/event-stream; charset=utf-8"
        return Reply(content_type=kind, payload=payload, piece_bytes=answer.piece_bytes, end=end)

    def refusal(self, refusal: Refusal, heard: Heard) -> Reply:
        said = [*_events(Answer(parts=(Said(pieces=(refusal.after,)),), ends="silent"))]
        told = {key: value for key, value in error_body(refusal).items() if key != "type"}
        told["code"] = told["code"] or "server_error"
        return refused(refusal, heard, b"".join(_numbered(said)), event({"type": "error", **told}, "error"))


def _numbered(events: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Iterator[bytes]:
    for number, one in enumerate(events):
        yield event({**one, "sequence_number": number}, one["type"])


def _response(answer: Answer, output: list[dict[str, Any]] | None = None, status: str = "") -> dict[str, Any]:
    """Return a whole response, of which most fields repeat the request."""
    why = {"length": "max_output_tokens", "content_filter": "content_filter", "unknown": "abacus"}.get(answer.reason)
    status = status or ("incomplete" if why else "completed")
    return {
        "id": ID,
        "object": "response",
        "created_at": 1741476542,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": why} if why and status == "incomplete" else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5.5-2026-04-14",
        "output": [_item(n, part) for n, part in enumerate(answer.parts)] if output is None else output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(answer.usage) if answer.usage is not None and status != "in_progress" else None,
        "metadata": {},
    }


def _item(number: int, part: Thought | Said | Call, is_done: bool = True) -> dict[str, Any]:
    """Return an item of the output, whole, or as it is announced."""
    status = "completed" if is_done else "in_progress"
    match part:
        case Thought():
            pieces = part.text.split(SUMMARY_BREAK) if part.text and is_done else []
            summary = [{"type": "summary_text", "text": piece} for piece in pieces]
            encrypted = part.signature if is_done else f"{part.signature}..."
            return {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": encrypted}
        case Said():
            text = {"type": "output_text", "text": whole(part), "annotations": [], "logprobs": []}
            message = {"id": f"msg_{number}", "type": "message", "status": status, "role": "assistant"}
            return {**message, "content": [text] if is_done else []}
        case Call():
            call = {"id": f"fc_{number}", "type": "function_call", "status": status, "call_id": part.id}
            return {**call, "name": part.name, "arguments": part.args if is_done else ""}


def _events(answer: Answer) -> Iterator[dict[str, Any]]:
    started = _response(answer, [], "in_progress")
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    is_whole = answer.ends == "well"
    for number, part in enumerate(answer.parts):
        if answer.mixed:
            continue
        yield {"type": "response.output_item.added", "output_index": number, "item": _item(number, part, False)}
        yield from _deltas(number, part)
        if is_whole:
            yield {"type": "response.output_item.done", "output_index": number, "item": _item(number, part)}
    if answer.mixed:
        yield from _mixed(answer)
    if is_whole:
        whole = _response(answer)
        yield {"type": f"response.{whole['status']}", "response": whole}


def _mixed(answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield the same events, those of the items in turn."""
    for number, part in enumerate(answer.parts):
        yield {"type": "response.output_item.added", "output_index": number, "item": _item(number, part, False)}
    deltas = [list(_deltas(number, part)) for number, part in enumerate(answer.parts)]
    for n in range(max(map(len, deltas))):
        yield from [one[n] for one in reversed(deltas) if n < len(one)]
    for number, part in enumerate(answer.parts):
        yield {"type": "response.output_item.done", "output_index": number, "item": _item(number, part)}


def _deltas(number: int, part: Thought | Said | Call) -> Iterator[dict[str, Any]]:
    at = {"item_id": _item(number, part)["id"], "output_index": number}
    match part:
        case Thought():
            pieces = part.text.split(SUMMARY_BREAK) if part.text else []
            for index, text in enumerate(pieces):
                begun, full = ({"type": "summary_text", "text": one} for one in ("", text))
                inner = {**at, "summary_index": index}
                yield {"type": "response.reasoning_summary_part.added", **inner, "part": begun}
                for piece in pieces_of(Said(text)):
                    yield {"type": "response.reasoning_summary_text.delta", **inner, "delta": piece}
                yield {"type": "response.reasoning_summary_text.done", **inner, "text": text}
                yield {"type": "response.reasoning_summary_part.done", **inner, "part": full}
        case Said():
            inner = {**at, "content_index": 0}
            empty: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield {"type": "response.content_part.added", **inner, "part": empty}
            for piece in pieces_of(part):
                yield {"type": "response.output_text.delta", **inner, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **inner, "text": whole(part), "logprobs": []}
            yield {"type": "response.content_part.done", **inner, "part": {**empty, "text": whole(part)}}
        case Call():
            for piece in halves(part):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            done = {"name": part.name, "arguments": part.args}
            yield {"type": "response.function_call_arguments.done", **at, **done}


def _usage(usage: Usage) -> dict[str, Any]:
    told: dict[str, Any] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    told["total_tokens"] = usage.total_tokens
    if usage.cache_read_tokens is not None:
        told["input_tokens_details"] = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": 0}
    if usage.reasoning_tokens is not None:
        told["output_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return told


def _field_problems(body: dict[str, Any]) -> Iterator[str]:
    functions = [tool for tool in body.get("tools", ()) if tool["type"] == "function"]
    choice = body.get("tool_choice")
    yield from tool_problems(functions, choice.get("name") if isinstance(choice, dict) else None, body)
    output = body.get("text", {}).get("format", {})
    if output:
        yield from schema_problems(output["name"], output["schema"], output.get("strict"))
    if body.get("store", True):
        yield "the answer would be stored"
    if "reasoning.encrypted_content" not in body.get("include", ()):
        yield "reasoning would be lost: nothing is stored, and it was not asked for"


def _turns(item: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    match item.get("type", "message"):
        case "reasoning":
            text = SUMMARY_BREAK.join(piece["text"] for piece in item["summary"])
            yield ("thought", text, item["encrypted_content"])
        case "function_call":
            yield ("call", item["call_id"], item["name"], json.loads(item["arguments"]))
        case "function_call_output":
            output = item["output"]
            parts = output if isinstance(output, list) else [{"type": "input_text", "text": output}]
            yield ("result", item["call_id"], "".join(part.get("text", "") for part in parts))
            yield from [image_turn(part["image_url"]) for part in parts if part["type"] == "input_image"]
        case "message":
            content = item["content"]
            for part in content if isinstance(content, list) else [{"type": "input_text", "text": content}]:
                is_text = part["type"] in ("input_text", "output_text")
                yield (item["role"], part["text"]) if is_text else image_turn(part["image_url"])
        case other:
            yield (other, item)


def _item_problems(items: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the order of items, and with what stands in them."""
    asked: list[str] = []
    answered: list[str] = []
    if not items:
        yield "input is empty"
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        where = f"input[{number}]"
        if kind == "function_call":
            asked.append(item["call_id"])
            yield from _call_problems(item, where)
        elif kind == "function_call_output":
            if item["call_id"] not in asked or item["call_id"] in answered:
                yield f"{where}: no tool call found for output of {item['call_id']!r}"
            answered.append(item["call_id"])
        if item.get("id", "").startswith(("msg_", "fc_")) and (
            not number or items[number - 1].get("type") != "reasoning"
        ):
            yield f"{where}: {item['id']} was provided without its required reasoning item"
        if kind == "reasoning":
            following = items[number + 1] if number + 1 < len(items) else {}
            is_said = following.get("role") == "assistant"
            id = str(int(item["id"].rpartition("_")[2]) + 1)  # this server counts the items of an answer
            if not str(following.get("id")).endswith(f"_{id}") or (
                not is_said and following.get("type", "message") in ("message", "function_call_output")
            ):
                yield f"{where}: reasoning was provided without its required following item"
            if not item.get("encrypted_content"):
                yield f"{where}: item {item['id']!r} not found: items are not persisted when store is false"
            if not re.fullmatch(r"rs_\w+", item["id"]):
                yield f"{where}: id {item['id']!r}"
    yield from [f"no tool output found for function call {id!r}" for id in asked if id not in answered]


def _call_problems(item: dict[str, Any], where: str) -> Iterator[str]:
    if not 0 < len(item["call_id"]) <= MAX_ID_LENGTH:
        yield f"{where}.call_id {item['call_id']!r} is empty, or longer than {MAX_ID_LENGTH}"
    if not NAME.fullmatch(item["name"]):
        yield f"{where}.name {item['name']!r}"
    if not isinstance(json.loads(item["arguments"]), dict):
        yield f"{where}: arguments are no object: {item['arguments']}"
