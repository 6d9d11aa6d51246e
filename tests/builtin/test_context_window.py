"""`ContextWindow`: what is sent of a long history, and what never goes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose import (
    Agent,
    AssistantMessage,
    Message,
    Middleware,
    ModelRequest,
    Node,
    RunContext,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from interpose.builtin import ContextWindow
from interpose.builtin.context_window import NOTICE
from interpose.testing import ScriptedModel, calls, make_context, make_request, text


@tool
async def echo(x: str) -> str:
    return x


def sent(window: ContextWindow, *messages: Message) -> tuple[list[str], dict[str, Any]]:
    """The texts that are sent, and what the record is told."""
    ctx = make_context()
    request = make_request(*messages)
    changed = window.before_model_call(ctx, request) or request
    return [message.text for message in changed.messages], ctx.written


async def after_eight_steps(window: ContextWindow | None) -> ModelRequest:
    model = ScriptedModel(*[calls(("echo", {"x": str(n)})) for n in range(8)], text("done"))
    middleware = [] if window is None else [window]
    await Agent(model, tools=[echo], middleware=middleware, post_model_hooks=()).run("go")
    return model.requests[-1]


def plain(count: int, length: int = 1) -> list[Message]:
    return [UserMessage("u" * length) if n % 2 == 0 else AssistantMessage("a" * length) for n in range(count)]


def exchange(number: int, count: int = 1) -> list[Message]:
    asked = tuple([ToolCall(f"c{number}.{n}", "echo", {"x": "1"}) for n in range(count)])
    return [AssistantMessage(tool_calls=asked), *[ToolMessage("ok", call.id) for call in asked]]


def test_without_options_everything_is_sent() -> None:
    texts, meta = sent(ContextWindow(), *plain(3))
    assert (texts, meta) == (["u", "a", "u"], {"window_cut": False, "messages_sent": 3, "messages_original": 3})


async def test_without_a_window_all_steps_are_sent() -> None:
    assert len((await after_eight_steps(None)).messages) == 17


@pytest.mark.parametrize("limit", [1, 3])
async def test_user_message_and_last_exchange_are_left_of_many_steps(limit: int) -> None:
    request = await after_eight_steps(ContextWindow(max_messages=limit, notice=None))
    assert [(message.role, message.text) for message in request.messages] == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", "7"),
    ]


def test_leading_system_messages_stay_and_a_later_one_goes() -> None:
    messages: list[Message] = [SystemMessage("s1"), SystemMessage("s2"), UserMessage("u1"), AssistantMessage("a")]
    messages += [SystemMessage("s3"), UserMessage("u2")]
    assert sent(ContextWindow(max_messages=1), *messages)[0] == ["s1", "s2", NOTICE, "u2"]


def test_call_goes_with_all_its_results() -> None:
    messages = [UserMessage("u1"), *exchange(1, 2), AssistantMessage("ok"), UserMessage("u2")]
    request = make_request(*messages)
    changed = ContextWindow(max_messages=4, notice=None).before_model_call(make_context(), request)
    assert changed is not None
    assert [message.role for message in changed.messages] in (
        ["assistant", "user"],
        ["assistant", "tool", "tool", "user"],
    )


def test_notice_stands_where_the_first_message_went() -> None:
    messages = [UserMessage("u"), *exchange(1), *exchange(2)]
    assert sent(ContextWindow(max_messages=3, notice="cut"), *messages)[0] == ["u", "cut", "", "ok"]


def test_no_notice_where_none_is_wanted() -> None:
    assert sent(ContextWindow(max_messages=1, notice=None), *plain(3))[0] == ["u"]


def test_history_within_the_limit_has_no_notice() -> None:
    assert sent(ContextWindow(max_messages=50), *plain(3))[0] == ["u", "a", "u"]


def tool_result(length: int) -> list[Message]:
    call = ToolCall("c1", "echo", {"x": "1"})
    return [UserMessage("u"), AssistantMessage(tool_calls=(call,)), ToolMessage("r" * length, "c1")]


def test_long_tool_result_is_cut_and_says_so_without_a_notice() -> None:
    texts, meta = sent(ContextWindow(max_chars_per_tool=100), *tool_result(5000))
    assert (texts[2], len(texts), meta["window_cut"]) == ("r" * 100 + "\n… [truncated]", 3, False)


def test_tool_result_at_the_cap_is_unchanged() -> None:
    assert sent(ContextWindow(max_chars_per_tool=100), *tool_result(100))[0][2] == "r" * 100


def test_capped_result_is_the_same_object_in_every_step() -> None:
    ctx, request = make_context(), make_request(*tool_result(500))
    window = ContextWindow(max_chars_per_tool=100)
    first, second = window.before_model_call(ctx, request), window.before_model_call(ctx, request)
    assert first is not None
    assert second is not None
    assert first.messages[2] is second.messages[2]


def test_texts_sum_to_the_limit_of_characters_at_most() -> None:
    texts, _ = sent(ContextWindow(max_chars=1200, notice=None), *plain(9, length=500))
    assert sum(map(len, texts)) == 1000


def test_one_message_over_the_whole_budget_is_sent_whole_and_the_record_says_so() -> None:
    texts, meta = sent(ContextWindow(max_chars=100), UserMessage("x" * 10_000))
    assert (texts, meta["window_cut"], meta["window_over_limit"]) == (["x" * 10_000], False, True)


async def test_what_is_stored_stays_whole_and_each_step_starts_from_it() -> None:
    model = ScriptedModel(*[calls(("echo", {"x": str(n)})) for n in range(3)], text("done"))
    agent = Agent(model, tools=[echo], middleware=[ContextWindow(max_messages=3)], post_model_hooks=())
    result = await agent.run("go")
    assert (len(result.messages), [len(request.messages) for request in model.requests]) == (8, [1, 3, 4, 4])


async def test_record_shows_what_was_sent() -> None:
    class Watch(Middleware):
        def __init__(self) -> None:
            self.meta: list[Any] = []

        def on_node(self, ctx: RunContext, node: Node) -> None:
            if node.kind == "model" and node.phase == "end":
                self.meta.append(dict(node.meta))

    watch = Watch()
    model = ScriptedModel(*[calls(("echo", {"x": str(n)})) for n in range(2)], text("done"))
    middleware = [watch, ContextWindow(max_messages=3)]
    await Agent(model, tools=[echo], middleware=middleware, post_model_hooks=()).run("go")
    assert watch.meta[-1] == {"window_cut": True, "messages_sent": 4, "messages_original": 5}


@pytest.mark.parametrize("name", ["max_messages", "max_chars", "max_chars_per_tool"])
@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_is_refused(name: str, limit: int) -> None:
    options: dict[str, Any] = {name: limit}
    with pytest.raises(ValueError, match=name):
        ContextWindow(**options)


@settings(max_examples=100, deadline=None)
@given(
    shape=st.lists(st.sampled_from("suac"), max_size=14).map("".join),
    limit=st.integers(1, 8),
    chars=st.none() | st.integers(1, 30),
)
def test_any_history_stays_legal_and_is_cut_no_further_than_needed(shape: str, limit: int, chars: int | None) -> None:
    messages: list[Message] = []
    for place, kind in enumerate(shape):
        match kind:
            case "s":
                messages.append(SystemMessage("system"))
            case "u":
                messages.append(UserMessage("user"))
            case "a":
                messages.append(AssistantMessage("assistant"))
            case "c":
                messages += exchange(place, 2)
    request = make_request(*messages, instructions="x")
    window = ContextWindow(max_messages=limit, max_chars=chars, notice=None)
    kept = (window.before_model_call(make_context(), request) or request).messages
    asked = [call.id for message in kept for call in message.tool_calls]
    answered = [message.tool_call_id for message in kept if message.role == "tool"]
    assert asked == answered
    assert [message for message in messages if message in kept] == list(kept)
    assert not messages or messages[-1] in kept
