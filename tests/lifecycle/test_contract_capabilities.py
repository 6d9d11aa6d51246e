"""Sharing live objects between middleware: who provides, who needs, and what is checked when."""

import asyncio
from typing import Any

import pytest
from tests.lifecycle.play import agent, both, hello, play

from interpose import (
    Agent,
    Capability,
    CapabilityError,
    ConfigurationError,
    Middleware,
    on_config,
    setup,
)
from interpose.testing import ScriptedModel, text, text_of

Clock = Capability[str]("clock")
Other = Capability[str]("clock")


class Provides(Middleware):
    provides = (Clock,)

    def __init__(self, value: str = "noon") -> None:
        self.value = value

    def setup(self, ctx: Any) -> None:
        ctx.provide(Clock, self.value)


class Needs(Middleware):
    requires = (Clock,)


async def test_what_was_provided_comes_back_and_what_is_absent_is_none_where_optional() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(
            hello(),
            middleware=[Provides(), setup(lambda ctx: log.extend([ctx.get(Clock), ctx.get_optional(Other)]))],
        )

    assert (await both(make)).log == ["noon", None]


async def test_reading_what_was_never_provided_names_the_capability() -> None:
    played = await both(lambda log: agent(hello(), middleware=[on_config(lambda ctx, config: ctx.get(Clock) and None)]))
    assert isinstance(played.error, CapabilityError)
    assert "clock" in str(played.error)
    assert "never provided" in str(played.error)
    assert played.endings == ["on_error"]


async def test_a_consumer_reads_in_its_setup_its_config_and_its_chunks() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Reads(Middleware):
            requires = (Clock,)

            def setup(self, ctx: Any) -> None:
                log.append(("setup", ctx.get(Clock)))

            def on_config(self, ctx: Any, config: Any) -> None:
                log.append((ctx.phase, ctx.get(Clock)))

            def on_chunk(self, ctx: Any, event: Any) -> None:
                if event.type == "RUN_STARTED":
                    log.append((event.type, ctx.get(Clock)))

        return agent(hello(), middleware=[Provides(), Reads()])

    seen = [("setup", "noon"), ("init", "noon"), ("RUN_STARTED", "noon"), ("before_model", "noon")]
    assert (await both(make)).log == seen


def test_an_agent_whose_requirement_nobody_meets_is_not_built() -> None:
    with pytest.raises(CapabilityError, match="Needs.*clock") as failure:
        agent("x", middleware=[Needs()])
    assert "provide" in str(failure.value)


def test_a_provider_behind_its_consumer_is_refused_for_the_order() -> None:
    with pytest.raises(CapabilityError, match="(?i)order|before|later|after") as failure:
        agent("x", middleware=[Needs(), Provides()])
    for name in ("Needs", "Provides", "clock"):
        assert name in str(failure.value)


async def test_a_requirement_of_a_runs_own_middleware_is_checked_before_any_setup() -> None:
    log: list[str] = []
    one = agent("x", middleware=[setup(lambda ctx: log.append("setup"))])
    played = await play("run", one, middleware=[Needs()])
    assert isinstance(played.error, ConfigurationError)
    assert log == []


async def test_a_requirement_of_a_runs_own_middleware_is_met_by_the_agents() -> None:
    one = agent("x", middleware=[Provides()])
    assert (await play("run", one, middleware=[Needs()])).result.text == "x"


async def test_an_optional_requirement_may_stay_unmet() -> None:
    class Wishes(Middleware):
        optional_requires = (Clock,)

    assert (await both(lambda log: agent(hello(), middleware=[Wishes()]))).result.text == "Hello"


async def test_a_promise_that_setup_does_not_keep_fails_the_run() -> None:
    class Forgets(Middleware):
        provides = (Clock,)

    played = await both(lambda log: agent(hello(), middleware=[Forgets()]))
    assert isinstance(played.error, CapabilityError)
    assert "Forgets" in str(played.error)
    assert "clock" in str(played.error)
    assert played.requests == []
    assert played.endings == ["on_error"]


async def test_of_two_providers_the_later_wins_with_a_warning() -> None:
    log: list[Any] = []
    read = on_config(lambda ctx, config: log.append(ctx.get(Clock)))
    with pytest.warns(UserWarning, match="clock"):
        one = agent(hello(), middleware=[Provides("one"), Provides("two"), read])
    assert (await play("run", one)).result.text == "Hello"
    assert log == ["two", "two"]


async def test_two_runs_at_once_each_read_their_own() -> None:
    seen: dict[str, str] = {}

    class Own(Middleware):
        provides = (Clock,)

        async def setup(self, ctx: Any) -> None:
            ctx.provide(Clock, ctx.context)
            await asyncio.sleep(0.005)

        def on_finish(self, ctx: Any, info: Any) -> None:
            seen[ctx.context] = ctx.get(Clock)

    one = Agent(ScriptedModel("x", "y"), middleware=[Own()], post_model_hooks=())
    await asyncio.gather(one.run("Go", context="first"), one.run("Go", context="second"))
    assert seen == {"first": "first", "second": "second"}


async def test_a_provided_value_can_be_written_into_the_text() -> None:
    class Stamps(Middleware):
        requires = (Clock,)

        def on_chunk(self, ctx: Any, event: Any) -> Any:
            if event.type == "TEXT_MESSAGE_CONTENT":
                return event.replace(delta=f"{event.delta} at {ctx.get(Clock)}")
            return None

    played = await both(lambda log: agent(text("Hello"), middleware=[Provides(), Stamps()]))
    assert text_of(played.events) == played.result.text == "Hello at noon"
