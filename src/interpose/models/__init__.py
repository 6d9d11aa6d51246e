"""Models: the protocol, and the providers by name, each imported when it is first used."""

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from interpose.models.base import (
    Finish,
    MessageStart,
    Model,
    ModelChunk,
    ModelProfile,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
    as_stream,
    fold,
    unfold,
)
from interpose.models.language_model import GenerateNext, LanguageModelMiddleware, StreamNext, wrap_model
from interpose.models.profiles import profile_for

if TYPE_CHECKING:
    from interpose.errors import ConfigurationError as _ConfigurationError
    from interpose.models.anthropic import AnthropicMessages as AnthropicMessages
    from interpose.models.google import GoogleGemini as GoogleGemini
    from interpose.models.local import LocalModel as LocalModel
    from interpose.models.openai import OpenAIChat as OpenAIChat
    from interpose.models.openai.responses import OpenAIResponses as OpenAIResponses

__all__ = [
    "AnthropicMessages",
    "Finish",
    "GenerateNext",
    "GoogleGemini",
    "LanguageModelMiddleware",
    "LocalModel",
    "MessageStart",
    "Model",
    "ModelChunk",
    "ModelProfile",
    "OpenAIChat",
    "OpenAIResponses",
    "PROVIDERS",
    "ReasoningDelta",
    "StreamNext",
    "TextDelta",
    "ToolCallDelta",
    "UsageUpdate",
    "as_stream",
    "fold",
    "is_provider",
    "profile_for",
    "resolve",
    "unfold",
    "wrap_model",
]

PROVIDERS = {
    "openai": ("interpose.models.openai", "OpenAIChat"),
    "openai-responses": ("interpose.models.openai.responses", "OpenAIResponses"),
    "anthropic": ("interpose.models.anthropic", "AnthropicMessages"),
    "google": ("interpose.models.google", "GoogleGemini"),
    "local": ("interpose.models.local", "LocalModel"),
}
"""Provider -> module and class; the class takes what stands after the colon."""

_MODULES = {kind: module for module, kind in PROVIDERS.values()}

_FAMILIES = {"gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic", "gemini": "google"}


def is_provider(name: str) -> bool:
    """Whether *name* is the name of a provider."""
    return name in PROVIDERS


def resolve(spec: str) -> Model:
    """Return the model that "provider:model" names; nothing is loaded and nobody is called yet.

    Raises:
        ConfigurationError: the text is no such name, the provider is not known, or what it needs is not installed.
    """
    if not isinstance(spec, str):
        raise _refusal(f"a model is a Model or a text like 'openai:gpt-5.5', got {type(spec).__name__}: {spec!r:.80}")
    provider, colon, name = spec.partition(":")
    if not colon or not is_provider(provider):
        raise _refusal(_not_a_model(spec))
    module, kind = PROVIDERS[provider]
    model: Model = getattr(importlib.import_module(module), kind)(name)
    return model


def _not_a_model(spec: str) -> str:
    head, _, name = spec.replace("/", ":").partition(":")
    family = next((owner for prefix, owner in _FAMILIES.items() if spec.lower().startswith(prefix)), None)
    if spec.endswith(".gguf"):
        near = f"local:{spec}"
    elif family is not None:
        near = f"{family}:{spec}"
    else:
        close = difflib.get_close_matches(head.lower(), [*PROVIDERS], n=1)
        near = f"{close[0]}:{name}" if close else ""
    hint = f" Did you mean {near!r}?" if near else ""
    return f"{spec!r} names no model: expected 'provider:model' with a provider of {_listed(PROVIDERS)}.{hint}"


def _listed(names: Any) -> str:
    return ", ".join(repr(f"{name}:") for name in names)


def _refusal(message: str) -> "_ConfigurationError":
    from interpose.errors import ConfigurationError  # not at the top, where it would become a name of this package

    return ConfigurationError(message)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
