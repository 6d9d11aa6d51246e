"""Changing what a run, or one of its steps, starts from."""

from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, hello, two_steps

from interpose import Agent, Middleware, ModelSettings, SystemMessage, on_config, tool
from interpose.testing import ScriptedModel, calls, text


@pytest.mark.parametrize(
    ("make", "phases"),
    [
        (lambda **options: agent(hello(), **options), ["init", "before_model"]),
        (two_steps, ["init", "before_model", "before_model"]),
    ],
    ids=["one step", "two steps"],
)
async def test_the_config_is_asked_at_init_and_before_each_step(make: Any, phases: list[str]) -> None:
    played = await both(lambda log: make(middleware=[on_config(lambda ctx, config: log.append(ctx.phase))]))
    assert played.log == phases


def at(phase: str, change: Any) -> Middleware:
    return on_config(lambda ctx, config: change(config) if ctx.phase == phase else None)


async def test_what_is_added_at_init_is_in_every_request_once() -> None:
    more = at("init", lambda config: config.replace(instructions=config.instructions + " And kind."))
    played = await both(lambda log: two_steps(instructions="Be brief.", middleware=[more]))
    assert [request.instructions for request in played.requests] == ["Be brief. And kind."] * 2


async def test_a_hook_that_returns_nothing_leaves_instructions_and_settings() -> None:
    settings = ModelSettings(temperature=0.5, max_tokens=9)
    quiet = on_config(lambda ctx, config: None)
    played = await both(lambda log: agent(hello(), instructions="Be brief.", settings=settings, middleware=[quiet]))
    assert played.requests[0].instructions == "Be brief."
    assert played.requests[0].settings == settings


async def test_a_message_put_in_front_of_a_step_is_sent_and_not_kept() -> None:
    front = at("before_model", lambda config: config.replace(messages=(SystemMessage("Mind."), *config.messages)))
    played = await both(lambda log: two_steps(middleware=[front]))
    for request in played.requests:
        assert [m.text for m in request.messages].count("Mind.") == 1
        assert request.messages[0].text == "Mind."
    assert all(message.text != "Mind." for message in played.result.messages)


async def test_each_step_has_exactly_what_was_returned_for_it() -> None:
    def by_step(ctx: Any, config: Any) -> Any:
        word = "init" if ctx.phase == "init" else f"step {ctx.step}"
        return config.replace(instructions=word, settings=ModelSettings(stop=(word,)))

    played = await both(lambda log: two_steps(middleware=[on_config(by_step)]))
    assert [(r.instructions, r.settings.stop) for r in played.requests] == [
        ("step 0", ("step 0",)),
        ("step 1", ("step 1",)),
    ]


async def test_a_change_of_a_step_does_not_pile_up() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        def raise_it(config: Any) -> Any:
            log.append(config.settings.max_tokens)
            return config.replace(settings=config.settings.replace(max_tokens=config.settings.max_tokens + 50))

        return two_steps(settings=ModelSettings(max_tokens=100), middleware=[at("before_model", raise_it)])

    played = await both(make)
    assert played.log == [100, 100]
    assert [request.settings.max_tokens for request in played.requests] == [150, 150]


async def test_a_tool_added_at_init_runs_and_is_offered_in_every_step() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        @tool
        async def extra() -> str:
            """Do more."""
            log.append("ran")
            return "done"

        more = at("init", lambda config: config.replace(tools=(*config.tools, extra)))
        return agent(calls("extra"), text("x"), middleware=[more])

    played = await both(make)
    assert played.log == ["ran"]
    assert [[one.name for one in request.tools] for request in played.requests] == [["extra"], ["extra"]]


async def test_a_tool_added_at_every_step_is_never_there_twice() -> None:
    @tool
    async def extra() -> str:
        """Do more."""
        return "done"

    more = at("before_model", lambda config: config.replace(tools=(*config.tools, extra)))
    played = await both(lambda log: two_steps(middleware=[more]))
    assert [[one.name for one in request.tools] for request in played.requests] == [["add", "extra"]] * 2


async def test_metadata_of_two_hooks_reaches_the_request_together() -> None:
    one = at("init", lambda config: config.replace(metadata={**config.metadata, "a": 1}))
    two = at("before_model", lambda config: config.replace(metadata={**config.metadata, "b": 2}))
    played = await both(lambda log: agent(hello(), middleware=[one, two]))
    assert dict(played.requests[0].metadata) == {"a": 1, "b": 2}


async def test_each_hook_sees_what_the_one_before_left() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        first = on_config(lambda ctx, config: config.replace(instructions="New."))
        second = on_config(lambda ctx, config: log.append(config.instructions))
        return agent(hello(), instructions="Old.", middleware=[first, second])

    assert (await both(make)).log == ["New.", "New."]


@pytest.mark.parametrize("phase", ["init", "before_model"])
async def test_another_model_can_be_chosen_for_the_run_and_for_a_step(phase: str) -> None:
    other = ScriptedModel("from the other", "from the other", model="other")
    swap = at(phase, lambda config: config.replace(model=other))
    played = await both(lambda log: agent("own", middleware=[swap]))
    assert played.result.text == "from the other"
    assert played.result.steps[0].response.model == "other"


async def test_a_tool_taken_off_a_step_cannot_run_in_it() -> None:
    without = at("before_model", lambda config: config.replace(tools=()))
    played = await both(lambda log: agent(calls(("add", {"a": 1, "b": 2})), "x", tools=[add], middleware=[without]))
    assert played.result.steps[0].tool_results[0].is_error
