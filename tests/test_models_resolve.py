"""Models by name: which names are taken, what is said of others, and that nothing is imported before it is used."""

import json
import subprocess
import sys

import pytest

import interpose.models as models
from interpose.errors import ConfigurationError
from interpose.models import is_provider, resolve

LISTED = ", ".join(repr(f"{name}:") for name in models.PROVIDERS)

LOADED = """
import json, sys
import interpose.models
print(json.dumps([name for name in sys.modules if name.startswith(("interpose.models.", "openai", "xllamacpp"))]))
"""


def test_import_loads_no_provider_and_no_sdk() -> None:
    out = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    core = {f"interpose.models.{name}" for name in ("base", "guard", "language_model", "profiles")}
    assert set(json.loads(out.stdout)) <= core


def test_import_of_an_adapter_loads_no_sdk() -> None:
    code = (
        "import interpose.models.openai, interpose.models.anthropic, interpose.models.google, "
        "interpose.models.local, sys; "
        "print([name for name in ('openai', 'anthropic', 'google.genai', 'httpx2') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


@pytest.mark.parametrize("name", ["openai", "openai-responses", "local", "anthropic", "google"])
def test_known_providers(name: str) -> None:
    assert is_provider(name)


def test_other_words_are_no_providers() -> None:
    assert not any(map(is_provider, ["ft", "OpenAI", ""]))


def test_openai_name_gives_that_model() -> None:
    pytest.importorskip("openai", reason="needs pip install 'interpose[openai]'")
    model = resolve("openai:ft:gpt-x:org")
    assert (model.provider, model.name) == ("openai", "ft:gpt-x:org")


def test_responses_are_asked_for_by_name() -> None:
    pytest.importorskip("openai", reason="needs pip install 'interpose[openai]'")
    model = resolve("openai-responses:gpt-5.5")
    assert (type(model).__name__, model.provider, model.name) == ("OpenAIResponses", "openai-responses", "gpt-5.5")
    assert model.profile == resolve("openai:gpt-5.5").profile


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
def test_openai_without_a_name_is_refused(provider: str) -> None:
    with pytest.raises(ConfigurationError, match=f"needs the name of a model, for instance '{provider}:gpt-5.5'"):
        resolve(f"{provider}:")


@pytest.mark.parametrize(
    ("spec", "kind", "package"),
    [
        ("anthropic:claude-sonnet-5", "AnthropicMessages", "anthropic"),
        ("google:gemini-3.5-flash", "GoogleGemini", "google.genai"),
    ],
)
def test_names_give_the_model_of_their_vendor(spec: str, kind: str, package: str) -> None:
    pytest.importorskip(package)
    model = resolve(spec)
    assert (type(model).__name__, f"{model.provider}:{model.name}") == (kind, spec)
    assert model.profile is not None
    assert model.profile.max_output_tokens


@pytest.mark.parametrize(
    ("spec", "near"),
    [
        ("opnai:gpt-5.5", "'openai:gpt-5.5'"),
        ("OpenAI:gpt-5.5", "'openai:gpt-5.5'"),
        ("openai/gpt-5.5", "'openai:gpt-5.5'"),
        ("gpt-5.5", "'openai:gpt-5.5'"),
        ("claude-opus", "'anthropic:claude-opus'"),
        ("models/tiny.gguf", "'local:models/tiny.gguf'"),
        ("local", "'local:'"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(spec: str, near: str) -> None:
    with pytest.raises(ConfigurationError, match=f"of {LISTED}") as caught:
        resolve(spec)
    assert str(caught.value).endswith(f"Did you mean {near}?")


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve("zzz:zzz")
    assert "Did you mean" not in str(caught.value)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="got int: 3"):
        resolve(3)  # type: ignore[arg-type]  # the mistake in question


def test_classes_are_found_on_the_package() -> None:
    assert models.OpenAIChat.__module__ == "interpose.models.openai.model"
    assert models.AnthropicMessages.__module__ == "interpose.models.anthropic.model"
    assert models.GoogleGemini.__module__ == "interpose.models.google.model"
    assert models.LocalModel.__module__ == "interpose.models.local.model"


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(AttributeError, match="Claude"):
        models.Claude  # noqa: B018  # the access is what is tested
