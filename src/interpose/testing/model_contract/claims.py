"""How claims are kept together, and what they share: requests, tools, and asking in both ways."""

from collections.abc import Callable, Coroutine, Set
from typing import Any

from interpose.messages import Message, ProviderPart, UserMessage
from interpose.models.base import fold
from interpose.request import ModelRequest, ModelResponse
from interpose.testing.model_contract.stage import Answer, Heard, Said, Stage
from interpose.tools import Tool, tool

Claim = Callable[[Stage], Coroutine[Any, Any, None]]
MODEL_CONTRACT: list[Claim] = []
"""The claims, each an async function of a stage."""
_NEEDS: dict[Claim, frozenset[str]] = {}


def claims_for(features: Set[str]) -> list[Claim]:
    """Return the claims that a model must keep whose vendor has *features*, of `FEATURES`."""
    return [claim for claim in MODEL_CONTRACT if _NEEDS[claim] <= features]


def claim(*needs: str) -> Callable[[Claim], Claim]:
    """Add a function to the contract, for vendors that have what it *needs*."""

    def keep(check: Claim) -> Claim:
        MODEL_CONTRACT.append(check)
        _NEEDS[check] = frozenset(needs)
        return check

    return keep


ODD = 'Zürich ✓ 👩‍👩‍👧 e\u0301 \u2028\u2029\x85 \x00\x1f "quoted" \\n \r\n\r\ndata: [DONE]\n\nevent: מזל <b>&amp; '
"""Text that trips readers of lines, of events, of escapes and of characters."""


@tool
async def population(city: str) -> int:
    """Return how many people live in a city."""
    return len(city)


def named(name: str) -> Tool:
    """Return a tool of that name, which takes a whole number."""
    parameters = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    return tool(lambda x: x, name=name, description="Do it.", parameters=parameters)


def request_of(stage: Stage, *messages: Message, **fields: Any) -> ModelRequest:
    """Return a request to the model on *stage*; of *messages*, "hi" where none are given."""
    model = stage.model
    return ModelRequest(provider=model.provider, model=model.name, messages=messages or (UserMessage("hi"),), **fields)


async def both(stage: Stage, answer: Answer, request: ModelRequest | None = None) -> ModelResponse:
    """Ask for *answer* as a stream and whole, check that both are the same, and return it."""
    request = request or request_of(stage)
    stage.play(answer, answer)
    streamed = await fold(stage.model.stream(request), request)
    whole = await stage.model.generate(request)
    same = [one.replace(message=one.message.replace(id="m")) for one in (streamed, whole)]
    assert same[0] == same[1]
    owners = {part.provider for part in streamed.message.parts if isinstance(part, ProviderPart)}
    assert owners <= {stage.model.provider}
    return streamed


async def heard_of(stage: Stage, *messages: Message, **fields: Any) -> Heard:
    """Return what the vendor hears of a request; it hears the same of a streamed one."""
    await both(stage, Answer(parts=(Said("ok"),)), request_of(stage, *messages, **fields))
    streamed, whole = stage.heard[-2:]
    assert streamed.turns == whole.turns
    return streamed


def calls_of(response: ModelResponse) -> list[tuple[str, str, Any]]:
    """Return the calls of a response as `(id, name, arguments)`."""
    return [(call.id, call.name, dict(call.args)) for call in response.tool_calls]
