"""Text that is odd: half characters, NUL, very long, and values that JSON cannot hold."""

import json
import math
from typing import Any

import pytest
from tests.layers.play import agent_of, both, errors_of, results_of, shape

from interpose import Finish, Middleware, StateSnapshotEvent, TextDelta, UserMessage
from interpose import ToolCallDelta as Delta
from interpose.testing import ScriptedModel, calls, chunks, text, text_of

LONE = "a\ud83db"
MENDED = "a\ufffdb"


async def back(x: str) -> str:
    """Give x back."""
    return x


def encodes(events: Any) -> None:
    for event in events:
        event.to_json().encode()


@pytest.mark.parametrize(
    "prompt",
    [LONE, [UserMessage(LONE)], [{"role": "user", "content": LONE}],
     [{"role": "user", "content": [{"type": "text", "text": LONE}]}]],
    ids=["string", "message", "dict", "parts"],
)  # fmt: skip
async def test_half_characters_in_a_prompt_are_replaced(prompt: Any) -> None:
    played = await both(lambda log: agent_of(text("x")), prompt)
    assert played.requests[0].messages[0].text == MENDED


async def test_half_characters_in_instructions_are_replaced() -> None:
    played = await both(lambda log: agent_of(text("x"), instructions=LONE))
    assert played.requests[0].instructions == MENDED


async def test_half_characters_that_a_layer_adds_are_replaced() -> None:
    class Adds(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.append_instructions(LONE).with_messages([*request.messages, UserMessage(LONE)])

    played = await both(lambda log: agent_of(text("x"), middleware=[Adds()]))
    assert played.requests[0].instructions == MENDED
    assert played.requests[0].messages[-1].text == MENDED


async def test_half_characters_in_arguments_are_replaced() -> None:
    played = await both(lambda log: agent_of(calls(("back", '{"x":"a\\ud83db"}')), text("x"), tools=[back]))
    assert results_of(played.result) == [MENDED]
    encodes(played.events)


@pytest.mark.parametrize("data", [LONE, [LONE], {"k": LONE}, {LONE: 1}, (LONE,), {"a": [{"b": LONE}]}], ids=ascii)
async def test_half_characters_in_a_result_are_replaced(data: Any) -> None:
    async def odd() -> Any:
        """Odd."""
        return data

    played = await both(lambda log: agent_of(calls("odd"), text("x"), tools=[odd]))
    assert MENDED in results_of(played.result)[0]
    encodes(played.events)
    played.result.to_json().encode()


async def test_half_characters_in_a_tools_error_are_replaced() -> None:
    async def odd() -> Any:
        """Odd."""
        raise ValueError(LONE)

    played = await both(lambda log: agent_of(calls("odd"), text("x"), tools=[odd]))
    assert MENDED in results_of(played.result)[0]
    encodes(played.events)


async def test_the_halves_of_a_character_in_two_chunks_are_joined() -> None:
    played = await both(lambda log: agent_of(text(chunks=("x\ud83d", "\ude00y"))))
    assert played.result.text == text_of(played.events) == "x\U0001f600y"
    encodes(played.events)


async def test_the_halves_of_a_character_in_two_chunks_of_arguments_are_joined() -> None:
    turn = chunks(Delta(0, "a", "back", '{"x":"\ud83d'), Delta(0, None, None, '\ude00"}'), Finish("tool_calls"))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[back]))
    assert results_of(played.result) == ["\U0001f600"]
    encodes(played.events)


@pytest.mark.parametrize(
    "pieces", [("x\ud83d",), ("\ude00x",), ("\ud83d", "x"), ("\ud83d", "\ud83d", "\ude00")], ids=ascii
)
async def test_a_half_that_stays_alone_becomes_a_replacement_character(pieces: Any) -> None:
    played = await both(lambda log: agent_of(text(chunks=pieces)))
    expected = "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert played.result.text == text_of(played.events) == expected
    encodes(played.events)


async def test_a_half_character_at_the_end_of_a_text_before_a_call_is_not_lost() -> None:
    turn = chunks(TextDelta("x\ud83d"), Delta(0, "a", "back", '{"x":"1"}'), Finish("tool_calls"))
    played = await both(lambda log: agent_of(turn, text("x"), tools=[back]))
    assert played.result.messages[1].text == "x\ufffd"
    encodes(played.events)


async def test_half_characters_in_reasoning_are_replaced() -> None:
    played = await both(lambda log: agent_of(text("x", reasoning=LONE)))
    assert shape(played.result.messages)[-1][2] == MENDED
    encodes(played.events)


async def test_half_characters_from_a_chunk_hook_are_replaced() -> None:
    class Breaks(Middleware):
        def on_chunk(self, ctx: Any, event: Any) -> Any:
            return event.replace(delta=LONE) if event.type == "TEXT_MESSAGE_CONTENT" else None

    played = await both(lambda log: agent_of(text("x"), text("y"), middleware=[Breaks()]))
    encodes(played.events)
    assert played.result.text == text_of(played.events) == played.result.messages[-1].text == MENDED
    played.result.to_json().encode()


async def test_half_characters_from_a_layers_answer_are_replaced() -> None:
    async def answers(ctx: Any, request: Any, call_next: Any) -> Any:
        return request.answer(LONE)

    played = await both(lambda log: agent_of(middleware=[answers]))
    assert played.result.text == text_of(played.events) == MENDED
    encodes(played.events)


async def test_half_characters_in_custom_events_and_state_do_not_break_the_wire() -> None:
    class Emits(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            ctx.emit("odd", {"k": LONE})

        def on_chunk(self, ctx: Any, event: Any) -> Any:
            return [StateSnapshotEvent({"k": LONE}), event] if event.type == "TEXT_MESSAGE_CONTENT" else None

    played = await both(lambda log: agent_of(text("x"), middleware=[Emits()]))
    encodes(played.events)
    sent = {event.type: json.loads(event.to_json()) for event in played.events}
    assert (sent["CUSTOM"]["value"], sent["STATE_SNAPSHOT"]["snapshot"]) == ({"k": MENDED}, {"k": MENDED})


@pytest.mark.parametrize("odd", ["a\x00b", "\x1b[31m", "\u2028", "\ufeff", "e\u0301", "\u202e"], ids=ascii)
async def test_other_odd_characters_pass_untouched(odd: str) -> None:
    played = await both(lambda log: agent_of(calls(("back", {"x": odd})), text(odd), tools=[back]), odd)
    assert played.requests[0].messages[0].text == odd
    assert results_of(played.result) == [odd]
    assert played.result.text == text_of(played.events) == odd
    encodes(played.events)


async def test_blanks_that_belong_to_the_text_are_kept() -> None:
    played = await both(lambda log: agent_of(text(chunks=("Hello", " wor", "ld\n", "\n", "  "))))
    assert played.result.text == text_of(played.events) == "Hello world\n\n  "


async def test_ten_megabytes_pass_in_every_direction() -> None:
    long = "x" * 10_000_000

    def make(log: list[Any]) -> Any:
        return agent_of(calls(("back", {"x": long})), text(long), tools=[back])

    played = await both(make, long)
    assert len(played.requests[0].messages[0].text) == len(results_of(played.result)[0]) == len(played.result.text)


def cyclic() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> Any:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    return value


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


ODD: dict[str, Any] = {
    "cyclic": cyclic,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "nan inside": lambda: [math.nan],
    "bytes": lambda: b"bytes\xff",
    "bytearray": lambda: bytearray(b"x"),
    "odd keys": lambda: {1: 2, None: 3},
    "tuple keys": lambda: {(1, 2): 3},
    "set": lambda: {1, 2},
    "object": Opaque,
    "class": lambda: object,
    "huge int": lambda: 10**400,
    "complex": lambda: 1 + 2j,
    "iterator": lambda: iter([1]),
    "hostile repr": Hostile,
    "deep": deep,
    "None": lambda: None,
}


@pytest.mark.parametrize("give", ODD.values(), ids=ODD)
async def test_any_result_of_a_tool_is_read_by_the_model_as_some_text(give: Any) -> None:
    nodes: list[Any] = []

    class Watches(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            nodes.append(node.kind)

    async def odd() -> Any:
        """Odd."""
        return give()

    played = await both(lambda log: agent_of(calls("odd"), text("x"), tools=[odd], middleware=[Watches()]))
    assert played.result.text == "x"
    assert isinstance(results_of(played.result)[0], str)
    encodes(played.events)


@pytest.mark.parametrize("value", [math.nan, b"x\xff", Opaque(), {1: 2}], ids=["nan", "bytes", "object", "keys"])
async def test_any_value_may_be_emitted_without_breaking_the_wire(value: Any) -> None:
    class Emits(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            ctx.emit("odd", value)

    played = await both(lambda log: agent_of(text("x"), middleware=[Emits()]))
    encodes(played.events)
    assert [event.name for event in played.events if event.type == "CUSTOM"] == ["odd"]
    assert played.result.text == "x"


async def test_a_result_of_a_dict_that_names_a_class_stays_a_dict() -> None:
    data = {"__type__": "os.system", "value": "x"}

    async def odd() -> Any:
        """Odd."""
        return data

    played = await both(lambda log: agent_of(calls("odd"), text("x"), tools=[odd]))
    assert played.result.steps[0].tool_results[0].data == data


async def test_json_results_are_compact_and_keep_their_letters() -> None:
    async def odd() -> Any:
        """Odd."""
        return {"a": "ä", "b": [1, 2]}

    played = await both(lambda log: agent_of(calls("odd"), text("x"), tools=[odd]))
    assert results_of(played.result) == ['{"a":"ä","b":[1,2]}']


async def test_arguments_nested_too_deep_are_answered() -> None:
    async def any_x(x: Any) -> str:
        """Any."""
        return "ran"

    raw = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    played = await both(lambda log: agent_of(calls(("any_x", raw)), text("x"), tools=[any_x]))
    assert errors_of(played.result)[0]


@pytest.mark.parametrize(
    "name", ["", " ", "a b", LONE, "x" * 10_000, "../etc", "\x00"], ids=lambda name: ascii(name[:9])
)
async def test_a_tool_name_of_the_model_may_be_anything(name: str) -> None:
    played = await both(lambda log: agent_of(calls((name, "{}")), text("x"), tools=[back]))
    assert errors_of(played.result)[0]
    encodes(played.events)


async def test_the_text_of_a_stream_is_the_text_of_the_result() -> None:
    played = await both(lambda log: agent_of(text(chunks=("one ", "two ", "three"))))
    assert text_of(played.events) == played.result.text == "one two three"


async def test_usage_told_several_times_in_a_stream_is_a_running_total() -> None:
    from interpose import Usage, UsageUpdate

    turn = chunks(
        UsageUpdate(Usage(input_tokens=10, output_tokens=1)), TextDelta("a"), UsageUpdate(Usage(output_tokens=5)),
        UsageUpdate(Usage(output_tokens=9)), Finish(),
    )  # fmt: skip
    used = (await both(lambda log: agent_of(turn))).result.usage
    assert (used.input_tokens, used.output_tokens, used.total_tokens) == (10, 9, 19)


async def test_a_later_zero_replaces_an_earlier_count() -> None:
    from interpose import Usage, UsageUpdate

    turn = chunks(UsageUpdate(Usage(output_tokens=5)), TextDelta("a"), UsageUpdate(Usage(output_tokens=0)), Finish())
    assert (await both(lambda log: agent_of(turn))).result.usage.output_tokens == 0


def test_unknown_counts_stay_unknown_and_give_way_to_known_ones() -> None:
    from interpose import Usage

    assert (Usage() + Usage()).cache_read_tokens is None
    assert (Usage() + Usage(cache_read_tokens=3)).cache_read_tokens == 3
    assert (Usage(input_tokens=0) + Usage()).input_tokens == 0


async def test_a_scripted_model_counts_its_requests_for_both_ways() -> None:
    model = ScriptedModel(text("a"), text("b"))
    agent = agent_of(model=model)
    await agent.run("1")
    await agent.run("2")
    assert [request.messages[-1].text for request in model.requests] == ["1", "2"]
