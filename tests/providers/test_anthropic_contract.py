"""The Messages API through the official SDK, against a strict server: the official one, and an older one."""

import pytest

pytest.importorskip("anthropic", reason="needs pip install 'interpose[anthropic]'")

from tests.providers.messages_vendor import MessagesVendor, OlderVendor
from tests.providers.stage import WireStage

from interpose.testing.model_contract import Claim, claims_for


@pytest.mark.parametrize("claim", claims_for(MessagesVendor.features), ids=lambda claim: claim.__name__)
async def test_anthropic_keeps_the_contract(claim: Claim) -> None:
    async with WireStage(MessagesVendor()) as stage:
        await claim(stage)


@pytest.mark.parametrize("claim", claims_for(OlderVendor.features), ids=lambda claim: claim.__name__)
async def test_models_without_an_output_format_keep_the_contract(claim: Claim) -> None:
    async with WireStage(OlderVendor()) as stage:
        await claim(stage)
