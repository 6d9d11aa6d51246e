"""The examples do what they say: on a script, and on the embedded model."""

import importlib.util
import sqlite3
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interpose import CustomEvent
from interpose.testing import ScriptedModel, calls, collect, text

FILE = Path(__file__).parents[1] / "examples" / "cities" / "agent.py"
ASKS = calls(("population", {"city": " lyon"}))


@pytest.fixture
def cities() -> ModuleType:
    """The example, loaded anew, so that its cache is empty."""
    spec = importlib.util.spec_from_file_location("cities_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def summary_of(cities: ModuleType, *turns: Any) -> Any:
    with cities.agent.override(model=ScriptedModel(*turns)):
        events = await collect(cities.agent.stream("How many people live in Lyon?"))
    return next(event.value for event in events if isinstance(event, CustomEvent) and event.name == "summary")


async def test_tool_answers_from_the_database(cities: ModuleType) -> None:
    with cities.agent.override(model=ScriptedModel(ASKS, text("Many."))):
        result = await cities.agent.run("How many people live in Lyon?")
    assert result.steps[0].tool_results[0].data.startswith("Lyon in France has 522,000 inhabitants")


async def test_unknown_city_is_said_to_be_unknown(cities: ModuleType) -> None:
    with cities.agent.override(model=ScriptedModel(calls(("population", {"city": "Ys"})), text("?"))):
        result = await cities.agent.run("How many people live in Ys?")
    assert "no city named 'Ys'" in result.steps[0].tool_results[0].text


def test_database_takes_no_writes(cities: ModuleType) -> None:
    with closing(sqlite3.connect(cities.database(), uri=True)) as db, pytest.raises(sqlite3.OperationalError):
        db.execute("DELETE FROM city")


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (("It has 52", "2,0", "00 people."), "It has 522 thousand people."),
        (("3281", "000!"), "3.28 million!"),
        (("Ask reg", "istry@france", ".example."), "Ask (address hidden)."),
        (("In 2021, 12 of them.",), "In 2021, 12 of them."),
    ],
    ids=["figure", "bare figure", "address", "left alone"],
)
async def test_guard_edits_the_streamed_text(cities: ModuleType, said: tuple[str, ...], read: str) -> None:
    with cities.agent.override(model=ScriptedModel(text(chunks=said))):
        assert (await cities.agent.run("?")).text == read


async def test_second_equal_call_is_answered_by_the_cache(cities: ModuleType) -> None:
    hits = [(await summary_of(cities, ASKS, text("Many.")))["answered by the cache"] for _ in range(2)]
    assert hits == [0, 1]


async def test_summary_has_the_time_of_each_seam(cities: ModuleType) -> None:
    summary = await summary_of(cities, ASKS, text("Many."))
    assert set(summary) >= {"time in the model", "time in tools", "time of the run"}


@pytest.mark.local_model
async def test_embedded_model_answers_from_the_tool(cities: ModuleType) -> None:
    result = await cities.agent.run("How many people live in Lyon?")
    assert result.steps[0].response.tool_calls[0].name == "population"
    assert "Lyon in France" in result.steps[0].tool_results[0].text
    assert result.text
