"""What is known of models by name, and what is made of names that nobody knows."""

import logging
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from interpose import Agent, ModelProfile, Usage
from interpose.hooks import PreModelHookContext, PreModelHookResult
from interpose.models.openai import OpenAIChat
from interpose.models.profiles import UNKNOWN, known_profile, listed, profile_for, profile_of
from interpose.prices import cost_usd
from interpose.testing import ScriptedModel, text

KNOWN = [
    ("openai", "gpt-5.5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("anthropic", "claude-opus-5-5"),
    ("google", "gemini-3.8-flash"),
    ("groq", "openai/gpt-oss-120b"),
    ("mistral", "mistral-large-4"),
    ("deepseek", "deepseek-v4-pro"),
]


@pytest.fixture(autouse=True)
def nothing_logged_yet() -> Iterator[None]:
    profile_for.cache_clear()
    yield
    profile_for.cache_clear()


@pytest.mark.parametrize(("provider", "model"), KNOWN)
def test_common_models_have_limits_prices_and_abilities(provider: str, model: str) -> None:
    profile = profile_for(provider, model)
    assert profile.max_input_tokens is not None
    assert profile.max_input_tokens > 100_000
    assert profile.supports_parallel_tool_calls
    assert cost_usd(Usage(1000, 1000), profile)


def test_list_says_when_and_from_where_it_was_read() -> None:
    assert date.fromisoformat(listed().read) <= date.today()
    assert [source.split()[0] for source in listed().sources] == ["genai-prices", "litellm"]


def test_every_listed_profile_makes_sense() -> None:
    odd = [
        f"{provider}:{name}"
        for provider, own in listed().profiles.items()
        for name, profile in own.items()
        if not 1000 < (profile.max_input_tokens or 0) < 20_000_000
        or not 0 <= (profile.input_price or 0) <= 100
        or (profile.cache_read_price or 0) > (profile.input_price or 0)
        or (profile.output_price or 0) < 0
    ]
    assert odd == []


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("gpt-5.4-mini", "gpt-5.4-mini"),
        ("gpt-5.4-pro-2026-03-05", "gpt-5.4-pro"),
    ],
)
def test_longest_listed_beginning_counts(model: str, name: str) -> None:
    assert known_profile("openai", model) is listed().profiles["openai"][name]


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5.9"),
        ("openai", "gpt-55"),
        ("openai", "gpt"),
        ("openai", ""),
        ("anthropic", "claude-opus-5-9"),
        ("anthropic", "gpt-5.5"),
        ("nobody", "gpt-5.5"),
    ],
)
def test_other_version_and_other_provider_are_not_taken_for_it(provider: str, model: str) -> None:
    assert known_profile(provider, model) is None


def test_unknown_model_is_taken_for_a_small_one_without_a_price() -> None:
    profile = profile_for("nobody", "new")
    assert (profile, profile.input_price, cost_usd(Usage(1, 1), profile)) == (UNKNOWN, None, None)


def test_unknown_model_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("new", "new", "newer", "new"):
        profile_for("nobody", name)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "nobody:new," in caplog.messages[0]
    assert "profile=" in caplog.messages[0]


def test_known_model_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    profile_for("openai", "gpt-5.5")
    assert caplog.messages == []


# --- who reads it ---


def test_own_name_has_the_models_own_profile() -> None:
    own = ModelProfile(max_input_tokens=9)
    model = ScriptedModel(profile=own, model="gpt-5.5", provider="openai")
    assert (profile_of(model, "gpt-5.5"), profile_of(model, "")) == (own, own)


def test_other_name_of_the_provider_is_looked_up() -> None:
    model = ScriptedModel(profile=ModelProfile(), model="mine", provider="openai")
    assert profile_of(model, "gpt-5.5") == profile_for("openai", "gpt-5.5")


async def test_hooks_get_the_profile_of_a_swapped_name() -> None:
    seen: list[Any] = []
    model = ScriptedModel(text("ok"), provider="openai", model="gpt-5.5")
    agent = Agent(model)

    @agent.register_pre_model_hook
    def smaller(context: PreModelHookContext) -> PreModelHookResult:
        return PreModelHookResult(model="gpt-5-mini")

    @agent.register_pre_model_hook
    def looks(context: PreModelHookContext) -> None:
        seen.append(context.model_profile)

    await agent.run("go")
    assert seen == [profile_for("openai", "gpt-5-mini")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("openai", "gpt-5.5")),
        ({"base_url": "http://localhost:1/v1"}, None),
        ({"base_url": "http://localhost:1/v1", "provider": "nobody"}, None),
    ],
    ids=["official", "own server", "own server with a name"],
)
def test_adapter_knows_the_official_models(options: dict[str, Any], expected: Any) -> None:
    profile = OpenAIChat("gpt-5.5", api_key="k", **options).profile
    assert profile == (profile_for(*expected) if expected else None)


def test_adapter_knows_models_of_a_named_provider() -> None:
    model = OpenAIChat("openai/gpt-oss-120b", api_key="k", base_url="https://api.groq.com/openai/v1", provider="groq")
    assert model.profile == known_profile("groq", "openai/gpt-oss-120b")


def test_profile_that_is_given_counts() -> None:
    own = ModelProfile(max_input_tokens=9)
    assert OpenAIChat("gpt-5.5", api_key="k", profile=own).profile is own
