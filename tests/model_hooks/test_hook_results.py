"""What model hooks give back: wrong values are refused in the hook's own line, and parts keep their places."""

from collections.abc import Callable
from typing import Any

import pytest

from interpose import (
    Agent,
    AssistantMessage,
    ModelRequest,
    ModelResponse,
    PostModelHookContext,
    PreModelHookResult,
    ReasoningPart,
    TextPart,
    ToolCall,
    UserMessage,
    tool,
    tool_call_validator,
)
from interpose.testing import ScriptedModel, text


@tool
async def search(query: str) -> str:
    """Look for something."""
    return f"results for {query}"


WRONG: dict[str, Callable[[], Any]] = {
    "messages": lambda: PreModelHookResult(messages="hello"),  # type: ignore[arg-type]  # as a user would write it
    "messages in a list": lambda: PreModelHookResult(messages=["hello"]),  # type: ignore[list-item]  # so is this
    "tools": lambda: PreModelHookResult(tools=["search"]),  # type: ignore[list-item]  # and this
    "model": lambda: PreModelHookResult(model=3),
    "system_prompt_suffix": lambda: PreModelHookResult(system_prompt_suffix=3),  # type: ignore[arg-type]  # and this
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_value_fails_the_run_and_names_what_was_given(case: str, play: Any) -> None:
    agent = Agent(ScriptedModel(text("never")), post_model_hooks=())
    agent.register_pre_model_hook(lambda context: WRONG[case]())
    with pytest.raises(TypeError, match=rf"PreModelHookResult\({case.split()[0]}=\.\.\.\) takes .* got"):
        await play(agent)


async def test_messages_may_come_from_a_generator(play: Any) -> None:
    model = ScriptedModel(text("ok"))
    agent = Agent(model, post_model_hooks=())
    agent.register_pre_model_hook(
        lambda context: PreModelHookResult(messages=(one for one in [*context.messages, UserMessage("more")]))  # type: ignore[arg-type]  # a hook may be lazy
    )
    await play(agent)
    assert [message.text for message in model.requests[0].messages][-1] == "more"


def test_corrected_calls_stay_behind_the_reasoning_that_was_signed_for_them() -> None:
    parts = (
        ReasoningPart("first", "S1"),
        ToolCall("a", "Search", {"query": "1"}),
        ReasoningPart("second", "S2"),
        ToolCall("b", "search", {"query": "2"}),
        TextPart("both"),
    )
    request = ModelRequest(messages=(UserMessage("go"),), tools=(search,))
    response = ModelResponse(AssistantMessage(parts=parts))
    said = tool_call_validator(PostModelHookContext(response=response, request=request, state={}))
    assert said is not None
    assert said.response is not None
    corrected = parts[1].replace(name="search")
    assert said.response.message.parts == (parts[0], corrected, *parts[2:])
