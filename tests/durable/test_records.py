"""What is recorded is JSON, and comes back as what it was; data never chooses a type."""

import json
from typing import Any

import pytest

from interpose import (
    AuthFailed,
    FatalToolError,
    LimitExceeded,
    ModelTimeout,
    OutputError,
    RateLimited,
    ResumeError,
    RunAborted,
)
from interpose.durable.journal import Journal
from interpose.durable.records import Errors, RecordedError, response_of, response_record, result_of, result_record
from interpose.messages import AssistantMessage, ProviderPart, ReasoningPart, TextPart, ToolCall, ToolResult
from interpose.request import ModelResponse, Usage


class OwnLimit(RateLimited):
    """A provider's own."""


class Listed(Exception):
    def __init__(self, code: int, what: str) -> None:
        super().__init__(code, what)
        self.code, self.what = code, what


def back(error: Exception, *more: type[Exception]) -> Exception:
    errors = Errors(more)
    return errors.restore(json.loads(json.dumps(errors.record(error))))


SAME = [
    RateLimited("slow", provider="p", model="m", status_code=429, retry_after_s=1.5, request_id="r", code="c"),
    ModelTimeout("late", provider="p"),
    AuthFailed("no", provider="p", retryable=True),
    FatalToolError("enough"),
    LimitExceeded("max_steps", 3, "too many"),
    OutputError("bad", "raw text"),
    ResumeError("no", (("i1", "late"),)),
    RunAborted("closed"),
    ValueError("no"),
    KeyError("k"),
    FileNotFoundError(2, "not there"),
    TimeoutError(),
    Listed(7, "x"),
]


@pytest.mark.parametrize("error", SAME, ids=lambda one: type(one).__name__)
def test_error_comes_back_as_its_class_with_its_fields(error: Exception) -> None:
    came = back(error, Listed)
    assert type(came) is type(error)
    assert str(came) == str(error)
    assert vars(came) == vars(error)


def test_error_of_a_known_kind_comes_back_as_that_kind() -> None:
    came = back(OwnLimit("slow", provider="p", retry_after_s=2.0))
    assert type(came) is RateLimited
    assert came.retry_after_s == 2.0


def test_unknown_error_keeps_its_name_and_text() -> None:
    came = back(Listed(7, "x"))
    assert type(came) is RecordedError
    assert came.kind.endswith("test_records.Listed")
    assert str(came) == "(7, 'x')"


@pytest.mark.parametrize(
    "record",
    [
        {"error": {"message": "m", "class": "os.system", "known": "os.system"}},
        {"error": {"message": "m", "class": "x", "known": "system"}},
        {"error": {"message": "m", "class": "x", "known": "ProviderError", "fields": {"args": [1, 2, 3, 4], "x": 1}}},
        {"error": {"message": "m", "class": "x", "known": "UnicodeDecodeError", "fields": {"args": ["a"]}}},
        {"error": {}},
    ],
    ids=["class", "function", "fields", "arguments", "nothing"],
)
def test_record_that_was_tampered_with_makes_no_other_type(record: dict[str, Any]) -> None:
    assert isinstance(Errors().restore(record), Exception)
    assert type(Errors().restore(record)).__module__ in ("interpose.errors", "interpose.durable.records")


def test_answer_of_a_model_comes_back_whole() -> None:
    parts = (
        ReasoningPart("hm", "signed"),
        TextPart("hi"),
        ToolCall("c1", "add", {"a": 1}),
        ProviderPart({"x": [1, None]}, "p"),
    )
    response = ModelResponse(AssistantMessage(parts=parts, id="m1"), "tool_calls", Usage(1, 2), "m", "p")
    assert response_of(json.loads(json.dumps(response_record(response)))) == response


@pytest.mark.parametrize(
    "data", ["text", {"a": [1, None, 2.5]}, [], None, 0, False, (TextPart("one"), TextPart("two"))], ids=repr
)
def test_result_of_a_tool_comes_back_as_the_model_read_it(data: Any) -> None:
    result = ToolResult(tool_call_id="c1", data=data, duration_ms=1.5)
    came = result_of(json.loads(json.dumps(result_record(result, ran=True))), "c2")
    assert came == result.replace(tool_call_id="c2")
    assert came.text == result.text


def test_result_that_is_no_json_comes_back_as_its_text() -> None:
    result = ToolResult(tool_call_id="c1", data={1, 2})
    assert result_of(json.loads(json.dumps(result_record(result, ran=True))), "c1").text == result.text


async def test_journal_gives_each_call_its_own_records_in_order() -> None:
    written: list[tuple[str, Any]] = []

    async def write(name: str, value: Any) -> None:
        written.append((name, value))

    journal = Journal("r1", [("b#0", "b0"), ("a#10", "a10"), ("a#9", "a9"), ("a#x#0", "odd")], write)
    assert [journal.take(name) for name in ("a", "b", "a", "a", "c", "a#x")] == ["a9", "b0", "a10", None, None, "odd"]
    await journal.add("a", 1)
    await journal.add("c", 2)
    assert written == [("a#11", 1), ("c#0", 2)]
