"""The example of a conversation that outgrows its model: on a script, and on the embedded model."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interpose import ContextTooLong, ModelRequest, RunResult
from interpose.testing import ScriptedModel, calls, text

FILE = Path(__file__).parents[1] / "examples" / "long_conversation" / "talk.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("long_conversation_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


talk = load()
RIGHT = int(re.findall(r"has (\d+) boxes", talk.entry("north", talk.BAY))[0])


def does_as_it_is_told(request: ModelRequest) -> Any:
    """Calls the tool on offer with the only argument that it takes, then says what it was told."""
    size = sum(talk.count_tokens(message.text) for message in request.messages)
    if size > talk.CONTEXT_TOKENS:
        raise ContextTooLong("too long", provider="scripted", model="scripted")
    if request.messages[-1].role == "tool":
        found = re.findall(r"has (\d+) boxes", request.messages[-1].text)
        return text(f'{{"boxes": {found[0]}}}')
    offered = request.tools[0]
    ((name, schema),) = offered.parameters["properties"].items()
    return calls((offered.name, {name: schema["const"]}))


async def results_of(*, with_care: bool, model: Any = None) -> list[RunResult]:
    return [result async for _, result in talk.talk(talk.agent_of(with_care=with_care, model=model))]


def scripted() -> ScriptedModel:
    return ScriptedModel(*[does_as_it_is_told] * 20, native_structured_output=True)


def assert_right(results: list[RunResult]) -> None:
    """Assert that the last answer is right, and came from a result that had left the conversation."""
    assert results[-1].output == talk.Count(RIGHT)
    assert [call.name for step in results[-1].steps for call in step.response.tool_calls] == ["read_result"]
    stubs = [message for message in results[-1].messages if message.text.startswith('{"_evicted":true')]
    assert len(stubs) == len(talk.HALLS)
    assert not [stub for stub in stubs if str(RIGHT) in stub.text.partition('"full_result_path"')[0]]


def assert_summarised(results: list[RunResult]) -> None:
    first = results[-1].steps[0].request.messages
    assert first[0].text.startswith("Summary so far")
    assert len(first) < len(results[-1].messages) // 2


async def test_without_care_the_conversation_grows_too_long_for_a_script() -> None:
    with pytest.raises(ContextTooLong):
        await results_of(with_care=False, model=scripted())


async def test_with_care_the_script_ends_in_the_right_answer() -> None:
    results = await results_of(with_care=True, model=scripted())
    assert_right(results)
    assert_summarised(results)


async def test_what_is_read_back_is_cut_to_what_the_question_is_about() -> None:
    result = (await results_of(with_care=True, model=scripted()))[-1]
    assert result.steps[0].tool_results[0].text == talk.entry("north", talk.BAY)


@pytest.mark.local_model
@pytest.mark.timeout(180)
async def test_without_care_the_embedded_model_has_no_room() -> None:
    with pytest.raises(ContextTooLong):
        await results_of(with_care=False)


@pytest.mark.local_model
@pytest.mark.timeout(180)
async def test_with_care_the_embedded_model_ends_in_the_right_answer() -> None:
    results = await results_of(with_care=True)
    assert_right(results)
    assert_summarised(results)
