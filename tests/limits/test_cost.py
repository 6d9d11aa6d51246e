"""What calls cost, and a limit on it."""

import importlib.util
from typing import Any

import pytest
from tests.limits.purse import both_ways

from interpose import Agent, ConfigurationError, LimitExceeded, Limits, Middleware, ModelProfile, Usage, tool
from interpose.models.openai import OpenAIChat
from interpose.models.profiles import known_profile
from interpose.prices import cost_usd, price_of
from interpose.testing import ScriptedModel, calls, fail, text

has_list = pytest.mark.skipif(importlib.util.find_spec("genai_prices") is None, reason="genai-prices is not installed")
PRICED = ModelProfile(input_price=2.0, output_price=10.0, cache_read_price=0.2, cache_write_price=2.5)
USED = Usage(1000, 100)


def price(model: Any, usage: Usage = USED, name: str = "") -> float | None:
    found = price_of(model, name or model.name)
    return None if found is None else found(usage)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(1000, 100), 0.003),
        (Usage(1000, 100, cache_read_tokens=500), 0.0021),
        (Usage(1000, 100, cache_write_tokens=400), 0.0032),
        (Usage(output_tokens=100), 0.001),
        (Usage(0, 0), 0.0),
        (Usage(), None),
        (Usage(total_tokens=50), None),
    ],
    ids=["plain", "cache read", "cache written", "output alone", "nothing used", "nothing known", "total alone"],
)
def test_cost_by_the_prices_of_a_profile(usage: Usage, cost: float | None) -> None:
    assert cost_usd(usage, PRICED) == (cost if cost is None else pytest.approx(cost))


@has_list
def test_a_model_that_the_package_knows_has_a_price_without_a_profile() -> None:
    assert price(ScriptedModel(provider="openai", model="gpt-4o"), Usage(1000, 100)) == pytest.approx(0.0035)
    cached = Usage(1000, 100, cache_read_tokens=500)
    assert price(ScriptedModel(provider="openai", model="gpt-4o"), cached) == pytest.approx(0.002875)


@has_list
def test_prices_in_tiers_are_those_of_the_tier() -> None:
    model = ScriptedModel(provider="google", model="gemini-2.5-pro")
    small, large = price(model, Usage(100_000, 0)), price(model, Usage(300_000, 0))
    assert small is not None
    assert large is not None
    assert large > 3.1 * small


@has_list
def test_a_listed_profile_gives_way_to_the_package_and_a_profile_of_ones_own_does_not() -> None:
    listed = ScriptedModel(provider="openai", model="gpt-4o", profile=known_profile("openai", "gpt-4o"))
    own = ScriptedModel(provider="openai", model="gpt-4o", profile=PRICED)
    assert price(listed, Usage(1_000_000, 0)) == pytest.approx(2.5)
    assert price(own, Usage(1_000_000, 0)) == pytest.approx(2.0)


@has_list
def test_a_profile_without_prices_leaves_them_to_the_package() -> None:
    model = ScriptedModel(provider="openai", model="gpt-4o", profile=ModelProfile(max_input_tokens=1000))
    assert price(model) is not None


@pytest.mark.parametrize("usage", [Usage(10, 3, cache_read_tokens=50), Usage(10, 3, cache_write_tokens=50)])
@has_list
def test_odd_figures_have_a_price_too(usage: Usage) -> None:
    assert price(ScriptedModel(provider="openai", model="gpt-4o"), usage)


def test_a_server_of_ones_own_has_no_price_by_the_name_of_its_model() -> None:
    assert price(OpenAIChat("gpt-4o", base_url="http://127.0.0.1:9/v1")) is None


@has_list
def test_a_known_server_has_its_own_prices() -> None:
    routed = OpenAIChat("openai/gpt-4o", api_key="x", provider="openrouter", base_url="https://openrouter.ai/api/v1")
    assert price(routed) == pytest.approx(0.0035)


@pytest.mark.parametrize("provider", ["scripted", "nobody", "openai"])
def test_a_model_that_nobody_knows_has_no_price(provider: str) -> None:
    assert price(ScriptedModel(provider=provider, model="no-such-model-1")) is None


async def test_the_cost_that_a_provider_tells_stands() -> None:
    model = ScriptedModel(text("x", usage=Usage(1000, 100, cost_usd=0.5)), profile=PRICED)
    assert (await Agent(model).run("go")).usage.cost_usd == 0.5


async def test_usage_has_the_cost_where_the_price_is_known_and_none_where_not() -> None:
    known = await both_ways(lambda: Agent(ScriptedModel(text("x", usage=USED), profile=PRICED)))
    unknown = await both_ways(lambda: Agent(ScriptedModel(text("x", usage=USED))))
    assert [result.usage.cost_usd for result in known] == [pytest.approx(0.003)] * 2
    assert [result.usage.cost_usd for result in unknown] == [None, None]
    assert [result.steps[0].usage.cost_usd for result in known] == [pytest.approx(0.003)] * 2


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return where


def looks(limits: Limits, **options: Any) -> Agent[Any]:
    turns = [calls(("look", {"where": "x"}), text=f"look {n}", usage=USED) for n in range(9)]
    return Agent(ScriptedModel(*turns, **options), tools=[look], limits=limits, post_model_hooks=())


async def test_a_cost_that_is_reached_stops_with_what_there_is() -> None:
    for result in await both_ways(lambda: looks(Limits(max_cost_usd=0.006), profile=PRICED)):
        assert (result.finish_reason, len(result.steps), result.text) == ("limit", 2, "look 1")
        assert result.usage.cost_usd == pytest.approx(0.006)


async def test_a_cost_that_is_reached_raises_with_limit_and_value() -> None:
    limits = Limits(max_cost_usd=0.006, on_exceeded="raise")
    for error in await both_ways(lambda: looks(limits, profile=PRICED)):
        assert isinstance(error, LimitExceeded)
        assert (error.limit, error.value) == ("max_cost_usd", 0.006)
        assert len(error.partial.steps) == 2  # type: ignore[union-attr]  # a stopped run has one


async def test_an_unknown_price_is_refused_where_the_cost_is_limited_and_nowhere_else() -> None:
    for error in await both_ways(lambda: looks(Limits(max_cost_usd=1.0))):
        assert isinstance(error, ConfigurationError)
        assert "scripted:scripted" in str(error)
        assert "ModelProfile(input_price=" in str(error)
    for result in await both_ways(lambda: looks(Limits(max_total_tokens=2200))):
        assert len(result.steps) == 2


async def test_a_model_of_unknown_price_is_not_called_in_a_nested_run_either() -> None:
    inner = ScriptedModel(text("never"))
    child = Agent(inner).as_tool("child", "A child.")
    model = ScriptedModel(calls(("child", {"prompt": "x"})), text("end"), profile=PRICED)
    result = await Agent(model, tools=[child], limits=Limits(max_cost_usd=1.0), post_model_hooks=()).run("go")
    assert inner.requests == []
    assert "price of scripted:scripted is not known" in result.steps[0].tool_results[0].text


async def test_another_model_that_a_layer_chose_is_charged_at_its_own_price() -> None:
    dear = ScriptedModel(text("x", usage=USED), model="dear", profile=ModelProfile(input_price=1e3, output_price=1e3))

    class Chooses(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.with_model(dear)

    cheap = ScriptedModel(profile=PRICED)
    result = await Agent(cheap, middleware=[Chooses()]).run("go")
    assert result.usage.cost_usd == pytest.approx(1.1)


async def test_attempts_that_failed_cost_what_they_told() -> None:
    from interpose import ProviderDown
    from interpose.models import UsageUpdate

    class Retries(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            except ProviderDown:
                return await call_next.again(request)

    def agent() -> Agent[Any]:
        turns = (fail(ProviderDown("cut"), after=[UsageUpdate(Usage(1000, 0))]), text("ok", usage=USED))
        return Agent(ScriptedModel(*turns, profile=PRICED), middleware=[Retries()])

    for result in await both_ways(agent):
        assert result.usage.cost_usd == pytest.approx(0.005)
        assert result.usage.input_tokens == 2000
