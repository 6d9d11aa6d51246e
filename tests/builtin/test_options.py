"""Options of ready-made middleware: what cannot work is refused when it is made, and says what was expected."""

from datetime import timedelta
from typing import Any

import pytest

from interpose import ConfigurationError, FileBackend
from interpose.builtin import (
    ContentGuard,
    ContextWindow,
    Fallback,
    ResultEviction,
    RetryModelCalls,
    Stop,
    Summarization,
    ToolCache,
    by_model,
    read_tool,
)
from interpose.testing import MemoryBackend, ScriptedModel

NAN = float("nan")
WRONG_KIND = {
    "window of text": lambda given: ContextWindow(max_messages=given("10")),
    "window of a share": lambda given: ContextWindow(max_chars_per_tool=given(10.5)),
    "window of a flag": lambda given: ContextWindow(max_messages=given(True)),
    "notice of a number": lambda given: ContextWindow(10, notice=given(5)),
    "limit of text": lambda given: Summarization(given("8000")),
    "half a message": lambda given: Summarization(100, keep_messages=given(1.5)),
    "share of text": lambda given: Summarization(100, trigger_ratio=given("0.8")),
    "summarize of a name": lambda given: Summarization(100, summarize=given("openai:gpt-5.5")),
    "summarize of by_model, not called": lambda given: Summarization(100, summarize=given(by_model)),
    "on_summarized of nothing to call": lambda given: Summarization(100, on_summarized=given(3)),
    "on_summarized of too few": lambda given: Summarization(100, on_summarized=given(lambda tokens: None)),
    "tokens of text": lambda given: ResultEviction(MemoryBackend(), max_tokens=given("many")),
    "preview of a share": lambda given: ResultEviction(MemoryBackend(), preview_chars=given(0.5)),
    "excluded number": lambda given: ResultEviction(MemoryBackend(), excluded_tools=given([3])),
    "page of a share": lambda given: read_tool(MemoryBackend(), max_chars=given(10.5)),
    "time of text": lambda given: ToolCache(given("3600")),
    "time of a timedelta": lambda given: ToolCache(given(timedelta(hours=1))),
    "size of text": lambda given: ToolCache(max_size=given("x")),
    "key of a name": lambda given: ToolCache(key=given("city")),
    "key of too few": lambda given: ToolCache(key=given(lambda ctx: 1)),
    "scope of too many": lambda given: ToolCache(scope=given(lambda ctx, call: 1)),
    "tools of numbers": lambda given: ToolCache(tools=given([3])),
    "hold of text": lambda given: ContentGuard([], hold_chars=given("x")),
    "hold of a share": lambda given: ContentGuard([], hold_chars=given(1.5)),
    "on_filtered of nothing to call": lambda given: ContentGuard([], on_filtered=given("log")),
    "rule that takes nothing": lambda given: ContentGuard([given(lambda: "x")]),
    "replacement that takes nothing": lambda given: ContentGuard([("a", given(lambda: "x"))]),
    "attempts of a share": lambda given: RetryModelCalls(given(2.5)),
    "attempts of text": lambda given: RetryModelCalls(given("3")),
    "wait of text": lambda given: RetryModelCalls(max_wait_s=given("x")),
    "model of a class": lambda given: Fallback(given(ScriptedModel)),
    "models in a list": lambda given: Fallback(given(["a", "b"])),
    "summary model of a list": lambda given: by_model(given(["a"])),
    "condition that takes nothing": lambda given: Stop.when(given(lambda: True)),
}
OUT_OF_RANGE = {
    "window": lambda given: ContextWindow(max_chars=given(0)),
    "limit": lambda given: Summarization(given(NAN)),
    "share": lambda given: Summarization(100, trigger_ratio=given(85)),
    "tokens": lambda given: ResultEviction(MemoryBackend(), max_tokens=given(NAN)),
    "page": lambda given: read_tool(MemoryBackend(), max_chars=given(0)),
    "time": lambda given: ToolCache(given(NAN)),
    "no time": lambda given: ToolCache(given(0)),
    "wait": lambda given: RetryModelCalls(max_wait_s=given(-1)),
    "summary": lambda given: by_model(max_tokens=given(0)),
}


def told(make: Any, error: type[Exception]) -> tuple[str, str]:
    """The message of *error* that *make* raises, and what it must quote."""
    said: list[Any] = []

    def given(value: Any) -> Any:
        said.append(value[0] if isinstance(value, list) and len(value) == 1 else value)
        return value

    with pytest.raises(error) as caught:
        make(given)
    return str(caught.value), repr(said[0])[:60]


@pytest.mark.parametrize("case", WRONG_KIND)
def test_value_of_another_kind_is_named_beside_what_was_expected(case: str) -> None:
    message, quoted = told(WRONG_KIND[case], TypeError)
    assert quoted in message
    assert any(word in message for word in ("must be", "takes", "is a Model"))


@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_value_that_is_out_of_range_is_named_beside_what_is_allowed(case: str) -> None:
    message, quoted = told(OUT_OF_RANGE[case], ValueError)
    assert quoted in message
    assert "must be" in message


@pytest.mark.parametrize(
    "make",
    [
        lambda: Summarization(0.8 * 8192),
        lambda: Summarization(float("inf")),
        lambda: ResultEviction(MemoryBackend(), max_tokens=0.1 * 8192),
        lambda: ToolCache(0.5, scope="agent"),
        lambda: RetryModelCalls(max_wait_s=float("inf")),
        lambda: ContentGuard([str.upper], on_filtered=print),
        lambda: Stop.unless(bool),
    ],
)
def test_value_that_makes_sense_is_taken(make: Any) -> None:
    assert make() is not None


def test_tool_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name"):
        read_tool(MemoryBackend(), name="")


def test_fallback_that_can_never_answer_is_refused_before_it_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="needs the name of a model"):
        Fallback("openai:")
    with pytest.raises(ValueError, match="empty"):
        Fallback("")


def test_backend_of_an_empty_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="empty"):
        FileBackend("")
