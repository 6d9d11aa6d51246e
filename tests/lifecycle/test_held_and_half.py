"""What a guard holds was said; half characters in the parts of a result; model hooks that take nothing."""

import asyncio
from typing import Any

import pytest

from interpose import Agent, ConfigurationError, ImagePart, Limits, TextPart, tool
from interpose.builtin import ContentGuard
from interpose.testing import FakeClock, ScriptedModel, calls, collect, hang, text, text_of


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
async def test_text_that_a_guard_holds_is_text_that_the_model_said_before_the_silence(streamed: bool) -> None:
    model, clock = ScriptedModel(hang(after=["half a secret"]), hang(after=["half a secret"])), FakeClock()
    guard = ContentGuard([("secret", "[X]")])
    agent = Agent(model, middleware=[guard], limits=Limits(dead_air_s=5), clock=clock, post_model_hooks=())

    async def go() -> tuple[str, str]:
        if not streamed:
            done = (await agent.run("go")).text
            return done, done
        async with agent.stream("go") as run:
            shown = text_of(await collect(run))
            return shown, (await run.result()).text

    task = asyncio.create_task(go())
    for _ in range(3):
        await clock.advance(6)
    assert (await task, len(model.requests)) == (("half a [X]", "half a [X]"), 1)


async def test_half_characters_in_the_parts_of_a_result_become_the_replacement_character() -> None:

    @tool
    async def look() -> Any:
        return [TextPart("a\ud800b"), ImagePart(url="https://example.org/a.png")]

    agent = Agent(ScriptedModel(calls("look"), text("ok")), tools=[look], post_model_hooks=())
    result = await agent.run("go")
    assert result.messages[2].text == "a\ufffdb"


def test_model_hook_that_takes_no_context_is_refused_when_it_is_registered() -> None:
    hook: Any = lambda: None  # noqa: E731  # as a user would write it
    with pytest.raises(ConfigurationError, match="context"):
        Agent(ScriptedModel(text("x"))).register_pre_model_hook(hook)
