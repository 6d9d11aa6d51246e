"""Requests are frozen; copies hold for one step; what a layer sees of the run so far."""

from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, errors_of, roles, shape

from interpose import AssistantMessage, HistoryError, Limits, Middleware, ModelSettings, Usage, UserMessage, tool
from interpose.testing import calls, make_request, text


@tool
async def a() -> str:
    """A."""
    return "a"


@tool
async def b() -> str:
    """B."""
    return "b"


@tool
async def c() -> str:
    """C."""
    return "c"


def test_a_copy_leaves_the_original_alone() -> None:
    request = make_request("hi")
    copy = request.with_model("b")
    assert (request.model, copy.model) == ("scripted", "b")
    assert copy is not request


def test_a_request_cannot_be_assigned_to() -> None:
    request = make_request("hi")
    with pytest.raises(AttributeError):
        request.model = "b"  # type: ignore[misc]  # that is what the test is about


def test_only_tools_without_a_match_leaves_none() -> None:
    assert make_request("hi", tools=(a, b)).only_tools("z").tools == ()


def test_leaving_out_a_tool_that_is_not_there_changes_nothing() -> None:
    assert make_request("hi", tools=(a, b)).without_tools("nope").tools == (a, b)


def test_provider_options_are_merged_and_the_later_wins() -> None:
    request = make_request("hi").with_provider_options({"a": 1, "b": 1}).with_provider_options({"b": 2, "c": 3})
    assert request.settings.provider_options == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("choice", ["auto", "none", "required", "a"])
def test_a_tool_choice_is_a_mode_or_a_tool_on_offer(choice: str) -> None:
    assert make_request("hi", tools=(a,)).with_tool_choice(choice).settings.tool_choice == choice


def test_any_other_tool_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="bogus"):
        make_request("hi", tools=(a,)).with_tool_choice("bogus")


async def test_what_a_layer_sets_is_what_is_sent() -> None:
    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        request = request.with_model("new").with_max_tokens(1000).with_tool_choice("none")
        return await call_next(request.with_provider_options({"effort": "low"}))

    settings = ModelSettings(provider_options={"effort": "high", "store": False})
    played = await both(lambda log: agent_of(text("x"), tools=[echo], settings=settings, middleware=[layer]))
    sent = played.requests[0]
    assert (sent.model, sent.settings.max_tokens, sent.settings.tool_choice) == ("new", 1000, "none")
    assert sent.settings.provider_options == {"effort": "low", "store": False}
    assert played.result.steps[0].response.model == "new"
    assert played.agent.settings == settings


async def test_a_layer_sees_number_messages_and_steps_so_far() -> None:
    def make(log: list[Any]) -> Any:
        async def note(ctx: Any, request: Any, call_next: Any) -> Any:
            log.append((request.number, len(request.messages), len(request.steps), request.is_first_step))
            return await call_next(request)

        return agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[note])

    assert (await both(make)).log == [(0, 1, 0, True), (1, 3, 1, False)]


async def test_a_layer_sees_whether_the_step_is_the_last_and_what_was_used() -> None:
    def make(log: list[Any]) -> Any:
        async def note(ctx: Any, request: Any, call_next: Any) -> Any:
            log.append((request.is_final_step, request.usage.input_tokens, request.usage.output_tokens))
            return await call_next(request)

        used = Usage(input_tokens=10, output_tokens=5)
        turns = [calls(("echo", {"x": "1"}), usage=used), text("x", usage=used)]
        return agent_of(*turns, tools=[echo], middleware=[note], limits=Limits(max_steps=2))

    assert (await both(make)).log == [(False, None, None), (True, 10, 5)]


async def test_changes_of_one_step_do_not_reach_the_next() -> None:
    async def layer(ctx: Any, request: Any, call_next: Any) -> Any:
        if request.is_first_step:
            return await call_next(request.without_tools("a", "b").with_instructions("other"))
        return await call_next(request.only_tools("c"))

    played = await both(
        lambda log: agent_of(calls("c"), text("x"), instructions="own", tools=[a, b, c, echo], middleware=[layer])
    )
    assert [[one.name for one in sent.tools] for sent in played.requests] == [["c", "echo"], ["c"]]
    assert [sent.instructions for sent in played.requests] == ["other", "own"]


async def test_messages_of_one_step_do_not_change_the_thread() -> None:
    async def last_exchange(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request if request.is_first_step else request.with_messages(request.messages[-2:]))

    played = await both(
        lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[last_exchange])
    )
    assert roles(played.requests[1].messages) == ["assistant", "tool"]
    assert roles(played.result.messages) == ["user", "assistant", "tool", "assistant"]


async def test_new_messages_are_only_what_the_run_made() -> None:
    class Rewrites(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            note = UserMessage("a note")
            return request.with_messages([note, *request.messages[:-1], UserMessage("another prompt")])

    given = [UserMessage("1"), AssistantMessage("2"), UserMessage("3")]
    played = await both(lambda log: agent_of(text("4"), middleware=[Rewrites()]), given)
    assert [message.text for message in played.result.new_messages] == ["4"]
    assert [message.text for message in played.result.messages] == ["1", "2", "3", "4"]


async def test_who_leaves_a_call_without_its_result_is_named() -> None:
    class Careless(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            kept = [message for message in request.messages if message.role != "tool"]
            return await call_next(request.with_messages(kept))

    class Innocent(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next(request.append_instructions("x"))

    played = await both(
        lambda log: agent_of(
            calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[Innocent(), Careless(), Innocent()]
        )
    )
    assert isinstance(played.error, HistoryError)
    assert "Careless" in str(played.error)
    assert "Innocent" not in str(played.error)
    call_id = played.partial.messages[1].tool_calls[0].id
    assert call_id in str(played.error)


async def test_who_leaves_a_result_without_its_call_is_named() -> None:
    class Careless(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.with_messages([m for m in request.messages if not m.tool_calls])

    played = await both(
        lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[Careless()])
    )
    assert isinstance(played.error, HistoryError)
    assert "Careless" in str(played.error)


async def test_a_hidden_tool_cannot_be_called_in_that_step() -> None:
    ran: list[int] = []

    async def rm() -> str:
        """Remove all."""
        ran.append(1)
        return "gone"

    class Hides(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.without_tools("rm")

    played = await both(lambda log: agent_of(calls("rm"), text("x"), tools=[rm, echo], middleware=[Hides()]))
    assert ran == []
    assert "echo" in played.result.messages[2].text
    assert errors_of(played.result)[0]


async def test_a_forced_choice_goes_with_the_tools_that_it_forces() -> None:
    class Strips(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.with_tools([]) if request.number == 1 else None

    settings = ModelSettings(tool_choice="required", parallel_tool_calls=True)
    played = await both(
        lambda log: agent_of(
            calls(("echo", {"x": "1"})), text("x"), tools=[echo], settings=settings, middleware=[Strips()]
        )
    )
    sent = played.requests[1]
    assert (sent.tools, sent.settings.tool_choice, sent.settings.parallel_tool_calls) == ((), None, None)
    assert played.requests[0].settings.tool_choice == "required"


async def test_config_of_init_lasts_and_config_of_a_step_does_not() -> None:
    class Config(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            if ctx.phase == "init":
                return config.replace(instructions="lasting")
            return config.replace(instructions=config.instructions + f" step {ctx.step}")

    played = await both(
        lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[Config()])
    )
    assert [sent.instructions for sent in played.requests] == ["lasting step 0", "lasting step 1"]


async def test_a_tool_that_config_adds_for_a_step_runs_in_that_step_only() -> None:
    class Adds(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            return config.replace(tools=(*config.tools, a)) if ctx.phase == "before_model" and ctx.step == 0 else None

    played = await both(lambda log: agent_of(calls("a"), calls("a"), text("x"), tools=[echo], middleware=[Adds()]))
    assert errors_of(played.result) == [False, True]


async def test_requests_of_equal_runs_are_equal_but_for_ids() -> None:
    def make(log: list[Any]) -> Any:
        return agent_of(calls(("echo", {"x": "1"}), ("echo", {"x": "2"})), text("x"), tools=[echo, a, b])

    first, second = await both(make), await both(make)
    assert [r.fingerprint() for r in first.requests] == [r.fingerprint() for r in second.requests]
    assert shape(first.result.messages) == shape(second.result.messages)
