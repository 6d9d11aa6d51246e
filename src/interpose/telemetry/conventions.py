"""The names of OpenTelemetry's conventions for generative AI, in the two versions that are spoken here.

By default those of the semantic conventions v1.41.0, the last release that has them, with `gen_ai.system` beside
`gen_ai.provider.name` for readers of v1.36.0 and before. Who opts in by `OTEL_SEMCONV_STABILITY_OPT_IN` gets the first
release of the conventions' own home, semantic-conventions-genai v0.1.0, and no older name.

Sources, read 2026-11: github.com/open-telemetry/semantic-conventions/tree/v1.41.0/docs/gen-ai and
github.com/open-telemetry/semantic-conventions-genai, with its guide docs/gen-ai/non-normative/migration.md.
"""

from collections.abc import Mapping
from typing import NamedTuple

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
LATEST = "gen_ai_latest_experimental"

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
CALLS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Borders of buckets; those of calls are our own."""

PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Names of providers that the conventions write in another way."""
SYSTEMS = {**PROVIDERS, "xai": "xai"}
"""The same for `gen_ai.system`."""


class Conventions(NamedTuple):
    """One version: where it differs from the other."""

    schema_url: str | None
    has_system: bool
    provider_on_agent: bool
    cache_write: str
    duration: str
    token_usage: str | None
    counts_tokens: bool
    counts_agents: bool


V1_41_0 = Conventions(
    schema_url="https://opentelemetry.io/schemas/1.41.0",
    has_system=True,
    provider_on_agent=True,
    cache_write="gen_ai.usage.cache_creation.input_tokens",
    duration="gen_ai.client.operation.duration",
    token_usage="gen_ai.client.token.usage",
    counts_tokens=False,
    counts_agents=False,
)
GENAI_V0_1_0 = Conventions(
    schema_url=None,  # the new home has published none
    has_system=False,
    provider_on_agent=False,
    cache_write="gen_ai.usage.cache_write.input_tokens",
    duration="gen_ai.client.inference.duration",
    token_usage=None,
    counts_tokens=True,
    counts_agents=True,
)


def conventions_of(environment: Mapping[str, str]) -> Conventions:
    """Return the version that *environment* asks for."""
    asked = [one.strip().lower() for one in environment.get(OPT_IN, "").split(",")]
    return GENAI_V0_1_0 if LATEST in asked else V1_41_0


def provider_names(provider: str, conventions: Conventions) -> dict[str, str]:
    """Return the attributes that name *provider*."""
    names = {"gen_ai.provider.name": PROVIDERS.get(provider, provider)}
    if conventions.has_system:
        names["gen_ai.system"] = SYSTEMS.get(provider, provider)
    return names
