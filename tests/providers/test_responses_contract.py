"""Responses through the official SDK, against a strict server."""

import pytest

pytest.importorskip("openai", reason="needs pip install 'interpose[openai]'")

from tests.providers.responses_vendor import ResponsesVendor
from tests.providers.stage import WireStage

from interpose.testing.model_contract import Claim, claims_for


@pytest.mark.parametrize("claim", claims_for(ResponsesVendor.features), ids=lambda claim: claim.__name__)
async def test_responses_keep_the_contract(claim: Claim) -> None:
    async with WireStage(ResponsesVendor()) as stage:
        await claim(stage)
