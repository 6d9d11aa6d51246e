"""Write src/interpose/models/profiles.json from the price lists of two packages; see `make profiles`.

Prices come from genai-prices, limits and abilities from litellm, which take them from the vendors' pages. Kept are chat
models that are on offer on the day of reading and whose window is known.
"""

import importlib.metadata
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from genai_prices import data

TARGET = Path(__file__).parents[1] / "src" / "interpose" / "models" / "profiles.json"
LIMITS = "litellm/model_prices_and_context_window_backup.json"
PROVIDERS = {  # as in genai-prices -> the name here, and the prefix in litellm
    "openai": ("openai", ""),
    "anthropic": ("anthropic", ""),
    "google": ("google", "gemini/"),
    "deepseek": ("deepseek", "deepseek/"),
    "groq": ("groq", "groq/"),
    "mistral": ("mistral", "mistral/"),
    "x-ai": ("xai", "xai/"),
}
NO_CHAT = (
    "audio",
    "embed",
    "guard",
    "image",
    "live",
    "ocr",
    "realtime",
    "search",
    "transcribe",
    "tts",
    "voice",
    "moderation",
)
FLAGS = {
    "supports_vision": "supports_vision",
    "supports_caching": "supports_prompt_caching",
    "supports_structured_output": "supports_response_schema",
}
# Where the lists have the size of the window for that of the longest answer. Source: the vendor's table of models, read
# May 2025.
OUTPUT_LIMITS = {"claude-3-7-sonnet": 64_000, "claude-sonnet-4-0": 64_000, "claude-opus-4-0": 32_000}
NOW = datetime.now(UTC)


def price(value: Any) -> float | None:
    """Return USD per million tokens; of a price in tiers, that of the first."""
    value = getattr(value, "base", value)
    return float(value) if isinstance(value, Decimal) else None


def names_of(model: Any) -> set[str]:
    """Return the names by which *model* goes, as far as they are written out."""
    clauses = getattr(model.match, "or_", [model.match])
    named = [getattr(clause, "equals", None) or getattr(clause, "starts_with", None) for clause in clauses]
    return {model.id, *[name for name in named if name]}


def profile_of(model: Any, about: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is known of *model*, or None where it is not for chat, not on offer or of unknown size."""
    prices = model.get_prices(NOW)
    known = {"input_price": price(prices.input_mtok), "output_price": price(prices.output_mtok)}
    window = about.get("max_input_tokens") or model.context_window
    if (
        model.deprecated
        or not window
        or None in known.values()
        or about.get("mode", "chat") not in ("chat", "responses")
    ):
        return None
    if about.get("deprecation_date", "9") <= NOW.date().isoformat():
        return None
    known |= {"cache_read_price": price(prices.cache_read_mtok), "cache_write_price": price(prices.cache_write_mtok)}
    most = about.get("max_output_tokens")
    if most == window:
        most = next((limit for start, limit in OUTPUT_LIMITS.items() if model.id.startswith(start)), most)
    limits = {"max_input_tokens": window, "max_output_tokens": most}
    flags = {ours: True for ours, theirs in FLAGS.items() if about.get(theirs)}
    # Silence about parallel calls means that the vendor has no switch for them, not that the model makes one at a time.
    flags["supports_parallel_tool_calls"] = bool(about.get("supports_function_calling", not about))
    if known["cache_read_price"] is not None:
        flags["supports_caching"] = True
    return {name: value for name, value in (limits | known | flags).items() if value is not None}


def about_of(names: set[str], prefix: str, abouts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what is listed under one of *names*, at the vendor or else at another house that offers the model."""
    ordered = sorted(names, key=lambda name: (len(name), name))
    own = next((abouts[prefix + name] for name in ordered if prefix + name in abouts), None)
    if own is not None:
        return own
    return next((about for key, about in abouts.items() if key.rpartition("/")[2] in names), {})


def main() -> None:
    """Write the file and say how many models it has."""
    about = importlib.metadata.distribution("litellm").locate_file(LIMITS)  # importing it would need far more packages
    abouts: dict[str, dict[str, Any]] = json.loads(Path(str(about)).read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = {}
    for provider in data.providers:
        if provider.id not in PROVIDERS:
            continue
        name, prefix = PROVIDERS[provider.id]
        own: dict[str, Any] = {}
        for model in provider.models:
            names = names_of(model)
            if any(word in model.id for word in NO_CHAT) or (name == "google" and "claude" in model.id):
                continue
            about = about_of(names, prefix, abouts)
            profile = profile_of(model, about)
            if profile is not None:
                own |= dict.fromkeys(names, profile)
        found[name] = {one: own[one] for one in sorted(own) if not is_implied(one, own)}
    versions = [f"{package} {importlib.metadata.version(package)}" for package in ("genai-prices", "litellm")]
    text = {"read": NOW.date().isoformat(), "sources": versions, "profiles": found}
    TARGET.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{TARGET.name}: {sum(map(len, found.values()))} names\n")


def is_implied(name: str, own: dict[str, Any]) -> bool:
    """Return whether a shorter name stands for *name* too, as that of a model without its date does."""
    shorter = [one for one in own if one != name and name.startswith(f"{one}-") and not is_version(name[len(one) :])]
    return bool(shorter) and own[max(shorter, key=len)] == own[name]


def is_version(rest: str) -> bool:
    """Return whether *rest* begins like another version (-5, -5-2) rather than a date or a word."""
    digits = rest[1:].partition("-")[0].partition(".")[0]
    return digits.isdigit() and len(digits) < 3


if __name__ == "__main__":
    main()
