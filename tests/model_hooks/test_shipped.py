"""The four hooks that come with the library, at work in an agent."""

from collections.abc import Sequence
from typing import Any

import pytest

from interpose import (
    Agent,
    AssistantMessage,
    Message,
    ModelProfile,
    ModelRequest,
    SystemMessage,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    history_trimmer,
    tool,
    tool_prompt_budget,
)
from interpose.testing import ScriptedModel, calls, text
from interpose.tokens import count_message, count_tool


@tool
async def search(query: str, limit: int = 5) -> str:
    """Look for something. It may take a while."""
    return f"results for {query}"


def agent_of(*turns: Any, profile: ModelProfile | None = None, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*turns, profile=profile)
    return Agent(model, **{"tools": [search], "post_model_hooks": (), **options}), model


def exchange(number: int, length: int) -> list[Message]:
    call = ToolCall(f"c{number}", "search", {"query": "y"})
    return [AssistantMessage(tool_calls=(call,)), ToolMessage("r" * length, call.id)]


# --- history_trimmer ---

LONG: list[Message] = [
    SystemMessage("rules"),
    UserMessage("old"),
    *[message for number in range(10) for message in exchange(number, 2000)],
    AssistantMessage("so far"),
    UserMessage("new"),
]


def assert_every_result_has_its_call(messages: Sequence[Message]) -> None:
    asked = {call.id for message in messages for call in message.tool_calls}
    assert {message.tool_call_id for message in messages if message.role == "tool"} == asked


@pytest.mark.parametrize("profile", [None, ModelProfile()], ids=["no profile", "no limit"])
async def test_trimmer_leaves_a_model_of_unknown_size_alone(play: Any, profile: ModelProfile | None) -> None:
    agent, model = agent_of(text("ok"), profile=profile)
    agent.register_pre_model_hook(history_trimmer)
    await play(agent, LONG)
    assert list(model.requests[0].messages) == LONG


async def test_trimmer_makes_a_long_history_fit_the_model(play: Any) -> None:
    agent, model = agent_of(text("ok"), profile=ModelProfile(max_input_tokens=1000, max_output_tokens=200))
    agent.register_pre_model_hook(history_trimmer)
    result = await play(agent, LONG)
    sent = model.requests[0].messages
    assert sum(map(count_message, sent)) + count_tool(search) <= 800
    assert (sent[0].text, sent[1].role, sent[-1].text) == ("rules", "system", "new")
    assert f"{len(LONG) - len(sent) + 1} earlier messages" in sent[1].text
    assert_every_result_has_its_call(sent)
    assert result.messages[:-1] == tuple(LONG)


async def test_trimmer_is_still_at_work_when_tool_results_pile_up(play: Any) -> None:
    @tool
    async def read() -> str:
        """Read a page."""
        return "r" * 1600

    profile = ModelProfile(max_input_tokens=1000)
    agent, model = agent_of(*[calls("read")] * 6, text("ok"), tools=[read], profile=profile)
    agent.register_pre_model_hook(history_trimmer)
    await play(agent, [UserMessage("old " * 900), AssistantMessage("a"), UserMessage("go")])
    for request in model.requests:
        assert "go" in [message.text for message in request.messages]
        assert_every_result_has_its_call(request.messages)
    assert not [message for message in model.requests[-1].messages if message.text.startswith("old ")]


# --- tool_prompt_budget ---


def many(count: int) -> list[Tool]:
    def make(number: int) -> Tool:
        async def one(query: str, page: int = 1) -> str:
            return f"{number}: {query}"

        made: Tool = tool(one, name=f"tool_{number}", description="Does it. " + "At length. " * 60)
        return made

    return [make(number) for number in range(count)]


WEAK = ModelProfile(weak_tool_schema=True, max_input_tokens=4000)


async def test_budget_leaves_the_tools_of_a_strong_model_alone(play: Any) -> None:
    tools = many(50)
    agent, model = agent_of(text("ok"), tools=tools, profile=ModelProfile(max_input_tokens=4000), instructions="I")
    agent.register_pre_model_hook(tool_prompt_budget)
    await play(agent)
    assert (list(model.requests[0].tools), model.requests[0].instructions) == (tools, "I")


async def test_budget_leaves_few_tools_alone(play: Any) -> None:
    agent, model = agent_of(text("ok"), profile=WEAK, instructions="I")
    agent.register_pre_model_hook(tool_prompt_budget)
    await play(agent)
    assert (model.requests[0].tools, model.requests[0].instructions) == ((search,), "I")


async def test_budget_makes_many_tools_fit_a_weak_model_and_lists_them(play: Any) -> None:
    agent, model = agent_of(text("ok"), tools=many(50), profile=WEAK, instructions="I")
    agent.register_pre_model_hook(tool_prompt_budget)
    call = ToolCall("c1", "tool_49", {"query": "x"})
    await play(
        agent, [UserMessage("a"), AssistantMessage(tool_calls=(call,)), ToolMessage("r", "c1"), UserMessage("b")]
    )
    request = model.requests[0]
    names = [one.name for one in request.tools]
    assert sum(map(count_tool, request.tools)) <= 600
    assert ("tool_49" in names, len(names) < 50) == (True, True)
    listed = [line for line in request.instructions.splitlines() if line.startswith("tool_")]
    assert listed == [f"{name}(query, page)" for name in names]


async def test_tool_with_a_shortened_description_still_runs(play: Any) -> None:
    turns = [calls(("tool_1", {"query": "x", "page": "2"})), text("ok")]
    agent, _ = agent_of(*turns, tools=many(8), profile=WEAK)
    agent.register_pre_model_hook(tool_prompt_budget)
    result = await play(agent)
    assert result.steps[0].tool_results[0].data == "1: x"


# --- tool_call_validator, by default ---


def by_default(*turns: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*turns)
    return Agent(model, **{"tools": [search], **options}), model


def last_said(request: ModelRequest) -> str:
    return request.messages[-1].text


async def test_unknown_tool_is_sent_back_with_the_names_on_offer(play: Any) -> None:
    agent, model = by_default(calls(("find", {"query": "x"})), text("ok"))
    result = await play(agent)
    assert "There is no tool 'find'" in last_said(model.requests[1])
    assert "search" in last_said(model.requests[1])
    assert (len(result.steps), result.text) == (1, "ok")


async def test_missing_argument_is_named_with_its_tool(play: Any) -> None:
    agent, model = by_default(calls(("search", {})), text("ok"))
    await play(agent)
    assert "search: missing argument 'query'" in last_said(model.requests[1])


@pytest.mark.parametrize("args", [{"query": 5}, {"query": "x", "limit": "many"}, {"query": ["x"]}], ids=str)
async def test_argument_of_the_wrong_type_is_sent_back(play: Any, args: dict[str, Any]) -> None:
    agent, model = by_default(calls(("search", args)), text("ok"))
    await play(agent)
    assert len(model.requests) == 2


async def test_arguments_that_are_no_json_are_sent_back(play: Any) -> None:
    agent, model = by_default(calls(("search", '{"query": ')), text("ok"))
    await play(agent)
    assert "not valid JSON" in last_said(model.requests[1])


async def test_argument_that_validation_would_take_passes(play: Any) -> None:
    agent, model = by_default(calls(("search", {"query": "x", "limit": "3"})), text("ok"))
    result = await play(agent)
    assert (len(model.requests), result.steps[0].tool_results[0].data) == (2, "results for x")


@pytest.mark.parametrize("name", ["Search", "SEARCH", "se-arch", "sear_ch"])
async def test_name_that_is_nearly_right_is_corrected(play: Any, name: str) -> None:
    agent, model = by_default(calls((name, {"query": "x"})), text("ok"))
    result = await play(agent)
    assert (result.steps[0].tool_results[0].data, len(model.requests)) == ("results for x", 2)
    assert result.steps[0].response.tool_calls[0].name == "search"


async def test_third_bad_answer_is_let_through_and_gets_an_error_result(play: Any) -> None:
    agent, model = by_default(*[calls(("find", {}))] * 3, text("ok"))
    result = await play(agent)
    assert (len(model.requests), len(result.steps), result.text) == (4, 2, "ok")
    assert result.steps[0].tool_results[0].is_error


async def test_answer_without_calls_passes(play: Any) -> None:
    agent, model = by_default(text("ok"))
    await play(agent)
    assert len(model.requests) == 1


async def test_without_the_default_hooks_a_bad_call_is_answered_at_once(play: Any) -> None:
    agent, model = agent_of(calls(("find", {})), text("ok"))
    result = await play(agent)
    assert (len(model.requests), result.steps[0].tool_results[0].is_error) == (2, True)
    assert model.requests[1].messages[-1].role == "tool"


# --- repetition_detector, by default ---


def same(args: Any) -> Any:
    return calls(("search", args))


@tool(name="search")
async def noting(query: str, limit: int = 5) -> str:
    """Look for something."""
    RAN.append(query)
    return "nothing"


RAN: list[str] = []


async def test_third_equal_call_with_equal_results_is_asked_back_once(play: Any) -> None:
    RAN.clear()
    agent, model = by_default(*[same({"query": "x"})] * 3, text("ok"), tools=[noting])
    result = await play(agent)
    assert (RAN, result.text, len(model.requests)) == (["x", "x"], "ok", 4)
    assert "same call" in last_said(model.requests[3])


async def test_order_of_keys_makes_no_other_call(play: Any) -> None:
    turns = [same('{"query": "x", "limit": 2}'), same('{"limit": 2, "query": "x"}'), same('{"query":"x","limit":2}')]
    RAN.clear()
    agent, _ = by_default(*turns, text("ok"), tools=[noting])
    await play(agent)
    assert RAN == ["x", "x"]


async def test_other_results_make_another_call(play: Any) -> None:
    count = iter(range(9))

    @tool(name="search")
    async def counting(query: str) -> int:
        """Look for something."""
        return next(count)

    agent, model = by_default(*[same({"query": "x"})] * 4, text("ok"), tools=[counting])
    result = await play(agent)
    assert (len(model.requests), len(result.steps)) == (5, 5)


async def test_new_question_begins_the_count_anew(play: Any) -> None:
    before: list[Message] = [UserMessage("a")]
    for number in range(2):
        call = ToolCall(f"c{number}", "search", {"query": "x"})
        before += [AssistantMessage(tool_calls=(call,)), ToolMessage("results for x", call.id)]
    agent, model = by_default(same({"query": "x"}), text("ok"))
    await play(agent, [*before, AssistantMessage("nothing"), UserMessage("again")])
    assert len(model.requests) == 2


PARAGRAPH = "The stock is counted and everything is in its place.\n"


@pytest.mark.parametrize(("times", "asked"), [(3, 1), (4, 2)])
async def test_text_four_times_over_is_asked_back_once(play: Any, times: int, asked: int) -> None:
    said = PARAGRAPH * times
    agent, model = by_default(text(said), text(said))
    assert ((await play(agent)).text, len(model.requests)) == (said, asked)


async def test_short_lines_may_repeat(play: Any) -> None:
    agent, model = by_default(text("- yes\n" * 20))
    await play(agent)
    assert len(model.requests) == 1
