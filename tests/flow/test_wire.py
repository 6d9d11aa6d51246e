"""Whatever a node holds, its event is JSON, and says so where something could not be kept."""

import json
from typing import Any

import pytest
from tests.flow.nodes import Told

from interpose.flow.history import History
from interpose.flow.wire import MAX_BODY_BYTES


def kept(*, at_start: bool = False, name: str = "look", **fields: Any) -> dict[str, Any]:
    """Return the whole event of a tool node with such fields."""
    history = History(20)
    told = Told(history.add, "a")
    if at_start:
        told.start("tool", name, **fields)
    else:
        told.whole("tool", name, None, **fields)
    log = history.find("a")
    assert log is not None
    for light in log.lights():
        json.loads(light)
    event: dict[str, Any] = json.loads(log.whole(len(log) - 1) or b"")
    return event


ITSELF: dict[str, Any] = {}
ITSELF["itself"] = ITSELF


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("half \ud83d", "half \ufffd"),
        ({"\ud83d": 1}, {"\ufffd": 1}),
        (float("nan"), None),
        (b"\x00\xff", "AP8="),
        ("\x1b[31mred\x00", "\x1b[31mred\x00"),
        ({1: "one"}, {"1": "one"}),
        ("line\nbreak \u2028 end", "line\nbreak \u2028 end"),
    ],
    ids=["half a character", "half a key", "NaN", "bytes", "control characters", "number as key", "line ends"],
)
def test_odd_values_are_kept(value: Any, told: Any) -> None:
    assert kept(out=value, given="x")["content"]["out"] == told


@pytest.mark.parametrize("value", [ITSELF, {("a", 1): 2}, object()], ids=["itself", "tuple as key", "object"])
def test_what_json_cannot_hold_is_named(value: Any) -> None:
    assert isinstance(str(kept(out=value, given="x")["content"]), str)


def test_content_that_is_far_too_large_is_left_out_and_says_so() -> None:
    event = kept(out="x" * (MAX_BODY_BYTES + 1), given="x")
    assert event["too_large"] > MAX_BODY_BYTES
    assert "content" not in event


def test_long_error_is_short_in_lists_and_whole_in_details() -> None:
    history = History(20)
    told = Told(history.add, "a")
    told.whole("tool", "look", None, error="x" * 5000, out="y")
    log = history.find("a")
    assert log is not None
    assert len(json.loads(log.lights()[1])["error"]) == 301
    event = json.loads(log.whole(1) or b"")
    assert (event["error"], event["content"]["out"]) == ("x" * 5000, "y")


def test_long_name_is_cut() -> None:
    assert len(kept(name="n" * 5000)["name"]) == 201


def test_name_with_markup_and_half_characters_is_text() -> None:
    assert kept(name="<b>\ud83d\n")["name"] == "<b>\ufffd\n"


def test_everything_that_a_node_says_is_told() -> None:
    fields: dict[str, Any] = {
        "provider": "openai", "call_class": "summary", "outcome": "interrupted", "finish_reason": "interrupt",
        "attempts": 0, "superseded": 2, "made_by": "Cache", "tool_call_id": "call_1", "meta": {"a": 1},
        "failures": ["RateLimited"], "changes": [{"middleware": "M", "hook": "h", "field": "f", "old": 1, "new": 2}],
    }  # fmt: skip
    event = kept(**fields)
    assert {name: event[name] for name in fields} == fields


def test_small_content_is_streamed_and_large_is_left_for_later() -> None:
    history = History(20)
    told = Told(history.add, "a")
    told.whole("tool", "look", None, out="small")
    told.whole("tool", "look", None, out="large " * 1000)
    log = history.find("a")
    assert log is not None
    small, large = (json.loads(event) for event in log.lights()[1::2])
    assert small["content"]["out"] == "small"
    assert (large["left_out"], "content" in large) == (True, False)
