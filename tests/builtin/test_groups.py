"""Groups: what stays or goes as one, and what never goes."""

import pytest

from interpose import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from interpose.groups import groups_of, insert_note, leading, without


def history(shape: str) -> list[Message]:
    """Messages by letters: s, u, a; `c` calls a tool, `C` two, `r` answers the next open call."""
    messages: list[Message] = []
    waiting: list[str] = []
    for place, letter in enumerate(shape):
        match letter:
            case "s":
                messages.append(SystemMessage(f"s{place}"))
            case "u":
                messages.append(UserMessage(f"u{place}"))
            case "a":
                messages.append(AssistantMessage(f"a{place}"))
            case "c" | "C":
                ids = [f"c{place}.{n}" for n in range(1 if letter == "c" else 2)]
                waiting += ids
                messages.append(AssistantMessage(tool_calls=tuple([ToolCall(one, "echo") for one in ids])))
            case "r":
                messages.append(ToolMessage(f"r{place}", waiting.pop(0)))
    return messages


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("ua", [(0,), (1,)]),
        ("ssua", [(2,), (3,)]),
        ("usa", [(0,), (1,), (2,)]),
        ("ucrcr", [(0,), (1, 2), (3, 4)]),
        ("uCrra", [(0,), (1, 2, 3), (4,)]),
        ("cr", [(0, 1)]),
        ("uc", [(0,), (1,)]),
        ("s", []),
        ("", []),
    ],
)
def test_a_call_and_its_results_are_one_group(shape: str, expected: list[tuple[int, ...]]) -> None:
    assert [group.places for group in groups_of(history(shape))] == expected


@pytest.mark.parametrize(
    ("shape", "staying"),
    [("uaua", {2, 3}), ("ucrcr", {0, 3, 4}), ("sua", {1, 2}), ("crcr", {2, 3}), ("usus", {2, 3}), ("a", {0})],
)
def test_newest_user_message_and_newest_group_never_go(shape: str, staying: set[int]) -> None:
    groups = groups_of(history(shape))
    assert {place for group in groups if not group.may_go for place in group.places} == staying


@pytest.mark.parametrize(("shape", "count"), [("ssus", 2), ("u", 0), ("ss", 2), ("", 0)])
def test_leading_system_messages_are_those_before_anything_else(shape: str, count: int) -> None:
    assert leading(history(shape)) == count


def test_a_note_never_parts_a_call_from_its_results() -> None:
    kept = history("uCrr")
    insert_note(kept, 3, "note")
    assert [message.role for message in kept] == ["user", "system", "assistant", "tool", "tool"]


def test_what_goes_leaves_the_rest_in_order() -> None:
    assert [message.text for message in without(history("uaua"), {0, 2})] == ["a1", "a3"]
