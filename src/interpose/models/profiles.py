"""What is known of models by name: limits, prices, abilities, from a list that comes with the library."""

import functools
import logging
import re
from pathlib import Path
from typing import Any

import msgspec

from interpose.models.base import ModelProfile

log = logging.getLogger("interpose")

UNKNOWN = ModelProfile(
    max_input_tokens=8192,
    max_output_tokens=2048,
    supports_parallel_tool_calls=False,
)
"""What a model that nobody knows is taken for: small, of unknown price, and able to do little."""

_SAME_MODELS = {"openai-responses": "openai"}  # another way to the same models

_OTHER_VERSION = re.compile(r"[-.]\d{1,2}(?!\d)|[^-:@/]")


class Listed(msgspec.Struct, frozen=True):
    """The list: when it was *read*, from which *sources*, and the profiles by provider and name."""

    read: str
    sources: tuple[str, ...]
    profiles: dict[str, dict[str, ModelProfile]]


@functools.cache
def listed() -> Listed:
    """Return the list that comes with the library; prices in it are those of the day it was read, in its first tier."""
    return msgspec.json.decode(Path(__file__).with_name("profiles.json").read_bytes(), type=Listed)


@functools.cache
def known_profile(provider: str, model: str) -> ModelProfile | None:
    """Return the profile of the longest listed name that *model* begins with, or None.

    What follows the name may be a date, a size or the like, but no version: `gpt-5` does not stand for `gpt-5.9`.
    """
    own = listed().profiles.get(_SAME_MODELS.get(provider, provider), {})
    names = [name for name in own if model == name or _stands_for(name, model)]
    return own[max(names, key=len)] if names else None


def _stands_for(name: str, model: str) -> bool:
    return model.startswith(name) and _OTHER_VERSION.match(model, len(name)) is None


@functools.cache
def profile_for(provider: str, model: str) -> ModelProfile:
    """Return what is known of *model*; of one that is not listed, a careful guess, which is logged once a model."""
    known = known_profile(provider, model)
    if known is not None:
        return known
    log.warning(
        "nothing is known of the model %s:%s, so it is taken for a small one without a price (%d tokens in, %d out); "
        "give the model a profile=ModelProfile(...) that says what it is",
        provider,
        model,
        UNKNOWN.max_input_tokens,
        UNKNOWN.max_output_tokens,
    )
    return UNKNOWN


def profile_of(model: Any, name: str) -> ModelProfile | None:
    """Return the profile of *model*, or of the other model of its provider that *name* asks for."""
    if name in ("", model.name):
        return getattr(model, "profile", None)
    return profile_for(model.provider, name)
