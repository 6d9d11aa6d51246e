"""What every model must do, as tests for a model of one's own.

Each claim is an async function of a `Stage`: the model, and the vendor behind it, which plays what the claim says.
`claims_for(features)` leaves out those that need what a vendor does not have. With pytest:

    pytest.register_assert_rewrite("interpose.testing.model_contract")

    @pytest.mark.parametrize("claim", claims_for(MyStage.features), ids=lambda claim: claim.__name__)
    async def test_keeps_the_contract(claim):
        async with MyStage() as stage:
            await claim(stage)
"""

from interpose.testing.model_contract import answers as _answers
from interpose.testing.model_contract import failures as _failures
from interpose.testing.model_contract import requests as _requests
from interpose.testing.model_contract.claims import MODEL_CONTRACT, Claim, claims_for
from interpose.testing.model_contract.stage import (
    FEATURES,
    Answer,
    Call,
    Heard,
    Play,
    Refusal,
    Said,
    Stage,
    Thought,
)

_PARTS = (_answers, _requests, _failures)  # loading them fills MODEL_CONTRACT

__all__ = [
    "Answer",
    "Call",
    "Claim",
    "FEATURES",
    "Heard",
    "MODEL_CONTRACT",
    "Play",
    "Refusal",
    "Said",
    "Stage",
    "Thought",
    "claims_for",
]
