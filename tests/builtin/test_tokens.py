"""Estimates: one rule, over text and not its JSON."""

from typing import Any

import pytest

from interpose import AssistantMessage, ImagePart, ModelRequest, TextPart, ToolCall, UserMessage, tool
from interpose.tokens import MEDIA_TOKENS, Growing, Tally, check_counter, count_message, count_tool, plain_json, tokens


@pytest.mark.parametrize(("text", "expected"), [("a" * 9, 3), ("a" * 8, 2), ("", 0), ("\n" * 4000, 1000)])
def test_a_token_is_four_characters_rounded_up(text: str, expected: int) -> None:
    assert tokens(text) == expected


def test_text_inside_json_counts_without_its_escapes() -> None:
    call = ToolCall("c1", "f", {"k": "\n" * 4000})
    assert count_message(AssistantMessage(tool_calls=(call,))) == tokens("f" + '{"k":"' + "n" * 4000 + '"}')


def test_other_scripts_count_by_their_characters() -> None:
    assert count_message(UserMessage("漢" * 300)) == count_message(UserMessage("x" * 300)) == 75


def test_message_counts_text_and_calls_as_one_string() -> None:
    calls = (ToolCall("c1", "ab", {"x": 1}), ToolCall("c2", "c", {}))
    assert count_message(AssistantMessage("hello", tool_calls=calls)) == tokens('helloab{"x":1}c{}')


def test_broken_arguments_count_as_the_model_wrote_them() -> None:
    broken: Any = '{"a": tru'
    assert count_message(AssistantMessage(tool_calls=(ToolCall("c1", "f", broken),))) == tokens('f{"a": tru')


def test_tool_counts_name_description_and_parameters() -> None:
    @tool
    def f(x: str) -> str:
        """Echo."""
        return x

    assert count_tool(f) == tokens("f" + "Echo." + plain_json(f.parameters))


def picture() -> UserMessage:
    return UserMessage(parts=(TextPart("t" * 40), ImagePart(data="A" * 250_000, media_type="image/png")))


def test_picture_has_a_fixed_price_whatever_its_size() -> None:
    assert count_message(picture()) == 10 + MEDIA_TOKENS


def test_own_counter_may_price_pictures() -> None:
    class ByBytes:
        def __call__(self, text: str, /) -> int:
            return len(text)

        def media(self, part: Any, /) -> int:
            return len(part.data) // 2

    assert count_message(picture(), ByBytes()) == 40 + 125_000


def test_request_counts_messages_tools_and_instructions() -> None:
    @tool
    def f() -> None:
        """Do."""

    messages = (UserMessage("x" * 8), AssistantMessage("y" * 9))
    request = ModelRequest(instructions="z" * 4, messages=messages, tools=(f,))
    assert Tally().request(request) == 2 + 3 + count_tool(f) + 1


def test_each_message_is_counted_once() -> None:
    counted: list[str] = []

    def note(text: str) -> int:
        counted.append(text)
        return 1

    tally = Tally(note)
    messages = [UserMessage(str(n)) for n in range(3)]
    tally.messages(messages[:2])
    assert (tally.messages(messages), counted) == (3, ["0", "1", "2"])


def test_tally_lets_go_of_what_it_no_longer_meets() -> None:
    tally = Tally()
    for _ in range(50):
        tally.messages([UserMessage("x") for _ in range(100)])
    assert len(tally._kept) < 2000


async def slow(text: str) -> int:
    return 1


@pytest.mark.parametrize("counter", [slow, 4], ids=["async", "no function"])
def test_counter_that_cannot_be_called_at_once_is_refused(counter: Any) -> None:
    with pytest.raises(TypeError, match="count_tokens"):
        check_counter(counter)


# --- Growing ---


def test_growing_history_is_summed_once() -> None:
    counted: list[str] = []

    def count(item: str) -> int:
        counted.append(item)
        return len(item)

    known = Growing(count)
    assert [known.sum(("aa",)), known.sum(("aa", "b")), known.sum(("aa", "b"))] == [2, 3, 3]
    assert counted == ["aa", "b"]


def test_history_that_was_cut_or_changed_is_summed_anew() -> None:
    known = Growing(len)
    assert [known.sum(("aa", "b")), known.sum(("b",)), known.sum(("ccc", "b")), known.sum(())] == [3, 1, 4, 0]
