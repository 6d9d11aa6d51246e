"""Google's Gemini API as the vendor plays it, strict, in two generations.

Sources: the API reference, the types of the SDK, and the shapes of recorded answers, read 2026-11.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.providers.wire_server import Asked, Reply, event, json_reply

from interpose.errors import AuthFailed, BadRequest, ContextTooLong, ProviderDown, ProviderError, RateLimited
from interpose.models import GoogleGemini, ModelProfile
from interpose.request import Usage
from interpose.testing.model_contract import FEATURES, Answer, Call, Heard, Refusal, Said, Thought

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
PLACE = re.compile(r"/v1/models/([\w.-]+):(generateContent|streamGenerateContent\?alt=sse)")
WORDS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "unknown": "OTHER"}
STREAM = "text/event-stream"
KEYWORDS = {
    "$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "description", "enum", "format", "items",
    "maxItems", "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties", "propertyOrdering", "required",
    "title", "type",
}  # fmt: skip

REFUSALS: dict[type[ProviderError], tuple[int, str, str]] = {
    RateLimited: (429, "RESOURCE_EXHAUSTED", ""),
    ContextTooLong: (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens. "),
    AuthFailed: (403, "PERMISSION_DENIED", ""),
    BadRequest: (400, "INVALID_ARGUMENT", ""),
    ProviderDown: (503, "UNAVAILABLE", ""),
}


class GeminiVendor:
    """A model of the third generation: its calls are signed, and it takes a schema beside functions."""

    features = FEATURES - {"broken_arguments", "mixed_calls", "request_ids"}
    name = "gemini-3.5-flash"
    wants_signatures = True

    def model(self, origin: str) -> GoogleGemini:
        profile = ModelProfile(max_output_tokens=8192, supports_structured_output=True)
        return GoogleGemini(self.name, base_url=origin, api_key="AIza-test", profile=profile)

    # What it refuses.

    def problems(self, asked: Asked) -> list[str]:
        problems = [*_head_problems(asked), *_typed_problems(asked.body)]
        return problems or [*self._field_problems(asked.body), *self._content_problems(asked.body["contents"])]

    def _field_problems(self, body: dict[str, Any]) -> Iterator[str]:
        functions = _functions(body)
        names = [function["name"] for function in functions]
        yield from [f"function name {name!r}" for name in names if not NAME.fullmatch(name)]
        if len(set(names)) < len(names):
            yield f"Duplicate function declaration found: {names}"
        for function in functions:
            yield from _schema_problems(function.get("parametersJsonSchema"), function["name"])
            if function.get("parametersJsonSchema", {"properties": 1}).get("properties") == {}:
                yield f"{function['name']}: parameters.properties: should be non-empty for OBJECT type"
        calling = (body.get("toolConfig") or {}).get("functionCallingConfig", {})
        if calling and not functions:
            yield "Function calling config is set without function_declarations"
        if set(calling.get("allowedFunctionNames", ())) - set(names):
            yield "allowed_function_names not among the functions"
        config = body.get("generationConfig", {})
        yield from _schema_problems(config.get("responseJsonSchema"), "response_json_schema")
        if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
            yield "response_json_schema wants the response mime type application/json"
        if functions and "responseMimeType" in config and not self.wants_signatures:
            yield "Function calling with a response mime type: 'application/json' is unsupported"

    def _content_problems(self, contents: list[dict[str, Any]]) -> Iterator[str]:
        waiting: list[Any] = []
        if not contents or contents[0]["role"] != "user":
            yield "contents begin with another role than the user's"
        for number, content in enumerate(contents):
            where, parts = f"contents[{number}]", content["parts"]
            if not parts:
                yield f"{where}.parts must not be empty"
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
            if calls and (not number or contents[number - 1]["role"] != "user"):
                yield "function call turn comes immediately after a user turn or after a function response turn"
            if (answers or waiting) and [(one.get("id"), one["name"]) for one in answers] != waiting:
                yield f"{where}: function response parts {answers} do not equal the function calls {waiting}"
            waiting = [(one.get("id"), one["name"]) for one in calls]
            if answers and len(answers) < len(parts):
                yield f"{where}: function responses are mixed with other parts"
            if (answers and content["role"] != "user") or (calls and content["role"] != "model"):
                yield f"{where}: role {content['role']}"
            signed = [part for part in parts if "functionCall" in part and part.get("thoughtSignature")]
            if calls and self.wants_signatures and not signed:
                yield f"{where}: Function call is missing a thought_signature in functionCall parts"
            yield from _part_problems(parts, where)
        if waiting:
            yield f"function calls {waiting} have no responses"

    # What it hears.

    def heard(self, asked: Asked) -> Heard:
        body, place = asked.body, PLACE.fullmatch(asked.path)
        config = body.get("generationConfig", {})
        calling = (body.get("toolConfig") or {}).get("functionCallingConfig", {})
        modes = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
        named = calling.get("allowedFunctionNames", [None])[0]
        system = body.get("systemInstruction", {"parts": []})["parts"]
        turns: list[tuple[Any, ...]] = [("system", part["text"]) for part in system]
        for content in body["contents"]:
            turns += [turn for part in content["parts"] for turn in _heard(content["role"], part)]
        return Heard(
            model=place[1] if place else "",
            turns=tuple(turns),
            tools=tuple([function["name"] for function in _functions(body)]),
            tool_choice=named or modes.get(calling.get("mode")),
            output_schema=config.get("responseJsonSchema"),
            stop=tuple(config.get("stopSequences", ())),
            max_tokens=config.get("maxOutputTokens"),
            temperature=config.get("temperature"),
            is_stream=place is not None and place[2].startswith("stream"),
        )

    # What it says.

    def answer(self, answer: Answer, heard: Heard) -> Reply:
        parts = [*self._said(answer, heard.is_stream)]
        if not heard.is_stream:
            return json_reply(_chunk(parts, answer, is_last=True))
        chunks = [_chunk([part], answer) for part in parts]
        if answer.ends == "well":
            chunks = [*chunks[:-1], _chunk(parts[-1:], answer, is_last=True)]
        payload = b"".join(map(event, chunks)).replace(b"\n\n", b"\r\n\r\n")
        end: Any = {"cut": "cut", "silent": "hang"}.get(answer.ends, "close")
        return Reply(content_type=STREAM, payload=payload, piece_bytes=answer.piece_bytes, end=end)

    def _said(self, answer: Answer, is_stream: bool) -> Iterator[dict[str, Any]]:
        """Yield the parts of an answer; the first call is signed, as recorded ones are."""
        unsigned = self.wants_signatures
        for part in answer.parts:
            match part:
                case Thought():
                    signed = {"thoughtSignature": part.signature} if part.signature is not None else {}
                    *first, last = _halves(part.text) if is_stream and part.text else [part.text]
                    yield from [{"text": text, "thought": True} for text in first]
                    yield {"text": last, "thought": True, **signed}
                case Said():
                    text = "".join(part.pieces) or part.text
                    pieces = [*part.pieces] or _halves(text) if is_stream else [text]
                    yield from [{"text": piece} for piece in pieces if piece]
                case Call():
                    call = {"functionCall": {"name": part.name, "args": json.loads(part.args or "{}"), "id": part.id}}
                    yield {**call, "thoughtSignature": "c2lnbmVk"} if unsigned else call
                    unsigned = False

    def refusal(self, refusal: Refusal, heard: Heard) -> Reply:
        status, word, before = REFUSALS[refusal.kind]
        error: dict[str, Any] = {"code": status, "message": before + refusal.message, "status": word}
        headers = {"retry-after": refusal.retry_after} if refusal.retry_after is not None else {}
        if refusal.after and heard.is_stream:
            said = event(_chunk([{"text": refusal.after}], Answer()))
            return Reply(content_type=STREAM, payload=said + event({"error": error}), headers=headers)
        return json_reply([{"error": error}] if heard.is_stream else {"error": error}, status, headers=headers)


class OlderVendor(GeminiVendor):
    """A model of the second generation: its calls are not signed, and it takes a schema or functions."""

    name = "gemini-2.5-flash"
    wants_signatures = False


def _functions(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [function for tool in body.get("tools", ()) for function in tool.get("functionDeclarations", ())]


def _head_problems(asked: Asked) -> Iterator[str]:
    if asked.method != "POST" or not PLACE.fullmatch(asked.path):
        yield f"no such place: {asked.method} {asked.path}"
    if not asked.headers.get("x-goog-api-key"):
        yield "no key"
    if asked.headers.get("content-type") != "application/json":
        yield f"content-type {asked.headers.get('content-type')}"


def _typed_problems(body: dict[str, Any]) -> list[str]:
    """Return what the SDK's own types would refuse; they know every field, and forbid others."""
    from google.genai import types
    from pydantic import ValidationError

    config_fields = {key: value for key, value in body.items() if key not in ("contents", "generationConfig")}
    config = {**config_fields, **body.get("generationConfig", {})}
    try:
        for content in body["contents"]:
            text = re.sub(r'"thoughtSignature": "[^"]*"', '"thoughtSignature": "c2ln"', json.dumps(content))
            types.Content.model_validate_json(text)  # signatures are any text here, and base64 in the SDK
        types.GenerateContentConfig.model_validate_json(json.dumps(config))
    except ValidationError as error:
        return [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return []


def _schema_problems(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    for key in schema.keys() - KEYWORDS:
        yield f"{where}: unknown keyword {key!r}"
    for items in (schema.get("properties", {}), schema.get("$defs", {})):
        for name, item in items.items():
            yield from _schema_problems(item, f"{where}.{name}")
    for item in [*schema.get("anyOf", ()), schema.get("items")]:
        yield from _schema_problems(item, where)


def _part_problems(parts: list[dict[str, Any]], where: str) -> Iterator[str]:
    for part in parts:
        if len(part.keys() & {"text", "functionCall", "functionResponse", "inlineData", "fileData"}) != 1:
            yield f"{where}: required oneof field 'data' must have one initialized field: {part}"
        if not part.get("text", "x") and "thoughtSignature" not in part:
            yield f"{where}: a text is empty"
        name = (part.get("functionCall") or part.get("functionResponse") or {"name": "x"})["name"]
        if not NAME.fullmatch(name):
            yield f"{where}: function name {name!r}"
        if "inlineData" in part:
            base64.b64decode(part["inlineData"]["data"], validate=True)


def _heard(role: str, part: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    if part.get("thought"):
        yield ("thought", part["text"], part.get("thoughtSignature"))
    elif "functionCall" in part:
        call = part["functionCall"]
        yield ("call", call.get("id"), call["name"], call["args"])
    elif "functionResponse" in part:
        response = part["functionResponse"]
        yield ("result", response.get("id"), response["response"].get("output", response["response"].get("error")))
    elif "inlineData" in part:
        yield ("image", part["inlineData"]["mimeType"], part["inlineData"]["data"])
    elif "fileData" in part:
        yield ("image", None, part["fileData"]["fileUri"])
    else:
        yield ({"model": "assistant"}.get(role, role), part["text"])


def _chunk(parts: list[dict[str, Any]], answer: Answer, is_last: bool = False) -> dict[str, Any]:
    content = {"role": "model", **({"parts": parts} if parts else {})}
    candidate: dict[str, Any] = {"content": content, "index": 0}
    if is_last:
        candidate["finishReason"] = WORDS[answer.reason]
    chunk: dict[str, Any] = {
        "candidates": [candidate],
        "modelVersion": "gemini-3.5-flash",
        "responseId": "dKj3aI_XGsSnvdIPoKeH2Qk",
    }
    if answer.usage is not None:
        chunk["usageMetadata"] = _usage(answer.usage, is_last)
    return chunk


def _usage(usage: Usage, is_last: bool) -> dict[str, Any]:
    thoughts = usage.reasoning_tokens
    told: dict[str, Any] = {"promptTokenCount": usage.input_tokens, "totalTokenCount": usage.total_tokens}
    if is_last:
        told["candidatesTokenCount"] = (usage.output_tokens or 0) - (thoughts or 0)
    else:
        told["totalTokenCount"] = usage.input_tokens
    if thoughts is not None:
        told["thoughtsTokenCount"] = thoughts
    if usage.cache_read_tokens is not None:
        told["cachedContentTokenCount"] = usage.cache_read_tokens
    return told


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]
