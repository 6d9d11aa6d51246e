"""Checkpoints: what parts make together, what is refused, what a saved result reads like."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import msgspec
import pytest

from interpose import (
    AssistantMessage,
    ImagePart,
    ModelResponse,
    ResumeError,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    tool,
)
from interpose.checkpoint import VERSION, Checkpoint, seal, tool_hash, unseal
from interpose.saved import Counts, Private, SavedResult, SavedStep
from interpose.testing.store_values import full_checkpoint, some_checkpoint


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool
def find(query: str) -> str:
    """Find something."""
    return query


def part(place: int, /, **fields: Any) -> Checkpoint:
    return Checkpoint(run_id="r1", part=place, **fields)


def answer(number: int, *calls: str) -> dict[str, Any]:
    message = AssistantMessage(
        f"answer {number}", tool_calls=tuple([ToolCall(id, "pay") for id in calls]), id=f"a{number}"
    )
    return {"number": number, "messages": (message,), "steps": (SavedStep.of(number, ModelResponse(message)),)}


def result(id: str, data: Any = "done") -> dict[str, SavedResult]:
    return {id: SavedResult.of(ToolResult(tool_call_id=id, data=data))}


# Folding.


def test_messages_and_steps_follow_each_other() -> None:
    whole = Checkpoint.fold([some_checkpoint(), part(1, **answer(0)), part(2, **answer(1))])
    assert [message.id for message in whole.messages] == ["u1", "a0", "a1"]
    assert [step.number for step in whole.steps] == [0, 1]
    assert (whole.part, whole.number) == (2, 1)


def test_results_of_a_settled_step_are_given_to_it() -> None:
    parts = [
        some_checkpoint(),
        part(1, **answer(0, "c1", "c2"), started=("c1", "c2")),
        part(2, answered=result("c2", 2)),
        part(3, answered=result("c1", 1)),
        part(4, **answer(1, "c3")),
        part(5, number=1, answered=result("c3", 3)),
    ]
    whole = Checkpoint.fold(parts)
    assert [[one.data for one in step.tool_results] for step in whole.past_steps()] == [[1, 2], []]
    assert (dict(whole.answered), whole.started) == (result("c3", 3), ())


def test_parts_may_come_in_any_order() -> None:
    parts = [some_checkpoint(), part(1, **answer(0, "c1")), part(2, answered=result("c1")), part(3, **answer(1))]
    assert Checkpoint.fold(reversed(parts)) == Checkpoint.fold(parts)


def test_last_part_that_tells_a_total_holds() -> None:
    parts = [
        some_checkpoint(state={"a": 1}, usage=Usage(1, 1), private={"A": Private(1, 1), "B": Private(1, 1)}),
        part(1, state={"a": 2}, counts=Counts(model_calls=1), private={"A": Private(1, 2)}),
        part(2),
    ]
    whole = Checkpoint.fold(parts)
    assert (whole.state, whole.usage, whole.counts) == ({"a": 2}, Usage(1, 1), Counts(model_calls=1))
    assert whole.private == {"A": Private(1, 2), "B": Private(1, 1)}


def test_whole_checkpoint_under_another_run_id_goes_on_the_same() -> None:
    before = Checkpoint.fold(
        [some_checkpoint(), part(1, **answer(3, "c1", "c2")), part(2, number=3, answered=result("c1"))]
    )
    resumed = before.replace(run_id="r2", part=0)
    last = Checkpoint(run_id="r2", part=1, number=3, answered=result("c2"))
    whole = Checkpoint.fold([resumed, last, Checkpoint(run_id="r2", part=2, **answer(4))])
    assert [[one.tool_call_id for one in step.results] for step in whole.steps] == [["c1", "c2"], []]


@pytest.mark.parametrize("parts", [[], [part(1)]], ids=["none", "without the first"])
def test_parts_without_a_beginning_are_refused(parts: list[Checkpoint]) -> None:
    with pytest.raises(ResumeError, match="first part"):
        Checkpoint.fold(parts)


def test_a_gap_between_parts_is_refused() -> None:
    with pytest.raises(ResumeError, match="part 2 of the checkpoint of run 'r1' is missing"):
        Checkpoint.fold([some_checkpoint(), part(1), part(3)])


# JSON.


def test_json_gives_the_checkpoint_back() -> None:
    assert Checkpoint.from_json(full_checkpoint().to_json()) == full_checkpoint()
    assert Checkpoint.from_dict(full_checkpoint().to_dict()) == full_checkpoint()


def test_full_checkpoint_leaves_no_field_out() -> None:
    told = json.loads(full_checkpoint().to_json())
    assert sorted(told) == sorted(set(Checkpoint.__struct_fields__) - {"part"})


def test_newer_version_is_refused_with_both_versions() -> None:
    newer = {**full_checkpoint().to_dict(), "version": VERSION + 1, "of_the_future": True}
    with pytest.raises(ResumeError, match=f"version {VERSION + 1}.*up to {VERSION}"):
        Checkpoint.from_dict(newer)


def test_every_cut_is_refused() -> None:
    whole = full_checkpoint().to_json().encode()
    for end in range(0, len(whole), 7):
        with pytest.raises(ResumeError):
            Checkpoint.from_json(whole[:end])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"SQLite format 3\x00",
        b"\xff\xfe",
        b'{"version": 1}',
        b'{"version": "1", "run_id": "r"}',
        b'{"version": 1, "run_id": "r", "surprise": 1}',
        b'{"version": 1, "run_id": "r", "messages": [{"role": "robot"}]}',
        b'{"version": 1, "run_id": "r", "interrupts": [{"id": "i", "reason": "r", "expires_at": "soon"}]}',
        b'{"version": 1, "run_id": "r", "state": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(ResumeError):
        Checkpoint.from_json(data)


def test_data_cannot_choose_a_class() -> None:
    data = {"__type__": "os.system", "value": "x", "type": "image", "role": "user"}
    saved = SavedResult.of(ToolResult(tool_call_id="c1", data=data))
    back = msgspec.json.decode(saved.to_json(), type=SavedResult).result()
    assert back.data == data
    assert type(back.data) is dict


@dataclass
class Box:
    size: int


def cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "data",
    [
        "text",
        "\ud800 half",
        None,
        0,
        2**70,
        1.5,
        float("nan"),
        b"bytes \xff",
        {"a": [1, {"b": None}]},
        {3: "three"},
        {"b", "a"},
        date(2024, 5, 1),
        Box(3),
        [Box(3)],
        object,
        TextPart("part"),
        [TextPart("a"), ImagePart(url="http://x/y.png")],
        cyclic(),
    ],
    ids=repr,
)
def test_saved_result_reads_as_the_result_itself(data: Any) -> None:
    result = ToolResult(tool_call_id="c1", data=data, duration_ms=1.5)
    back = msgspec.json.decode(SavedResult.of(result).to_json(), type=SavedResult).result()
    assert back.message("f").text == result.message("f").text
    assert back.parts == result.parts
    assert back.duration_ms == 1.5


# Another agent.


def test_changed_and_missing_tools_are_listed() -> None:
    checkpoint = some_checkpoint(tools={"pay": "other", "find": tool_hash(find), "gone": "x"})
    with pytest.raises(ResumeError, match="tool 'pay' takes other arguments now; tool 'gone' is gone"):
        checkpoint.check([pay, find], {})


def test_new_tools_and_new_words_do_no_harm() -> None:
    checkpoint = some_checkpoint(tools={"pay": tool_hash(pay)})
    checkpoint.check([pay.replace(description="Pay it all."), find], {"New": 1})


def test_saved_state_of_another_version_is_refused_with_what_differs() -> None:
    checkpoint = some_checkpoint(private={"Notes": Private(1, {}), "Old": Private(1, {}), "Same": Private(2, {})})
    with pytest.raises(ResumeError, match="'Notes' saved.*version 1, now it is 2; middleware 'Old'.*is gone"):
        checkpoint.check([], {"Notes": 2, "Same": 2})


def test_step_without_its_message_is_refused() -> None:
    checkpoint = some_checkpoint(steps=(SavedStep(number=0, message_id="a9", finish_reason="stop"),))
    with pytest.raises(ResumeError, match="'a9'"):
        checkpoint.past_steps()


def test_past_steps_are_the_steps() -> None:
    message = AssistantMessage("hi", id="a1")
    response = ModelResponse(message, "stop", Usage(1, 2), "m", "p", "cache")
    saved = some_checkpoint(messages=(UserMessage("q"), message), steps=(SavedStep.of(4, response, Usage(3, 4)),))
    (step,) = Checkpoint.from_json(saved.to_json()).past_steps()
    assert (step.number, step.response, step.usage) == (4, response, Usage(3, 4))
    assert (step.request.model, step.request.provider, step.request.number) == ("m", "p", 4)


# Sealed.

KEY = b"k" * 32


def test_sealed_checkpoint_comes_back_after_json() -> None:
    sealed = json.loads(json.dumps(seal(full_checkpoint(), KEY)))
    assert unseal(sealed, KEY) == full_checkpoint()


def changed(sealed: dict[str, Any]) -> Mapping[str, Any]:
    return {**sealed, "checkpoint": {**sealed["checkpoint"], "run_id": "r9"}}


@pytest.mark.parametrize(
    "spoil",
    [
        changed,
        lambda sealed: {**sealed, "seal": "0" * 64},
        lambda sealed: {**sealed, "seal": "é"},
        lambda sealed: {**sealed, "seal": None},
        lambda sealed: sealed["checkpoint"],
        lambda _: {},
        lambda _: seal(full_checkpoint(), b"another" * 5),
    ],
    ids=["changed", "wrong", "no ASCII", "none", "bare", "empty", "another key"],
)
def test_seal_that_does_not_fit_is_refused(spoil: Any) -> None:
    with pytest.raises(ResumeError, match="seal"):
        unseal(spoil(seal(full_checkpoint(), KEY)), KEY)
