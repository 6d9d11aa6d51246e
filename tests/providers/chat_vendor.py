"""OpenAI's Chat Completions as the vendor plays it, and a compatible server that tells and takes more.

Sources: the API reference, the types of the SDK, and the shapes of recorded answers, read 2026-11.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.providers.openai_shared import (
    NAME,
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

from interpose.models import OpenAIChat
from interpose.models.openai import Dialect
from interpose.request import Usage
from interpose.testing.model_contract import FEATURES, Answer, Call, Heard, Refusal, Said, Thought

MAX_ID_LENGTH = 40
REASONS = {"unknown": "abacus"}
HEAD = {"id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "created": 1741569952, "model": "gpt-5.5-2026-04-14"}


class ChatVendor:
    """The official API, strict: what its types do not have is refused."""

    features = FEATURES - {"reasoning", "signatures"}
    dialect = Dialect()
    extra_message_fields: frozenset[str] = frozenset()
    extra_call_fields: frozenset[str] = frozenset()

    def model(self, origin: str) -> OpenAIChat:
        return OpenAIChat("gpt-5.5", base_url=f"{origin}/v1", api_key="sk-test", dialect=self.dialect)

    # What it refuses.

    def problems(self, asked: Asked) -> list[str]:
        from openai.types.chat.completion_create_params import CompletionCreateParams

        body = json.loads(json.dumps(asked.body))
        for message in body.get("messages", ()):
            for field in self.extra_message_fields:
                message.pop(field, None)
            for call in message.get("tool_calls", ()):
                for field in self.extra_call_fields:
                    call.pop(field, None)
        problems = head_problems(asked, "/v1/chat/completions") + problems_of(body, CompletionCreateParams)
        return problems or [*self._field_problems(body), *_message_problems(body["messages"])]

    def _field_problems(self, body: dict[str, Any]) -> Iterator[str]:
        functions = [tool["function"] for tool in body.get("tools", ())]
        choice = body.get("tool_choice")
        yield from tool_problems(functions, choice["function"]["name"] if isinstance(choice, dict) else None, body)
        if self.dialect.max_tokens_field not in body and {"max_tokens", "max_completion_tokens"} & body.keys():
            yield f"the limit on the answer is called {self.dialect.max_tokens_field}"
        if "stream_options" in body and not body.get("stream"):
            yield "stream_options without stream"
        if len(body.get("stop") or ()) > 4:
            yield "more than four stop sequences"
        output = body.get("response_format", {}).get("json_schema")
        if output:
            yield from schema_problems(output["name"], output["schema"], output.get("strict"))

    # What it hears.

    def heard(self, asked: Asked) -> Heard:
        body = asked.body
        choice = body.get("tool_choice")
        return Heard(
            model=body["model"],
            turns=tuple([turn for message in body["messages"] for turn in self._turns(message)]),
            tools=tuple([tool["function"]["name"] for tool in body.get("tools", ())]),
            tool_choice=choice["function"]["name"] if isinstance(choice, dict) else choice,
            output_schema=body.get("response_format", {}).get("json_schema", {}).get("schema"),
            stop=tuple(body.get("stop") or ()),
            max_tokens=body.get(self.dialect.max_tokens_field),
            temperature=body.get("temperature"),
            is_stream=body.get("stream", False),
        )

    def _turns(self, message: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        yield from self._thoughts(message)
        content = message["content"]
        if message["role"] == "tool":
            yield ("result", message["tool_call_id"], content)
        elif isinstance(content, list):
            for part in content:
                yield ("user", part["text"]) if part["type"] == "text" else image_turn(part["image_url"]["url"])
        elif content is not None:
            yield (message["role"], content)
        for call in message.get("tool_calls", ()):
            yield ("call", call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))

    def _thoughts(self, message: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        return iter(())

    # What it says.

    def answer(self, answer: Answer, heard: Heard) -> Reply:
        if not heard.is_stream:
            return json_reply(self._completion(answer))
        chunks = [*self._deltas(answer)]
        if answer.ends == "well":
            chunks.append(_chunk({}, _reason(answer)))
        payload = b"".join(map(event, chunks))
        if answer.ends == "well":
            if answer.usage is not None:
                payload += event(
                    {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _usage(answer.usage)}
                )
            payload += event("[DONE]")
        end: Any = {"cut": "cut", "silent": "hang"}.get(answer.ends, "close")
        kind = "text/event-stream; charset=utf-8"
        return Reply(content_type=kind, payload=payload, piece_bytes=answer.piece_bytes, end=end)

    def _deltas(self, answer: Answer) -> Iterator[dict[str, Any]]:
        yield _chunk({"role": "assistant", "content": "", "refusal": None})
        index, late = 0, []
        for part in answer.parts:
            match part:
                case Thought():
                    yield from self._thought_deltas(part)
                case Said():
                    yield from [_chunk({"content": piece}) for piece in pieces_of(part)]
                case Call():
                    head = {"index": index, **_call(part), "function": {"name": part.name, "arguments": ""}}
                    yield _chunk({"tool_calls": [head]})
                    rest = [
                        _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
                        for piece in halves(part)
                    ]
                    late.append(rest)
                    if not answer.mixed:
                        yield from late.pop()
                    index += 1
        for n in (0, 1):
            yield from [rest[n] for rest in reversed(late) if n < len(rest)]

    def _thought_deltas(self, thought: Thought) -> Iterator[dict[str, Any]]:
        raise AssertionError("this server does not tell what the model thought")

    def _completion(self, answer: Answer) -> dict[str, Any]:
        text = "".join(whole(part) for part in answer.parts if isinstance(part, Said))
        calls = [_call(part) for part in answer.parts if isinstance(part, Call)]
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None, "annotations": []}
        if calls:
            message["tool_calls"] = calls
        for part in answer.parts:
            if isinstance(part, Thought):
                message |= self._thought(part)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
        usage = {"usage": _usage(answer.usage)} if answer.usage else {}
        return {**HEAD, "object": "chat.completion", "choices": [choice], "service_tier": "default", **usage}

    def _thought(self, thought: Thought) -> dict[str, Any]:
        raise AssertionError("this server does not tell what the model thought")

    def refusal(self, refusal: Refusal, heard: Heard) -> Reply:
        said = Answer(parts=(Said(pieces=(refusal.after,)),), ends="unfinished")
        return refused(refusal, heard, b"".join(map(event, self._deltas(said))))


class CompatibleVendor(ChatVendor):
    """A router in front of other vendors' models: it tells their reasoning, and wants its details back untouched."""

    features = FEATURES
    dialect = Dialect(max_tokens_field="max_tokens")
    extra_message_fields = frozenset({"reasoning_details"})

    def model(self, origin: str) -> OpenAIChat:
        return OpenAIChat("z/reasoner", base_url=f"{origin}/v1", provider="router")

    def _thought(self, thought: Thought) -> dict[str, Any]:
        detail = {"type": "reasoning.text", "text": thought.text, "format": "unknown", "index": 0}
        signed = {"signature": thought.signature} if thought.signature is not None else {}
        return {"reasoning": thought.text, "reasoning_details": [{**detail, **signed}]}

    def _thought_deltas(self, thought: Thought) -> Iterator[dict[str, Any]]:
        middle = len(thought.text) // 2
        for text in (thought.text[:middle], thought.text[middle:]):
            yield _chunk({"content": "", **self._thought(Thought(text))})
        if thought.signature is not None:
            yield _chunk({"content": "", **self._thought(Thought("", thought.signature))})

    def _thoughts(self, message: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        for detail in message.get("reasoning_details", ()):
            yield ("thought", detail["text"], detail.get("signature"))


def _message_problems(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the order of messages, and with what stands in them."""
    waiting: list[str] = []
    if not messages:
        yield "messages is empty"
    for number, message in enumerate(messages):
        role, calls = message["role"], message.get("tool_calls")
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"messages[{number}] answers {message['tool_call_id']!r}, which nobody asked"
            waiting = [id for id in waiting if id != message["tool_call_id"]]
            continue
        if waiting:
            yield f"messages[{number}] comes before the answers to {waiting}"
        if calls is not None and not calls:
            yield f"messages[{number}].tool_calls is empty"
        if role == "assistant" and message.get("content") is None and not calls:
            yield f"messages[{number}] says nothing"
        if "name" in message and not re.fullmatch(r"[^\s<|\\/>]{1,64}", message["name"]):
            yield f"messages[{number}].name is {message['name']!r}"
        waiting = [call["id"] for call in calls or ()]
        if len(set(waiting)) < len(waiting):
            yield f"messages[{number}] has ids twice: {waiting}"
        for call in calls or ():
            yield from _call_problems(call)
    if waiting:
        yield f"no answer to {waiting}"


def _call_problems(call: dict[str, Any]) -> Iterator[str]:
    if not 0 < len(call["id"]) <= MAX_ID_LENGTH:
        yield f"id {call['id']!r} is empty, or longer than {MAX_ID_LENGTH}"
    if not NAME.fullmatch(call["function"]["name"]):
        yield f"name of a function {call['function']['name']!r}"
    if not isinstance(json.loads(call["function"]["arguments"]), dict):
        yield f"arguments are no object: {call['function']['arguments']}"


def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice], "usage": None, "obfuscation": "x7"}


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args}}


def _reason(answer: Answer) -> str:
    return REASONS.get(answer.reason, answer.reason)


def _usage(usage: Usage) -> dict[str, Any]:
    told: dict[str, Any] = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    told["total_tokens"] = usage.total_tokens
    if usage.cache_read_tokens is not None:
        told["prompt_tokens_details"] = {"cached_tokens": usage.cache_read_tokens}
    if usage.reasoning_tokens is not None:
        told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return told
