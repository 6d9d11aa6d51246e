"""Model hooks: their order, their escapes, and the four that come with the library."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from interpose import (
    Agent,
    AssistantMessage,
    HookError,
    Message,
    Middleware,
    ModelProfile,
    ModelRequest,
    Pause,
    Retry,
    RunContext,
    SystemMessage,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from interpose._engine.model_hooks import ModelHooks
from interpose.builtin import Stop
from interpose.hooks import (
    DEFAULT_POST_MODEL_HOOKS,
    PostModelHookContext,
    PostModelHookResult,
    PreModelHookContext,
    PreModelHookResult,
    history_trimmer,
    repetition_detector,
    tool_call_validator,
    tool_prompt_budget,
)
from interpose.repetition import repeats_itself
from interpose.testing import ScriptedModel, calls, collect, event_types, make_request, make_response, text
from interpose.tokens import count_message, count_tool


@tool
async def echo(x: str, n: int = 0) -> str:
    """Say it again. Whatever it is."""
    return x


def agent(
    *turns: Any, pre: Sequence[Any] = (), post: Sequence[Any] = (), outer: Sequence[Any] = (), **options: Any
) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*turns, profile=options.pop("profile", None))
    middleware = [*outer, ModelHooks(pre, post)]
    return Agent(model, tools=[echo], middleware=middleware, post_model_hooks=(), **options), model


# --- before the call ---


async def test_each_pre_hook_sees_what_the_one_before_left() -> None:
    seen: list[int] = []

    async def first(context: PreModelHookContext) -> PreModelHookResult:
        return PreModelHookResult(messages=[*context.messages, UserMessage("more")])

    def second(context: PreModelHookContext) -> None:
        seen.append(len(context.messages))

    mine, model = agent(text("ok"), pre=[first, second])
    result = await mine.run("go")
    assert (seen, len(model.requests[0].messages), len(result.messages)) == ([2], 2, 2)


async def test_short_circuit_answers_and_nobody_else_is_called() -> None:
    called: list[str] = []
    mine, model = agent(
        pre=[
            lambda context: PreModelHookResult(short_circuit=AssistantMessage("mine")),
            lambda c: called.append("pre"),
        ],
        post=[lambda context: called.append("post")],
    )
    result = await mine.run("go")
    assert (result.text, result.messages[-1].text, called, model.requests) == ("mine", "mine", [], [])


async def test_interrupt_beats_short_circuit_and_pauses() -> None:
    both = PreModelHookResult(interrupt=Pause("sure?", {"a": 1}), short_circuit=AssistantMessage("no"))
    mine, model = agent(pre=[lambda context: both])
    result = await mine.run("go")
    assert [(asked.reason, asked.value) for asked in result.interrupts] == [("sure?", {"a": 1})]
    assert (result.status, model.requests) == ("interrupted", [])


async def test_change_of_model_holds_for_its_step() -> None:
    def once(context: PreModelHookContext) -> PreModelHookResult | None:
        return PreModelHookResult(model="b") if len(context.messages) == 1 else None

    mine, model = agent(calls(("echo", {"x": "a"})), text("ok"), pre=[once])
    await mine.run("go")
    assert [request.model for request in model.requests] == ["b", "scripted"]


async def test_later_hooks_get_the_profile_of_the_new_model() -> None:
    big = ScriptedModel(text("ok"), model="big", profile=ModelProfile(max_input_tokens=9))
    seen: list[Any] = []
    swap = PreModelHookResult(model=big)
    mine, _ = agent(pre=[lambda c: swap, lambda c: seen.append((c.model, c.model_profile))])
    await mine.run("go")
    assert seen == [("big", big.profile)]


async def test_suffixes_go_behind_the_instructions_in_order() -> None:
    pre = [
        lambda c: PreModelHookResult(system_prompt_suffix="X"),
        lambda c: PreModelHookResult(system_prompt_suffix="Y"),
    ]
    mine, model = agent(text("ok"), pre=pre, instructions="I")
    await mine.run("go")
    assert model.requests[0].instructions == "I\n\nX\n\nY"


@pytest.mark.parametrize("nothing", [None, PreModelHookResult()], ids=["None", "empty"])
async def test_pre_hook_that_says_nothing_changes_nothing(nothing: Any) -> None:
    mine, model = agent(text("ok"), pre=[lambda context: nothing])
    plain, other = agent(text("ok"))
    assert (await mine.run("go")).text == (await plain.run("go")).text
    assert model.requests[0].fingerprint() == other.requests[0].fingerprint()


# --- after the call ---


def rewriting(said: str) -> Callable[[PostModelHookContext], PostModelHookResult]:
    return lambda context: PostModelHookResult(response=context.response.with_text(context.response.text + said))


async def test_each_post_hook_sees_what_the_one_before_made() -> None:
    mine, _ = agent(text("ok"), post=[rewriting("1"), rewriting("2")])
    assert (await mine.run("go")).text == "ok12"


async def test_retry_asks_again_with_the_rejected_text_and_the_feedback() -> None:
    seen: list[str] = []

    async def polite(context: PostModelHookContext) -> PostModelHookResult | None:
        return None if "please" in context.response.text else PostModelHookResult(retry=Retry("say please"))

    def watching(context: PostModelHookContext) -> None:
        seen.append(context.response.text)

    mine, model = agent(text("no"), text("yes please"), post=[polite, watching])
    result = await mine.run("go")
    assert [message.text for message in model.requests[1].messages] == ["go", "no", "say please"]
    assert ([message.text for message in result.messages], seen) == (["go", "yes please"], ["yes please"])


async def test_retry_starts_at_the_first_pre_hook_with_nothing_left_of_the_first_attempt() -> None:
    added = PreModelHookResult(system_prompt_suffix="X")
    mine, model = agent(
        text("a"), text("b"), pre=[lambda c: added], post=[lambda c: PostModelHookResult(retry=Retry("again"))]
    )
    await mine.run("go")
    assert [request.instructions for request in model.requests] == ["X", "X"]


async def test_used_up_retry_counts_as_nothing_and_later_hooks_run() -> None:
    always = PostModelHookResult(retry=Retry("again", max_retries=2))
    mine, model = agent(text("1"), text("2"), text("3"), post=[lambda context: always, rewriting("!")])
    result = await mine.run("go")
    assert (result.text, len(model.requests)) == ("3!", 3)
    assert [m.text for m in model.requests[2].messages] == ["go", "2", "again"]


async def test_retries_are_counted_anew_in_each_step() -> None:
    always = PostModelHookResult(retry=Retry("again"))
    asked = calls(("echo", {"x": "a"}))
    mine, model = agent(asked, asked, text("1"), text("2"), post=[lambda context: always])
    assert ((await mine.run("go")).text, len(model.requests)) == ("2", 4)


async def test_retry_beats_response_and_interrupt_beats_retry() -> None:
    both = PostModelHookResult(response=make_response("never"), retry=Retry("again"))
    mine, _ = agent(text("1"), text("2"), post=[lambda c: both if c.response.text == "1" else None])
    assert (await mine.run("go")).text == "2"
    paused, _ = agent(text("1"), post=[lambda c: both.replace(interrupt=Pause("look"))])
    assert [asked.reason for asked in (await paused.run("go")).interrupts] == ["look"]


async def test_outer_middleware_sees_the_accepted_response_only() -> None:
    class Watch(Middleware):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def after_model_call(self, ctx: RunContext, request: ModelRequest, response: Any) -> None:
            self.seen.append(response.text)

    watch = Watch()
    again = [lambda c: PostModelHookResult(retry=Retry("again")) if c.response.text == "1" else None]
    mine, _ = agent(text("1"), text("2"), post=again, outer=[watch, Stop.when(False)])
    await mine.run("go")
    assert watch.seen == ["2"]


async def test_rejected_text_is_superseded_in_a_stream() -> None:
    again = [lambda c: PostModelHookResult(retry=Retry("again")) if c.response.text == "1" else None]
    mine, _ = agent(text("1"), text("2"), post=again)
    async with mine.stream("go") as run:
        assert event_types(await collect(run)).count("CUSTOM") == 1


async def test_hooks_share_the_state_of_the_run() -> None:
    def note(context: PreModelHookContext) -> None:
        context.state["steps"] = context.state.get("steps", 0) + 1

    seen: list[Any] = []
    turns = [calls(("echo", {"x": "a"})), text("ok")]
    mine, _ = agent(*turns, pre=[note], post=[lambda context: seen.append(context.state["steps"])])
    await mine.run("go")
    assert seen == [1, 2]


async def test_hook_that_returns_something_else_is_named() -> None:
    def odd(context: PreModelHookContext) -> Any:
        return "text"

    mine, _ = agent(text("ok"), pre=[odd])
    with pytest.raises(HookError, match="odd returned str"):
        await mine.run("go")


@pytest.mark.parametrize(
    "make",
    [
        lambda wrong: PreModelHookResult(interrupt=wrong),
        lambda wrong: PreModelHookResult(short_circuit=wrong),
        lambda wrong: PostModelHookResult(retry=wrong),
        lambda wrong: PostModelHookResult(response=wrong),
    ],
)
def test_result_of_the_wrong_kind_is_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="takes a"):
        make("wrong")


# --- history_trimmer ---


def before(*messages: Message, profile: ModelProfile | None = None, **fields: Any) -> PreModelHookContext:
    return PreModelHookContext(
        messages=messages,
        model="m",
        model_profile=profile,
        **{"tools": (), "system_prompt": "", "state": {}, **fields},
    )


def exchange(number: int, length: int = 4) -> list[Message]:
    call = ToolCall(f"c{number}", "echo", {"x": "y"})
    return [AssistantMessage(tool_calls=(call,)), ToolMessage("r" * length, call.id)]


@pytest.mark.parametrize("profile", [None, ModelProfile()], ids=["no profile", "no limit"])
def test_trimmer_needs_to_know_the_limit(profile: ModelProfile | None) -> None:
    assert history_trimmer(before(UserMessage("u" * 99_999), profile=profile)) is None


def test_trimmer_leaves_a_history_that_fits() -> None:
    assert history_trimmer(before(UserMessage("u" * 400), profile=ModelProfile(max_input_tokens=100))) is None


def test_trimmer_cuts_whole_groups_until_the_rest_fits_with_its_note() -> None:
    history: list[Message] = [UserMessage("old"), *[one for n in range(9) for one in exchange(n, 2000)]]
    messages: list[Message] = [SystemMessage("rules"), *history, UserMessage("new"), *exchange(99)]
    profile = ModelProfile(max_input_tokens=1000, max_output_tokens=200)
    result = history_trimmer(before(*messages, profile=profile))
    assert result is not None
    assert result.messages is not None
    sent = list(result.messages)
    assert sum(map(count_message, sent)) <= 800
    assert (sent[0], sent[-3:]) == (messages[0], messages[-3:])
    assert sent[1].text == f"{len(messages) - len(sent) + 1} earlier messages were left out to fit the model."
    asked = [call.id for message in sent for call in message.tool_calls]
    assert asked == [message.tool_call_id for message in sent if message.role == "tool"]


@pytest.mark.parametrize(("limit", "cut"), [(250, False), (249, True)])
def test_trimmer_takes_off_answer_instructions_and_tools(limit: int, cut: bool) -> None:
    messages = [UserMessage("o" * 200), UserMessage("n" * 200)]
    profile = ModelProfile(max_input_tokens=limit + count_tool(echo), max_output_tokens=50)
    result = history_trimmer(before(*messages, profile=profile, tools=(echo,), system_prompt="p" * 400))
    assert (result is not None) == cut


def test_trimmer_leaves_a_quarter_for_the_answer_at_most() -> None:
    messages = [UserMessage("o" * 150), UserMessage("n" * 150)]
    profile = ModelProfile(max_input_tokens=101, max_output_tokens=100_000)
    assert history_trimmer(before(*messages, profile=profile)) is None


def test_trimmer_removes_nothing_from_the_newest_user_message_on() -> None:
    messages: list[Message] = [UserMessage("u" * 4000), *exchange(1, 4000)]
    assert history_trimmer(before(*messages, profile=ModelProfile(max_input_tokens=10))) is None


# --- tool_prompt_budget ---


def many(count: int, words: int = 40) -> tuple[Tool, ...]:
    def make(number: int) -> Tool:
        async def one(**args: Any) -> str:
            return "ok"

        schema = {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for. " + "word " * words},
                "enum": {"type": "string", "enum": [f"choice {n}" for n in range(words)]},
            },
            "required": ["query"],
        }
        made: Tool = tool(one, name=f"tool_{number}", description="Does it. " + "word " * words, parameters=schema)
        return made

    return tuple([make(number) for number in range(count)])


WEAK = ModelProfile(weak_tool_schema=True, max_input_tokens=4000)


def test_budget_leaves_a_strong_model_alone() -> None:
    assert tool_prompt_budget(before(UserMessage("u"), profile=ModelProfile(), tools=many(50))) is None


def test_budget_leaves_tools_that_fit_alone() -> None:
    assert tool_prompt_budget(before(UserMessage("u"), profile=WEAK, tools=many(2))) is None


def test_budget_shortens_descriptions_first() -> None:
    result = tool_prompt_budget(before(profile=WEAK, tools=many(3)))
    assert result is not None
    assert result.tools is not None
    assert [one.description for one in result.tools] == ["Does it."] * 3
    assert result.tools[0].parameters["properties"]["query"]["description"] == "What to look for."
    assert len(result.tools[0].parameters["properties"]["enum"]["enum"]) == 40


def test_budget_then_drops_descriptions_and_enumerations_but_no_parameter_of_that_name() -> None:
    result = tool_prompt_budget(before(profile=WEAK, tools=many(12)))
    assert result is not None
    assert result.tools is not None
    assert len(result.tools) == 12
    assert dict(result.tools[0].parameters["properties"]) == {"query": {"type": "string"}, "enum": {"type": "string"}}


def test_budget_then_drops_tools_but_for_those_that_were_called() -> None:
    call = ToolCall("c1", "tool_49", {})
    history: list[Message] = [AssistantMessage(tool_calls=(call,)), ToolMessage("ok", "c1")]
    result = tool_prompt_budget(before(*history, profile=WEAK, tools=many(50)))
    assert result is not None
    assert result.tools is not None
    assert result.system_prompt_suffix is not None
    names = [one.name for one in result.tools]
    assert sum(map(count_tool, result.tools)) <= 600
    assert (names[0], names[-1], len(names) < 50) == ("tool_0", "tool_49", True)
    assert result.system_prompt_suffix.splitlines()[1:] == [f"{name}(query, enum)" for name in names]


def test_shortened_tool_still_reads_its_arguments_as_before() -> None:
    result = tool_prompt_budget(before(profile=WEAK, tools=many(12)))
    assert result is not None
    assert result.tools is not None
    with pytest.raises(ValueError, match="enum"):
        result.tools[0].validate({"query": "q", "enum": "other"})


# --- tool_call_validator ---


def after(response: Any, *messages: Message, tools: Sequence[Tool] = (echo,)) -> PostModelHookContext:
    request = make_request(*(messages or [UserMessage("u")]), tools=tuple(tools))
    return PostModelHookContext(response=make_response(response), request=request, state={})


def feedback(*asked: Any) -> str | None:
    result = tool_call_validator(after(list(asked)))
    return result.retry.feedback if result is not None and result.retry is not None else None


@pytest.mark.parametrize("args", [{"x": "a"}, {"x": "a", "n": 1}, {"x": "a", "n": "3"}, {"x": "a", "n": None}], ids=str)
def test_good_calls_pass(args: dict[str, Any]) -> None:
    assert tool_call_validator(after([("echo", args)])) is None


def test_answer_without_calls_passes() -> None:
    assert tool_call_validator(after("text")) is None


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        (("serach", {}), ["There is no tool 'serach'."]),
        (("echo", {}), ["echo: missing argument 'x' (string)"]),
        (("echo", '{"x": tru'), ["echo: the arguments are not valid JSON"]),
        (("echo", "[1]"), ["echo: the arguments must be a JSON object"]),
        (("echo", {"x": "a", "n": "many"}), ["echo: n: "]),
        (("echo", {"n": True}), ["echo: missing argument 'x'", "echo: n: "]),
    ],
    ids=["unknown", "missing", "broken", "no object", "type", "two problems"],
)
def test_each_problem_is_a_line_and_the_offered_tools_are_named(asked: Any, lines: list[str]) -> None:
    said = (feedback(asked) or "").splitlines()
    assert said[-1] == "Tools on offer: echo."
    assert len(said) == len(lines) + 1
    assert [line.startswith(begin) for line, begin in zip(said, lines, strict=False)] == [True] * len(lines)


@pytest.mark.parametrize("name", ["Echo", "ECHO", "e-c_ho"])
def test_name_that_is_nearly_right_is_corrected(name: str) -> None:
    result = tool_call_validator(after([(name, {"x": "a"})]))
    assert result is not None
    assert result.response is not None
    assert ([call.name for call in result.response.tool_calls], result.retry) == (["echo"], None)


def test_name_that_could_be_either_of_two_is_not_corrected() -> None:
    result = tool_call_validator(after([("EC_HO", {"x": "a"})], tools=[echo, echo.renamed("e_cho")]))
    assert result is not None
    assert result.retry is not None


async def test_corrected_call_runs_without_another_model_call() -> None:
    mine, model = agent(calls(("Echo", {"x": "a"})), text("ok"), post=DEFAULT_POST_MODEL_HOOKS)
    result = await mine.run("go")
    assert ([m.text for m in result.messages if m.role == "tool"], len(model.requests)) == (["a"], 2)


async def test_third_bad_answer_is_let_through_and_gets_an_error_result() -> None:
    bad = calls(("serach", {"q": "a"}))
    mine, model = agent(bad, bad, bad, text("sorry"), post=DEFAULT_POST_MODEL_HOOKS)
    result = await mine.run("go")
    assert (result.text, len(model.requests)) == ("sorry", 4)
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [True]
    assert "echo" in model.requests[1].messages[-1].text


# --- repetition_detector ---


async def test_same_call_for_the_third_time_is_sent_back_once() -> None:
    ran: list[str] = []

    @tool
    async def search(q: str, n: int) -> str:
        ran.append(q)
        return "nothing"

    first, second = ("search", '{"q": "a", "n": 1}'), ("search", '{"n": 1, "q": "a"}')
    model = ScriptedModel(calls(first), calls(second), calls(first), text("sorry"))
    middleware = [ModelHooks((), DEFAULT_POST_MODEL_HOOKS)]
    result = await Agent(model, tools=[search], middleware=middleware, post_model_hooks=()).run("go")
    assert (result.text, ran, len(model.requests)) == ("sorry", ["a", "a"], 4)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([UserMessage("u"), *exchange(1), *exchange(2)], True),
        ([UserMessage("u"), *exchange(1)], False),
        ([UserMessage("u"), *exchange(1), UserMessage("u"), *exchange(2)], False),
        ([UserMessage("u"), *exchange(1, 4), *exchange(2, 5)], False),
        ([UserMessage("u"), *exchange(1), AssistantMessage("text"), *exchange(2)], False),
    ],
    ids=["third time", "second time", "new question", "other results", "text between"],
)
def test_calls_repeat_since_the_newest_user_message_with_the_same_results(
    history: list[Message], expected: bool
) -> None:
    result = repetition_detector(after([("echo", {"x": "y"})], *history))
    assert (result is not None) == expected


PARAGRAPH = "The tide comes in twice a day,\nand goes out again as often as it came."


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (PARAGRAPH + "\n\n", (True, False)),
        (PARAGRAPH + " ", (True, False)),
        ("I will look for it now.\n", (True, False)),
        ("0123456789" * 4, (True, False)),
        ("short\n", (False, False)),
        ("-" * 60 + "\n", (False, False)),
    ],
    ids=["paragraph", "in one line", "line", "block of forty", "short line", "rules"],
)
def test_text_repeats_itself_four_times_and_not_three(said: str, expected: tuple[bool, bool]) -> None:
    assert (repeats_itself("Well.\n" + said * 4 + "\nSo."), repeats_itself("Well.\n" + said * 3 + "\nSo.")) == expected


def test_ordinary_text_does_not_repeat_itself() -> None:
    assert not repeats_itself("\n".join(f"{n}. The item of number {n} costs {n * 7} crowns." for n in range(200)))


async def test_repeated_paragraph_is_sent_back_once() -> None:
    said = text((PARAGRAPH + "\n\n") * 4)
    mine, model = agent(said, said, post=DEFAULT_POST_MODEL_HOOKS)
    await mine.run("go")
    assert len(model.requests) == 2


def test_validator_and_repetition_are_the_default() -> None:
    assert list(DEFAULT_POST_MODEL_HOOKS) == [tool_call_validator, repetition_detector]
