"""Every store keeps the contract."""

import pytest

from interpose.stores import Store
from interpose.testing.store_contract import STORE_CONTRACT, Claim


@pytest.mark.parametrize("claim", STORE_CONTRACT, ids=[claim.__name__ for claim in STORE_CONTRACT])
async def test_store_keeps_the_contract(claim: Claim, pair: tuple[Store, Store]) -> None:
    await claim(*pair)
