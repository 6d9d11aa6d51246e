"""What is put together wrongly is refused when it is built, by an error that says what to change."""

import functools
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo

from interpose import (
    Agent,
    Capability,
    CapabilityError,
    ConfigurationError,
    HookError,
    Limits,
    Middleware,
    tool,
)
from interpose.testing import ScriptedModel, calls, text


def a_class(**hooks: Any) -> Any:
    return type("Typo", (Middleware,), hooks)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("on_finsh", "on_finish"),
        ("before_modelcall", "before_model_call"),
        ("after_tool", "after_tool_call"),
        ("wrap_model", "wrap_model_call"),
        ("on_chunks", "on_chunk"),
        ("wrap_tool", "wrap_tool_call"),
        ("on_step_start", "on_step"),
    ],
)
def test_a_hook_name_that_does_not_exist_is_refused_with_the_nearest(wrong: str, right: str) -> None:
    middleware = a_class(**{wrong: lambda self, ctx: None})()
    with pytest.raises(ConfigurationError) as caught:
        agent_of(middleware=[middleware])
    for word in (wrong, right, "Typo"):
        assert word in str(caught.value)


def test_a_hook_that_is_inherited_under_a_wrong_name_is_refused_too() -> None:
    base = a_class(on_finsh=lambda self, ctx, info: None)
    with pytest.raises(ConfigurationError, match="on_finsh"):
        agent_of(middleware=[type("Sub", (base,), {})()])


def test_private_methods_and_other_names_are_nobodys_business() -> None:
    fine = a_class(_on_finsh=lambda self: None, finish=lambda self: None, once=lambda self: None)()
    assert agent_of(middleware=[fine])


async def test_a_wrong_hook_name_is_refused_at_use_and_for_a_run() -> None:
    agent = agent_of(text("x"))
    wrong = a_class(on_finsh=lambda self, ctx, info: None)()
    with pytest.raises(ConfigurationError, match="on_finsh"):
        await agent.use(wrong)
    with pytest.raises(ConfigurationError, match="on_finsh"):
        await agent.run("go", middleware=[wrong])


@pytest.mark.parametrize(
    ("hook", "function"),
    [
        ("on_finish", lambda self, ctx: None),
        ("before_model_call", lambda self, request: None),
        ("wrap_model_call", lambda self, ctx, request: None),
        ("after_tool_call", lambda self, ctx, call: None),
        ("on_usage", lambda self: None),
        ("on_start", lambda self, ctx, more: None),
        ("on_chunk", lambda self, ctx, event, *, needed: None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hook_that_cannot_take_its_arguments_is_refused(hook: str, function: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        agent_of(middleware=[a_class(**{hook: function})()])
    assert hook in str(caught.value)
    assert "Typo" in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda self, *args: None,
        lambda self, ctx, request, extra=1: None,
        lambda self, ctx, request, **more: None,
        staticmethod(lambda ctx, request: None),
        classmethod(lambda cls, ctx, request: None),
        functools.partialmethod(lambda self, more, ctx, request: None, 1),
    ],
    ids=["*args", "default", "**more", "static", "class", "partial"],
)
def test_a_hook_that_can_take_its_arguments_is_taken(function: Any) -> None:
    assert agent_of(middleware=[a_class(before_model_call=function)()])


@pytest.mark.parametrize("wrong", [None, 3, "Timing", object(), {"on_finish": print}, ScriptedModel()], ids=repr)
def test_what_is_no_middleware_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        agent_of(middleware=[wrong])


def test_a_class_in_place_of_an_instance_is_told_to_be_called() -> None:
    class Timing(Middleware):
        pass

    with pytest.raises(ConfigurationError, match="Timing.*instance"):
        agent_of(middleware=[Timing])


def test_a_middleware_that_stands_alone_is_told_to_be_listed() -> None:
    class Timing(Middleware):
        pass

    with pytest.raises(ConfigurationError, match="list"):
        agent_of(middleware=Timing())


def test_a_plain_function_with_other_arguments_is_refused() -> None:
    async def layer(request: Any) -> Any:
        return request

    with pytest.raises(ConfigurationError, match="layer"):
        agent_of(middleware=[layer])


def test_two_tools_of_one_name_are_refused_and_both_owners_named() -> None:
    @tool(name="search")
    async def first() -> str:
        """First."""
        return "1"

    @tool(name="search")
    async def second() -> str:
        """Second."""
        return "2"

    class Brings(Middleware):
        tools = (second,)

    with pytest.raises(ConfigurationError) as caught:
        agent_of(tools=[first], middleware=[Brings()])
    for word in ("search", "Brings", "agent"):
        assert word in str(caught.value)


async def test_a_tool_of_a_runs_middleware_that_is_there_already_is_refused_before_setup() -> None:
    set_up: list[int] = []

    @tool(name="echo")
    async def other() -> str:
        """Other."""
        return "1"

    class Brings(Middleware):
        tools = (other,)

        def setup(self, ctx: Any) -> None:
            set_up.append(1)

    agent = agent_of(text("x"), tools=[echo])
    with pytest.raises(ConfigurationError, match="echo"):
        await agent.run("go", middleware=[Brings()])
    assert set_up == []


def test_two_tools_may_swap_their_names() -> None:
    @tool
    async def a() -> str:
        """A."""
        return "a"

    @tool
    async def b() -> str:
        """B."""
        return "b"

    agent = agent_of(tools=[a.renamed("b"), b.renamed("a")])
    assert [one.name for one in agent.tools] == ["b", "a"]
    with pytest.raises(ConfigurationError, match="b"):
        agent_of(tools=[a.renamed("b"), b])


@pytest.mark.parametrize("wrong", [None, 3, "search", {"name": "search"}], ids=repr)
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    with pytest.raises((ConfigurationError, TypeError)):
        agent_of(tools=[wrong])


DB: Capability[str] = Capability("db")


class Provides(Middleware):
    provides = (DB,)

    def setup(self, ctx: Any) -> None:
        ctx.provide(DB, "connection")


class Needs(Middleware):
    requires = (DB,)

    def on_start(self, ctx: Any) -> None:
        ctx.state["db"] = ctx.get(DB)


def test_a_capability_that_nobody_provides_is_refused_when_built() -> None:
    with pytest.raises(CapabilityError) as caught:
        agent_of(middleware=[Needs()])
    assert "Needs" in str(caught.value)
    assert "db" in str(caught.value)


def test_a_capability_that_comes_too_late_is_refused_with_the_order_to_use() -> None:
    with pytest.raises(CapabilityError) as caught:
        agent_of(middleware=[Needs(), Provides()])
    assert "Provides" in str(caught.value)


async def test_a_capability_that_is_promised_and_not_provided_fails_the_run() -> None:
    class Promises(Middleware):
        provides = (DB,)

    played = await both(lambda log: agent_of(text("x"), middleware=[Promises(), Needs()]))
    assert isinstance(played.error, CapabilityError)
    assert "Promises" in str(played.error)
    assert played.end == "on_error"
    assert played.requests == []


def test_a_second_provider_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="db"):
        agent_of(middleware=[Provides(), Provides(), Needs()])


async def test_an_optional_capability_may_be_missing() -> None:
    class Optional(Middleware):
        optional_requires = (DB,)

        def on_start(self, ctx: Any) -> None:
            assert ctx.get_optional(DB) is None

    assert (await both(lambda log: agent_of(text("x"), middleware=[Optional()]))).result.text == "x"


async def test_capabilities_are_the_same_only_as_objects() -> None:
    other: Capability[str] = Capability("db")

    class NeedsOther(Middleware):
        requires = (other,)

    with pytest.raises(CapabilityError):
        agent_of(middleware=[Provides(), NeedsOther()])


async def test_use_after_the_first_run_is_refused_in_so_many_words() -> None:
    agent = agent_of(text("x"))
    await agent.run("go")
    with pytest.raises(ConfigurationError, match="first run"):
        await agent.use(Provides())


@pytest.mark.parametrize("wrong", ["gpt-5.5", "opnai:gpt-5.5", "", ":", "openai", 3, None, object()], ids=repr)
def test_what_names_no_model_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        Agent(wrong, post_model_hooks=())


def test_a_misspelt_provider_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="openai:gpt-5.5"):
        Agent("opnai:gpt-5.5", post_model_hooks=())


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="temprature"):
        Agent(ScriptedModel(), post_model_hooks=(), temprature=1)  # type: ignore[call-arg]  # a slip


@pytest.mark.parametrize("field", ["max_steps", "max_model_calls", "max_tool_calls", "max_total_tokens", "max_cost_usd",
                                   "max_duration_s", "model_timeout_s", "tool_timeout_s", "dead_air_s",
                                   "tool_concurrency"])  # fmt: skip
@pytest.mark.parametrize("value", [0, -1, True, "3", float("nan")], ids=repr)
def test_a_limit_that_is_no_number_above_zero_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        Limits(**{field: value})


@pytest.mark.parametrize("field", ["max_steps", "max_model_calls", "max_tool_calls", "tool_concurrency"])
def test_a_limit_that_counts_is_a_whole_number(field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        Limits(**{field: 1.5})  # type: ignore[arg-type]  # a slip


@pytest.mark.parametrize(
    ("hook", "value"),
    [
        ("on_start", "x"),
        ("on_config", {}),
        ("on_step", 3),
        ("on_usage", "x"),
        ("before_model_call", "x"),
        ("after_model_call", "x"),
        ("before_tool_call", "x"),
        ("after_tool_call", 3),
        ("on_tool_phase_complete", "x"),
        ("on_should_continue", "no"),
        ("on_chunk", "x"),
        ("on_interrupt_boundary", "x"),
        ("wrap_run", "x"),
        ("setup", "x"),
    ],
)
async def test_a_value_that_the_seam_does_not_take_names_middleware_hook_and_type(hook: str, value: Any) -> None:
    class Wrong(Middleware):
        pass

    def make(log: list[Any]) -> Any:
        from interpose import Usage

        kind = type("Wrong", (Middleware,), {hook: lambda self, *args: value})
        turns = [calls(("echo", {"x": "1"}), usage=Usage(input_tokens=1)), text("x", usage=Usage(input_tokens=1))]
        return agent_of(*turns, tools=[echo], middleware=[kind()])

    played = await both(make)
    assert isinstance(played.error, HookError)
    for word in ("Wrong", hook, type(value).__name__):
        assert word in str(played.error)


@pytest.mark.parametrize("prompt", [3, object(), {"role": "user", "content": "x"}, [3], [None], b"bytes"], ids=repr)
async def test_a_prompt_that_is_none_is_refused(prompt: Any) -> None:
    agent = agent_of(text("x"))
    with pytest.raises((TypeError, ValueError)):
        await agent.run(prompt)


@pytest.mark.parametrize(
    "messages", [[{"role": "robot", "content": "x"}], [{"content": "x"}], [{"role": "tool"}]], ids=repr
)
async def test_a_message_of_no_known_shape_is_a_value_error(messages: Any) -> None:
    with pytest.raises(ValueError, match="role|tool_call_id"):
        await agent_of(text("x")).run(messages)


async def test_a_stream_read_outside_its_block_is_told_so() -> None:
    with pytest.raises(ConfigurationError, match="async with"):
        async for _ in agent_of(text("x")).stream("go"):
            pass


async def test_run_sync_inside_a_loop_is_told_to_await() -> None:
    with pytest.raises(ConfigurationError, match="await"):
        agent_of(text("x")).run_sync("go")


def test_run_sync_runs_in_a_script() -> None:
    assert agent_of(text("x")).run_sync("go").text == "x"


def test_an_agent_as_a_tool_is_told_how() -> None:
    with pytest.raises((ConfigurationError, TypeError), match="as_tool"):
        agent_of(tools=[agent_of()])


def test_an_output_type_without_a_schema_is_refused_when_built() -> None:
    with pytest.raises(ConfigurationError, match="output"):
        agent_of(output=object)


async def test_duplicate_interrupt_ids_are_refused_when_built() -> None:
    from interpose import Interrupt

    one: Any = type("One", (Middleware,), {"interrupts": (Interrupt("review"),)})
    two: Any = type("Two", (Middleware,), {"interrupts": (Interrupt("review"),)})
    with pytest.raises(ConfigurationError, match="review"):
        agent_of(middleware=[one(), two()])
