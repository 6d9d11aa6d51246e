"""`ContentGuard`: what readers get to see, in pieces and as a whole, and what is remembered."""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose import (
    Agent,
    Middleware,
    ModelRequest,
    ProviderDown,
    RunAborted,
    RunContext,
    TextMessageContentEvent,
    TextMessageEndEvent,
    tool,
)
from interpose.builtin import ContentGuard
from interpose.events import Event
from interpose.outcomes import DROP
from interpose.testing import (
    ScriptedModel,
    assert_events_valid,
    calls,
    collect,
    event_types,
    fail,
    make_context,
    text,
    text_of,
)

KEY = r"sk-[a-z0-9]{8,}"
SECRET = "key: sk-abcd1234efgh end"


def agent(guard: ContentGuard, *turns: Any, tools: Sequence[Any] = ()) -> Agent:
    return Agent(ScriptedModel(*turns), tools=tools, middleware=[guard], post_model_hooks=())


async def streamed(guard: ContentGuard, *turns: Any, tools: Sequence[Any] = ()) -> list[Event]:
    async with agent(guard, *turns, tools=tools).stream("go") as run:
        return await collect(run)


async def played(guard: ContentGuard, chunks: Iterable[str]) -> list[str]:
    """What is sent of one message, chunk by chunk."""
    ctx = make_context()
    sent: list[Any] = []
    for chunk in chunks:
        event: Any = guard.on_chunk(ctx, TextMessageContentEvent(message_id="m", delta=chunk))
        event = await event if isawaitable(event) else event
        sent += [] if event is DROP else [event]
    end: Any = guard.on_chunk(ctx, TextMessageEndEvent(message_id="m"))
    sent += await end or []
    return [event.delta for event in sent if isinstance(event, TextMessageContentEvent)]


# --- what is found ---


async def test_match_within_a_chunk_is_replaced_in_stream_and_record() -> None:
    guard = ContentGuard([(KEY, "[KEY]")])
    events = await streamed(guard, text(SECRET))
    result = await agent(guard, text(SECRET)).run("go")
    assert (text_of(events), result.text, result.messages[-1].text) == ("key: [KEY] end",) * 3


@pytest.mark.parametrize("place", range(len(SECRET) + 1))
async def test_secret_cut_anywhere_is_found(place: int) -> None:
    sent = await played(ContentGuard([(KEY, "[KEY]")]), [SECRET[:place], SECRET[place:]])
    assert "".join(sent) == "key: [KEY] end"


@pytest.mark.parametrize("hold", [20, 50])
async def test_no_beginning_of_what_was_sent_shows_three_characters_of_the_secret(hold: int) -> None:
    padded = "x" * 100 + " " + SECRET + " " + "y" * 100
    sent = await played(ContentGuard([(KEY, "[KEY]")], hold_chars=hold), padded)
    assert "".join(sent) == padded.replace("sk-abcd1234efgh", "[KEY]")
    assert not [n for n in range(len(sent)) if "sk-" in "".join(sent[: n + 1])]


async def test_match_that_grows_beyond_what_is_held_is_held_whole() -> None:
    sent = await played(ContentGuard([(KEY, "[KEY]")], hold_chars=20), "go sk-" + "a1" * 500 + " on")
    assert "".join(sent) == "go [KEY] on"


async def test_text_older_than_what_is_held_is_sent_before_the_end() -> None:
    sent = await played(ContentGuard([(KEY, "")], hold_chars=10), ["word "] * 40)
    assert len(sent) > 10


async def test_text_shorter_than_what_is_held_comes_at_the_end_of_the_message() -> None:
    events = await streamed(ContentGuard([("a", "b")]), text("a a", chunks=("a", " a")))
    assert text_of(events) == "b b"
    assert_events_valid(events)


async def test_each_rule_sees_what_the_one_before_made() -> None:
    guard = ContentGuard([("cat", "dog"), (lambda said: said.replace("dog", "bird"))])
    assert "".join(await played(guard, ["one c", "at"])) == "one bird"


async def test_async_function_is_a_rule() -> None:
    async def shout(said: str) -> str:
        await asyncio.sleep(0)
        return said.upper()

    assert "".join(await played(ContentGuard([shout], hold_chars=4), ["abc", "def", "ghij"])) == "ABCDEFGHIJ"


async def test_replacement_may_refer_to_groups_or_be_a_function() -> None:
    rules: list[Any] = [(r"(\w+)@\w+", r"\1@…"), (r"\d+", lambda match: "#" * len(match.group()))]
    assert "".join(await played(ContentGuard(rules), ["ann@home 123"])) == "ann@… ###"


async def test_delta_looks_at_each_chunk_alone() -> None:
    guard = ContentGuard([("secret", "[X]")], strategy="delta")
    assert await played(guard, ["a secret ", "sec", "ret"]) == ["a [X] ", "sec", "ret"]


RULES: dict[str, list[Any]] = {
    "key": [(r"sk-[a-z0-9]{3,}", "[KEY]")],
    "longer": [("ab", "abab")],
    "chained": [("a+b", "<b>"), ("<b>c", "Z")],
    "words": [(r"\bfoo\b", "bar")],
    "behind": [("^a", "B"), ("(?<=b)c", "Q")],
    "groups": [("(a)(b)?", r"\1-")],
    "functions": [lambda said: said.replace("ab", "xyz"), ("yz+c", "!")],
    "alternatives": [("a|ab|abc", "#")],
    "blanks": [(r"\s+", " ")],
    "none": [],
}


def as_a_whole(rules: list[Any], said: str) -> str:
    for rule in rules:
        said = rule(said) if callable(rule) else re.sub(rule[0], rule[1], said)
    return said


@pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))
@settings(max_examples=25, deadline=None)
@given(
    chunks=st.lists(
        st.text("abcfosk-1 ", min_size=1, max_size=7) | st.sampled_from(["sk-", "foo", "aab"]), max_size=12
    ),
    hold=st.sampled_from([8, 12, 50]),
)
def test_split_text_is_edited_like_the_whole(rules: list[Any], chunks: list[str], hold: int) -> None:
    sent = asyncio.run(played(ContentGuard(rules, hold_chars=hold), chunks))
    assert "".join(sent) == as_a_whole(rules, "".join(chunks))


# --- ends of messages ---


async def test_what_is_held_is_sent_when_the_provider_fails() -> None:
    model = ScriptedModel(fail(ProviderDown("down"), after=["a sec", "ret wo"]))
    run_of = Agent(model, middleware=[ContentGuard([("secret", "[X]")])], post_model_hooks=())
    async with run_of.stream("go") as run:
        events = await collect(run)
        with pytest.raises(ProviderDown):
            await run.result()
    assert text_of(events) == "a [X] wo"
    assert_events_valid(events)


async def test_what_is_held_is_sent_when_the_run_is_aborted() -> None:
    class Enough(Middleware):
        def on_chunk(self, ctx: RunContext, event: Event) -> None:
            if isinstance(event, TextMessageContentEvent) and "two" in event.delta:
                ctx.abort("enough")

    model = ScriptedModel(text(chunks=("one ", "two ", "three")))
    mine = Agent(model, middleware=[Enough(), ContentGuard([("one", "1")])], post_model_hooks=())
    async with mine.stream("go") as run:
        events = await collect(run)
        with pytest.raises(RunAborted):
            await run.result()
    assert text_of(events).startswith("1")
    assert_events_valid(events)


async def test_tool_events_between_texts_pass_untouched() -> None:
    @tool
    async def echo(x: str) -> str:
        return x

    events = await streamed(
        ContentGuard([("secret", "[X]")]), calls(("echo", {"x": "secret"}), text="my secret"), text("ok"), tools=[echo]
    )
    assert next(event for event in events if event.type == "TOOL_CALL_ARGS").to_dict()["delta"] == '{"x":"secret"}'
    assert event_types(events).count("TEXT_MESSAGE_END") == 2
    assert_events_valid(events)


async def test_reasoning_is_guarded_too() -> None:
    guard = ContentGuard([("secret", "[X]")])
    result = await agent(guard, text("fine", reasoning="a secret thought")).run("go")
    assert result.messages[-1].to_dict()["reasoning"] == "a [X] thought"


async def test_second_run_has_none_of_the_first_ones_text() -> None:
    guard = ContentGuard([("secret", "[X]")])
    mine = agent(guard, fail(ProviderDown("down"), after=["held"]), text("next"))
    with pytest.raises(ProviderDown):
        await mine.run("go")
    assert (await mine.run("go")).text == "next"


async def test_text_rewritten_further_in_is_edited() -> None:
    class Leaky(Middleware):
        def after_model_call(self, ctx: RunContext, request: ModelRequest, response: Any) -> Any:
            return response.with_text("the secret again")

    model = ScriptedModel(text("first"))
    result = await Agent(model, middleware=[ContentGuard([("secret", "[X]")]), Leaky()], post_model_hooks=()).run("go")
    assert result.text == "the [X] again"


# --- block ---


async def test_block_ends_the_message_before_the_match() -> None:
    events = await streamed(ContentGuard([(KEY, "")], block=True), text(SECRET + " and more " * 20, chunks=None))
    assert text_of(events) == "key: "
    assert_events_valid(events)


async def test_block_gives_the_finish_reason_and_keeps_the_text_before() -> None:
    result = await agent(ContentGuard([(KEY, "")], block=True), text(chunks=[*SECRET, " x" * 60])).run("go")
    assert (result.text, result.finish_reason, result.messages[-1].text) == ("key: ", "content_filter", "key: ")


async def test_calls_of_a_blocked_answer_do_not_run() -> None:
    ran = []

    @tool
    async def pay() -> None:
        ran.append(1)

    result = await agent(ContentGuard([(KEY, "")], block=True), calls("pay", text=SECRET), tools=[pay]).run("go")
    assert (ran, result.finish_reason) == ([], "content_filter")


async def test_block_without_a_match_changes_nothing() -> None:
    result = await agent(ContentGuard([(KEY, "")], block=True), text("fine")).run("go")
    assert (result.text, result.finish_reason) == ("fine", "stop")


async def test_block_with_a_function_ends_where_it_would_change_the_text() -> None:
    guard = ContentGuard([lambda said: said.replace("secret", "[X]")], block=True)
    assert (await agent(guard, text("my secret")).run("go")).text == "my "


async def test_block_holds_for_an_answer_made_up_further_in() -> None:
    class Canned(Middleware):
        def before_model_call(self, ctx: RunContext, request: ModelRequest) -> Any:
            return request.answer(SECRET)

    mine = Agent(ScriptedModel(), middleware=[ContentGuard([(KEY, "")], block=True), Canned()], post_model_hooks=())
    result = await mine.run("go")
    assert (result.text, result.finish_reason) == ("key: ", "content_filter")


async def test_second_attempt_is_not_taken_for_the_blocked_first() -> None:
    class Again(Middleware):
        async def wrap_model_call(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> Any:
            await call_next(request)
            return await call_next.again(request)

    model = ScriptedModel(text(SECRET + " x" * 60), text("clean"))
    mine = Agent(model, middleware=[ContentGuard([(KEY, "")], block=True), Again()], post_model_hooks=())
    result = await mine.run("go")
    assert (result.text, result.finish_reason) == ("clean", "stop")


# --- telling ---


async def test_on_filtered_is_told_of_changed_text_only() -> None:
    told: list[Any] = []
    guard = ContentGuard([("secret", "[X]")], on_filtered=lambda *what: told.append(what))
    await agent(guard, text("a secret")).run("go")
    await agent(guard, text("nothing")).run("go")
    assert [(original, filtered, strategy) for _, original, filtered, strategy in told] == [
        ("a secret", "a [X]", "buffered")
    ]


async def test_on_filtered_names_the_message() -> None:
    told: list[str] = []

    async def note(message_id: str, original: str, filtered: str, strategy: str) -> None:
        told.append(message_id)

    events = await streamed(ContentGuard([("secret", "[X]")], on_filtered=note), text("a secret"))
    assert told == [event.message_id for event in events if isinstance(event, TextMessageEndEvent)]


async def test_failing_on_filtered_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*what: str) -> None:
        raise RuntimeError("no log today")

    result = await agent(ContentGuard([("secret", "[X]")], on_filtered=broken), text("a secret")).run("go")
    assert (result.text, "on_filtered failed" in caplog.text) == ("a [X]", True)


# --- bad input ---


@pytest.mark.parametrize(
    ("rules", "options"),
    [
        ([("(", "x")], {}),
        ([("a", r"\9")], {}),
        (["a"], {}),
        ([("a",)], {}),
        ([(b"a", "x")], {}),
        ([(re.compile(b"a"), "x")], {}),
        ([], {"strategy": "later"}),
        ([], {"hold_chars": -1}),
    ],
    ids=["pattern", "group", "string", "no replacement", "bytes", "pattern of bytes", "strategy", "hold"],
)
def test_wrong_options_are_refused(rules: Any, options: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ContentGuard(rules, **options)


async def test_rule_that_returns_no_text_fails_the_run() -> None:
    nothing: Callable[[str], Any] = lambda said: None  # noqa: E731  # as a user would write it
    with pytest.raises(TypeError, match="must return text"):
        await agent(ContentGuard([nothing]), text("hi")).run("go")
