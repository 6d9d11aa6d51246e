"""The Gemini API through the official SDK, against a strict server that plays two generations of models."""

from typing import Any

import pytest

pytest.importorskip("google.genai", reason="needs pip install 'interpose[google]'")

from tests.providers.gemini_vendor import GeminiVendor, OlderVendor
from tests.providers.stage import WireStage

from interpose.testing.model_contract import Claim, claims_for


@pytest.mark.parametrize("claim", claims_for(GeminiVendor.features), ids=lambda claim: claim.__name__)
async def test_google_keeps_the_contract(claim: Claim) -> None:
    stage: Any = WireStage(GeminiVendor())
    async with stage:
        await claim(stage)


@pytest.mark.parametrize("claim", claims_for(OlderVendor.features), ids=lambda claim: claim.__name__)
async def test_older_models_keep_the_contract(claim: Claim) -> None:
    stage: Any = WireStage(OlderVendor())
    async with stage:
        await claim(stage)
