"""Chat Completions through the official SDK, against a strict server: the official one, and a compatible one."""

import pytest

pytest.importorskip("openai", reason="needs pip install 'interpose[openai]'")

from tests.providers.chat_vendor import ChatVendor, CompatibleVendor
from tests.providers.stage import WireStage

from interpose.testing.model_contract import Claim, claims_for


@pytest.mark.parametrize("claim", claims_for(ChatVendor.features), ids=lambda claim: claim.__name__)
async def test_openai_keeps_the_contract(claim: Claim) -> None:
    async with WireStage(ChatVendor()) as stage:
        await claim(stage)


@pytest.mark.parametrize("claim", claims_for(CompatibleVendor.features), ids=lambda claim: claim.__name__)
async def test_compatible_servers_keep_the_contract(claim: Claim) -> None:
    async with WireStage(CompatibleVendor()) as stage:
        await claim(stage)
