"""Model hooks of an agent: their order, what they see and change, their escapes."""

from typing import Any

import pytest

from interpose import (
    DEFAULT_POST_MODEL_HOOKS,
    Agent,
    AssistantMessage,
    HookError,
    Limits,
    Middleware,
    ModelProfile,
    ModelRequest,
    ModelResponse,
    Pause,
    PostModelHookContext,
    PostModelHookResult,
    PreModelHookContext,
    PreModelHookResult,
    Resolved,
    Retry,
    RunContext,
    RunResult,
    Usage,
    UserMessage,
    repetition_detector,
    tool,
    tool_call_validator,
)
from interpose.testing import ScriptedModel, calls, collect, event_types, fail, make_response, text, text_of


@tool
async def echo(x: str) -> str:
    """Say it again."""
    return x


def agent_of(*turns: Any, pre: Any = (), post: Any = (), **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*turns, profile=options.pop("profile", None))
    agent = Agent(model, **{"tools": [echo], "post_model_hooks": (), **options})
    for hook in pre:
        agent.register_pre_model_hook(hook)
    for hook in post:
        agent.register_post_model_hook(hook)
    return agent, model


CALLS_ECHO = calls(("echo", {"x": "a"}))
AGAIN = PostModelHookResult(retry=Retry("again"))


# --- registration ---


def test_hooks_stand_in_one_list_in_the_order_of_registration() -> None:
    agent, _ = agent_of()
    noted = [lambda c: None, lambda c: None]
    agent.register_pre_model_hook(noted[0])

    @agent.register_pre_model_hook
    def decorated(context: PreModelHookContext) -> None:
        """Does nothing."""

    agent.register_pre_model_hook(noted[1])
    assert agent.pre_model_hooks == [noted[0], decorated, noted[1]]
    assert decorated.__doc__ == "Does nothing."


def test_decorated_post_hook_is_still_the_function() -> None:
    agent, _ = agent_of()

    @agent.register_post_model_hook
    def looks(context: PostModelHookContext) -> None: ...

    assert (looks.__name__, agent.post_model_hooks) == ("looks", [looks])


def test_fresh_agent_has_the_two_default_post_hooks_and_no_pre_hook() -> None:
    agent = Agent(ScriptedModel())
    assert agent.post_model_hooks == [tool_call_validator, repetition_detector] == list(DEFAULT_POST_MODEL_HOOKS)
    assert agent.pre_model_hooks == []


def test_default_post_hooks_can_be_switched_off() -> None:
    assert Agent(ScriptedModel(), post_model_hooks=()).post_model_hooks == []


def test_registered_hook_comes_behind_the_default_ones() -> None:
    agent = Agent(ScriptedModel())
    agent.register_post_model_hook(lambda c: None)
    assert agent.post_model_hooks[:2] == [tool_call_validator, repetition_detector]


async def test_copy_has_the_hooks_and_registers_its_own() -> None:
    agent, _ = agent_of(pre=[lambda c: None])
    copy = agent.copy()
    copy.register_pre_model_hook(lambda c: None)
    assert (len(agent.pre_model_hooks), len(copy.pre_model_hooks)) == (1, 2)


# --- before the call ---


async def test_message_that_a_pre_hook_adds_is_seen_by_the_next_and_by_the_model(play: Any) -> None:
    seen: list[str] = []

    async def first(context: PreModelHookContext) -> PreModelHookResult:
        return PreModelHookResult(messages=[*context.messages, UserMessage("more")])

    def second(context: PreModelHookContext) -> None:
        seen.extend(message.text for message in context.messages)

    agent, model = agent_of(text("ok"), pre=[first, second])
    result: RunResult = await play(agent)
    assert (seen, [message.text for message in model.requests[0].messages]) == (["go", "more"], ["go", "more"])
    assert [message.text for message in result.messages] == ["go", "ok"]


async def test_pre_hook_sees_what_is_about_to_be_sent(play: Any) -> None:
    seen: list[PreModelHookContext] = []
    profile = ModelProfile(max_input_tokens=9000)
    agent, _ = agent_of(text("ok"), pre=[seen.append], instructions="I", profile=profile)
    await play(agent)
    context = seen[0]
    assert (context.model, context.model_profile, context.system_prompt) == ("scripted", profile, "I")
    assert ([message.text for message in context.messages], context.tools) == (["go"], (echo,))


async def test_short_circuit_is_the_answer_and_nobody_else_is_asked(play: Any) -> None:
    called: list[str] = []
    agent, model = agent_of(
        pre=[
            lambda c: PreModelHookResult(short_circuit=AssistantMessage("mine")),
            lambda c: called.append("second pre hook"),
        ],
        post=[lambda c: called.append("post hook")],
    )
    result = await play(agent)
    assert (result.text, result.messages[-1].text, result.finish_reason) == ("mine", "mine", "stop")
    assert (called, model.requests) == ([], [])


async def test_short_circuit_may_be_a_response_that_calls_tools(play: Any) -> None:
    made = make_response([("echo", {"x": "a"})])

    def first_only(context: PreModelHookContext) -> PreModelHookResult | None:
        return PreModelHookResult(short_circuit=made) if len(context.messages) == 1 else None

    agent, model = agent_of(text("done"), pre=[first_only])
    result = await play(agent)
    assert (result.text, [step.tool_results[0].data for step in result.steps[:1]]) == ("done", ["a"])
    assert len(model.requests) == 1


async def test_interrupt_pauses_before_the_model_is_called(play: Any) -> None:
    agent, model = agent_of(pre=[lambda c: PreModelHookResult(interrupt=Pause("sure?", {"a": 1}))])
    result = await play(agent)
    assert [(asked.reason, asked.value) for asked in result.interrupts] == [("sure?", {"a": 1})]
    assert (result.status, model.requests) == ("interrupted", [])


async def test_interrupt_beats_short_circuit(play: Any) -> None:
    both = PreModelHookResult(interrupt=Pause("sure?"), short_circuit=AssistantMessage("no"))
    agent, _ = agent_of(pre=[lambda c: both])
    assert (await play(agent)).status == "interrupted"


async def test_other_model_holds_for_its_step(play: Any) -> None:
    def first_only(context: PreModelHookContext) -> PreModelHookResult | None:
        return PreModelHookResult(model="b") if len(context.messages) == 1 else None

    agent, model = agent_of(CALLS_ECHO, text("ok"), pre=[first_only])
    await play(agent)
    assert [request.model for request in model.requests] == ["b", "scripted"]


async def test_other_model_object_is_called_and_later_hooks_get_its_profile(play: Any) -> None:
    other = ScriptedModel(text("other"), model="other", profile=ModelProfile(max_input_tokens=9))
    seen: list[Any] = []
    agent, model = agent_of(
        pre=[lambda c: PreModelHookResult(model=other), lambda c: seen.append((c.model, c.model_profile))]
    )
    assert ((await play(agent)).text, model.requests) == ("other", [])
    assert seen == [("other", other.profile)]


async def test_suffixes_follow_the_instructions_in_order_with_blank_lines_between(play: Any) -> None:
    pre = [
        lambda c: PreModelHookResult(system_prompt_suffix="X"),
        lambda c: PreModelHookResult(system_prompt_suffix="Y"),
    ]
    agent, model = agent_of(CALLS_ECHO, text("ok"), pre=pre, instructions="I")
    await play(agent)
    assert [request.instructions for request in model.requests] == ["I\n\nX\n\nY"] * 2


async def test_tools_that_a_pre_hook_takes_away_cannot_be_called(play: Any) -> None:
    agent, model = agent_of(CALLS_ECHO, text("ok"), pre=[lambda c: PreModelHookResult(tools=())])
    result = await play(agent)
    assert (model.requests[0].tools, result.steps[0].tool_results[0].is_error) == ((), True)


@pytest.mark.parametrize("nothing", [None, PreModelHookResult()], ids=["None", "empty"])
async def test_pre_hook_that_sets_nothing_changes_nothing(play: Any, nothing: Any) -> None:
    agent, model = agent_of(text("ok"), pre=[lambda c: nothing])
    plain, other = agent_of(text("ok"))
    assert (await play(agent)).text == (await play(plain)).text
    assert model.requests[0].fingerprint() == other.requests[0].fingerprint()


# --- after the call ---


def rewriting(said: str) -> Any:
    return lambda c: PostModelHookResult(response=c.response.with_text(c.response.text + said))


async def test_post_hooks_run_in_order_each_on_what_the_one_before_made(play: Any) -> None:
    agent, _ = agent_of(text("ok"), post=[rewriting("1"), rewriting("2")])
    result = await play(agent)
    assert (result.text, result.messages[-1].text, result.steps[0].response.text) == ("ok12", "ok12", "ok12")


async def test_post_hook_sees_the_request_as_it_was_sent(play: Any) -> None:
    seen: list[str] = []
    agent, _ = agent_of(
        text("ok"),
        pre=[lambda c: PreModelHookResult(system_prompt_suffix="X")],
        post=[lambda c: seen.append(c.request.instructions)],
    )
    await play(agent)
    assert seen == ["X"]


@pytest.mark.parametrize("nothing", [None, PostModelHookResult()], ids=["None", "empty"])
async def test_post_hook_that_sets_nothing_changes_nothing(play: Any, nothing: Any) -> None:
    agent, _ = agent_of(text("ok"), post=[lambda c: nothing])
    assert (await play(agent)).text == "ok"


def impolite(context: PostModelHookContext) -> PostModelHookResult | None:
    return None if "please" in context.response.text else PostModelHookResult(retry=Retry("say please"))


async def test_retry_calls_again_with_the_rejected_text_and_the_feedback(play: Any) -> None:
    seen: list[str] = []
    agent, model = agent_of(text("no"), text("yes please"), post=[impolite, lambda c: seen.append(c.response.text)])
    result = await play(agent)
    assert [message.text for message in model.requests[1].messages] == ["go", "no", "say please"]
    assert seen == ["yes please"]
    assert [message.text for message in result.messages] == ["go", "yes please"]


async def test_calls_of_a_rejected_response_are_neither_sent_back_nor_run(play: Any) -> None:
    agent, model = agent_of(calls(("echo", {"x": "a"}), text="no"), text("yes please"), post=[impolite])
    result = await play(agent)
    assert [(message.role, message.text) for message in model.requests[1].messages[1:]] == [
        ("assistant", "no"),
        ("user", "say please"),
    ]
    assert (len(result.steps), model.requests[1].messages[1].tool_calls) == (1, ())


async def test_retry_begins_at_the_first_pre_hook_with_nothing_of_the_first_attempt(play: Any) -> None:
    seen: list[list[str]] = []

    def adds(context: PreModelHookContext) -> PreModelHookResult:
        seen.append([message.text for message in context.messages])
        return PreModelHookResult(messages=[*context.messages, UserMessage("more")], system_prompt_suffix="X")

    agent, model = agent_of(text("no"), text("yes please"), pre=[adds], post=[impolite])
    await play(agent)
    assert seen == [["go"], ["go", "no", "say please"]]
    assert [request.instructions for request in model.requests] == ["X", "X"]


async def test_hook_that_always_retries_lets_the_answer_stand_when_its_retries_are_used_up(play: Any) -> None:
    always = PostModelHookResult(retry=Retry("again", max_retries=2))
    agent, model = agent_of(*[text(n, usage=Usage(1, 1)) for n in "123"], post=[lambda c: always, rewriting("!")])
    result = await play(agent)
    assert (result.text, len(model.requests), result.usage.total_tokens) == ("3!", 3, 6)


async def test_each_hook_has_retries_of_its_own(play: Any) -> None:
    agent, model = agent_of(*[text(n) for n in "123"], post=[lambda c: AGAIN, lambda c: AGAIN])
    assert ((await play(agent)).text, len(model.requests)) == ("3", 3)


async def test_retries_are_counted_anew_in_each_step(play: Any) -> None:
    agent, model = agent_of(CALLS_ECHO, CALLS_ECHO, text("1"), text("2"), post=[lambda c: AGAIN])
    assert ((await play(agent)).text, len(model.requests)) == ("2", 4)


async def test_every_attempt_counts_against_the_limits(play: Any) -> None:
    agent, model = agent_of(text("1"), text("2"), post=[lambda c: AGAIN], limits=Limits(max_model_calls=1))
    result = await play(agent)
    assert (len(model.requests), result.finish_reason) == (1, "limit")


async def test_retry_beats_response_and_interrupt_beats_retry(play: Any) -> None:
    both = AGAIN.replace(response=make_response("never"))
    agent, _ = agent_of(text("1"), text("2"), post=[lambda c: both if c.response.text == "1" else None])
    assert (await play(agent)).text == "2"
    paused, _ = agent_of(text("1"), post=[lambda c: both.replace(interrupt=Pause("look", 1))])
    assert [(asked.reason, asked.value) for asked in (await play(paused)).interrupts] == [("look", 1)]


class Watch(Middleware):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def after_model_call(self, ctx: RunContext, request: ModelRequest, response: ModelResponse) -> None:
        self.seen.append(response.text)


async def test_middleware_sees_the_accepted_response_only(play: Any) -> None:
    watch = Watch()
    agent, _ = agent_of(text("no"), text("yes please"), post=[impolite], middleware=[watch])
    await play(agent)
    assert watch.seen == ["yes please"]


async def test_middleware_sees_a_short_circuit(play: Any) -> None:
    watch = Watch()
    answer = PreModelHookResult(short_circuit=AssistantMessage("mine"))
    agent, _ = agent_of(pre=[lambda c: answer], middleware=[watch])
    await play(agent)
    assert watch.seen == ["mine"]


async def test_answer_of_a_middleware_passes_no_hook(play: Any) -> None:
    class Answers(Middleware):
        async def wrap_model_call(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> ModelResponse:
            return request.answer("cached")

    called: list[str] = []
    agent, _ = agent_of(
        pre=[lambda c: called.append("pre")], post=[lambda c: called.append("post")], middleware=[Answers()]
    )
    assert ((await play(agent)).text, called) == ("cached", [])


async def test_rejected_text_is_superseded_for_the_reader() -> None:
    agent, _ = agent_of(text("no"), text("yes please"), post=[impolite])
    async with agent.stream("go") as run:
        events = await collect(run)
    assert (event_types(events).count("CUSTOM"), text_of(events)) == (1, "yes please")


async def test_rewritten_text_is_what_the_reader_sees() -> None:
    agent, _ = agent_of(text("ok"), post=[rewriting("!")])
    async with agent.stream("go") as run:
        assert text_of(await collect(run)) == "ok!"


async def test_hooks_share_the_state_of_the_run(play: Any) -> None:
    def note(context: PreModelHookContext) -> None:
        context.state["steps"] = context.state.get("steps", 0) + 1

    seen: list[Any] = []
    agent, _ = agent_of(CALLS_ECHO, text("ok"), pre=[note], post=[lambda c: seen.append(c.state["steps"])])
    await play(agent)
    assert seen == [1, 2]


@pytest.mark.parametrize("kind", ["pre", "post"])
async def test_nobody_has_answered_where_nobody_was_asked(play: Any, kind: str) -> None:
    seen: list[Any] = []
    agent, _ = agent_of(text("ok"), **{kind: [lambda c: seen.append(c.answer("sure?"))]})
    await play(agent)
    assert seen == [None]


def asking(result: Any, seen: list[Any]) -> Any:
    """A hook that asks a person once, and notes what it can read of the answer."""

    def ask(context: Any) -> Any:
        seen.append(context.answer("sure?"))
        return result(interrupt=Pause("sure?")) if seen[-1] is None else None

    return ask


@pytest.mark.parametrize(("kind", "result"), [("pre", PreModelHookResult), ("post", PostModelHookResult)])
async def test_hook_that_paused_reads_the_answer_when_the_run_is_resumed(play: Any, kind: str, result: Any) -> None:
    seen: list[Any] = []
    agent, model = agent_of(text("ok"), **{kind: [asking(result, seen)]})
    paused = await play(agent)
    resumed = await agent.resume(paused.checkpoint, {paused.interrupts[0].id: Resolved("yes")})
    assert (resumed.text, seen, len(model.requests)) == ("ok", [None, Resolved("yes")], 1)


# --- failures ---


async def test_failing_hook_fails_the_run_with_its_own_error(play: Any) -> None:
    error = RuntimeError("boom")

    def broken(context: PreModelHookContext) -> None:
        raise error

    agent, model = agent_of(pre=[broken])
    with pytest.raises(RuntimeError) as caught:
        await play(agent)
    assert (caught.value is error, model.requests) == (True, [])


async def test_error_of_the_model_passes_the_post_hooks_by(play: Any) -> None:
    called: list[Any] = []
    agent, _ = agent_of(fail(RuntimeError("boom")), post=[called.append])
    with pytest.raises(RuntimeError, match="boom"):
        await play(agent)
    assert called == []


@pytest.mark.parametrize("kind", ["pre", "post"])
async def test_hook_that_returns_something_else_is_named(play: Any, kind: str) -> None:
    def odd(context: Any) -> Any:
        return "text"

    agent, _ = agent_of(text("ok"), **{kind: [odd]})
    with pytest.raises(HookError, match="odd returned str"):
        await play(agent)


async def test_result_of_the_other_kind_of_hook_is_refused(play: Any) -> None:
    agent, _ = agent_of(text("ok"), post=[lambda c: PreModelHookResult()])
    with pytest.raises(HookError, match="PostModelHookResult"):
        await play(agent)
