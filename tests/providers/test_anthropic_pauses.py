"""Turns that the vendor pauses, through agents: gone on with, as one answer."""

from typing import Any

import pytest

from interpose import Agent, Finish, Limits, ProviderPart, TextDelta, Usage
from interpose.messages import AssistantMessage, TextPart, UserMessage
from interpose.models import MessageStart, UsageUpdate, wrap_model
from interpose.models.anthropic import ContinuePausedTurns
from interpose.request import ModelRequest
from interpose.testing import ScriptedModel, chunks, collect, text_of

PAUSE = ProviderPart({"stop_reason": "pause_turn"}, "anthropic")
SEARCH = ProviderPart({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, "anthropic")
FOUND = ProviderPart({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}, "anthropic")


def paused(*said: Any, id: str = "m1") -> Any:
    return chunks(MessageStart(id), *said, UsageUpdate(Usage(10, 2)), PAUSE, Finish("unknown"))


def said_in(message: Any) -> Any:
    assert isinstance(message, AssistantMessage)
    return message.content()


def whole(*said: Any, id: str = "m9") -> Any:
    return chunks(MessageStart(id), UsageUpdate(Usage(20)), *said, UsageUpdate(Usage(20, 5)), Finish("stop"))


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_a_paused_turn_becomes_one_answer(way: str) -> None:
    model = ScriptedModel(paused(TextDelta("I look. "), SEARCH), whole(FOUND, TextDelta("It is blue.")))
    agent = Agent(wrap_model(model, ContinuePausedTurns()), limits=Limits(max_model_calls=1))
    if way == "run":
        result = await agent.run("The sky?")
    else:
        async with agent.stream("The sky?") as run:
            events = await collect(run)
            result = await run.result()
        assert text_of(events) == "I look. It is blue."
    assert said_in(result.messages[-1]) == (TextPart("I look. "), SEARCH, FOUND, TextPart("It is blue."))
    assert (result.finish_reason, result.usage.input_tokens, result.usage.output_tokens) == ("stop", 30, 7)


async def test_the_vendor_goes_on_with_what_there_is() -> None:
    model = ScriptedModel(paused(SEARCH, id="m1"), paused(FOUND, id="m2"), whole(TextDelta("Blue.")))
    await Agent(wrap_model(model, ContinuePausedTurns())).run("The sky?")
    assert [said_in(request.messages[-1])[0] for request in model.requests[1:]] == [SEARCH, SEARCH]
    assert said_in(model.requests[2].messages[-1]) == (SEARCH, FOUND)


async def test_a_turn_that_never_ends_is_left_paused() -> None:
    model = ScriptedModel(paused(SEARCH), paused(FOUND, id="m2"))
    result = await Agent(wrap_model(model, ContinuePausedTurns(max_times=1))).run("The sky?")
    assert result.finish_reason == "unknown"
    assert said_in(result.messages[-1]) == (SEARCH, FOUND, PAUSE)


async def test_whole_answers_are_gone_on_with_too() -> None:
    class Whole(ScriptedModel):
        async def generate(self, request: ModelRequest, /) -> Any:
            return await super().generate(request)

    model = Whole(paused(TextDelta("I look. "), SEARCH), whole(FOUND, TextDelta("Blue.")))
    asked = ModelRequest(messages=(UserMessage("The sky?"),))
    response = await wrap_model(model, ContinuePausedTurns()).generate(asked)
    assert response.message.content() == (TextPart("I look. "), SEARCH, FOUND, TextPart("Blue."))
    assert (response.finish_reason, response.usage) == ("stop", Usage(30, 7, 37))


def test_a_count_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="max_times"):
        ContinuePausedTurns(0)
