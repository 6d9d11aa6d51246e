"""The contract itself: a model in this process keeps it, and models with common faults do not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from interpose.errors import ProviderError
from interpose.messages import ReasoningPart, ToolMessage
from interpose.models.base import (
    Finish,
    Model,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from interpose.request import ModelRequest
from interpose.testing.model_contract import (
    FEATURES,
    MODEL_CONTRACT,
    Answer,
    Call,
    Claim,
    Heard,
    Play,
    Refusal,
    Said,
    Thought,
    claims_for,
)

IN_PROCESS = FEATURES - {"remote", "retry_after", "request_ids", "mixed_calls", "output_schema"}


def chunks_of(answer: Answer) -> list[ModelChunk]:
    said: list[ModelChunk] = []
    for number, part in enumerate(answer.parts):
        match part:
            case Thought():
                said.append(ReasoningDelta(part.text, part.signature))
            case Said():
                said += [TextDelta(piece) for piece in part.pieces or (part.text,)]
            case Call():
                said.append(ToolCallDelta(number, part.id, part.name, part.args))
    if answer.usage is not None:
        said.append(UsageUpdate(answer.usage))
    return [*said, Finish(answer.reason)] if answer.ends == "well" else said


class Played(Model):
    """A model without a vendor: it says what was played, through *fault*, which may spoil it."""

    provider, name, profile = "own", "played", None

    def __init__(self, stage: "InProcess", fault: Callable[[list[ModelChunk]], list[ModelChunk]]) -> None:
        self._stage = stage
        self._fault = fault

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        play = self._stage.next_play(request)
        if isinstance(play, Refusal):
            raise play.kind(play.message, provider=self.provider, model=request.model)
        for chunk in self._fault(chunks_of(play)):
            await asyncio.sleep(0)
            yield chunk


class InProcess:
    """A stage without a wire: what the vendor hears is what the request says."""

    features = IN_PROCESS

    def __init__(self, fault: Callable[[list[ModelChunk]], list[ModelChunk]] = lambda chunks: chunks) -> None:
        self.model: Model = Played(self, fault)
        self.heard: list[Heard] = []
        self._plays: list[Play] = []

    def play(self, *plays: Play) -> None:
        self._plays += plays

    def next_play(self, request: ModelRequest) -> Answer | Refusal:
        self.heard.append(heard(request))
        play = self._plays.pop(0)
        return play(self.heard[-1]) if callable(play) else play

    async def left(self) -> None:
        raise AssertionError("there is no connection to leave")

    def unreachable(self) -> Model:
        raise AssertionError("there is no server to reach")


def heard(request: ModelRequest) -> Heard:
    turns: list[tuple[Any, ...]] = [("system", request.instructions)] if request.instructions else []
    for message in request.messages:
        if isinstance(message, ToolMessage):
            turns.append(("result", message.tool_call_id, message.text))
        elif message.role != "assistant":
            turns += [_part(message.role, part) for part in getattr(message, "parts", ())] or [
                (message.role, message.text)
            ]
        else:
            turns += [_said(part) for part in message.content() if _is_own(part)]  # type: ignore[union-attr]
        turns += [_part("user", part) for part in getattr(message, "parts", ()) if message.role == "tool"][1:]
    choice, names = request.settings.tool_choice, [tool.name for tool in request.tools]
    return Heard(
        model=request.model,
        turns=tuple(turns),
        tools=tuple(names),
        tool_choice=choice if choice in names or (names and choice in ("auto", "none", "required")) else None,
        stop=request.settings.stop or (),
        max_tokens=request.settings.max_tokens,
        temperature=request.settings.temperature,
    )


def _part(role: str, part: Any) -> tuple[Any, ...]:
    if part.__class__.__name__ == "TextPart":
        return (role, part.text)
    return ("image", part.media_type, part.data) if part.data else ("image", None, part.url)


def _is_own(part: Any) -> bool:
    kind = part.__class__.__name__
    return kind != "ProviderPart" and not (kind == "ReasoningPart" and part.signature == "foreign")


def _said(part: Any) -> tuple[Any, ...]:
    if isinstance(part, ReasoningPart):
        return ("thought", part.text, part.signature)
    return ("assistant", part.text) if hasattr(part, "text") else ("call", part.id, part.name, dict(part.args))


@pytest.mark.parametrize("claim", claims_for(IN_PROCESS), ids=lambda claim: claim.__name__)
async def test_a_model_of_ones_own_keeps_the_contract(claim: Claim) -> None:
    await claim(InProcess())


def named(name: str) -> Claim:
    return next(claim for claim in MODEL_CONTRACT if claim.__name__ == name)


Chunks = list[ModelChunk]
FAULTS: dict[str, tuple[Callable[[Chunks], Chunks], str]] = {
    "says nothing": (lambda chunks: [Finish()], "text_arrives_whole"),
    "joins pieces": (
        lambda chunks: [TextDelta("".join(c.text for c in chunks if isinstance(c, TextDelta))), Finish()],
        "text_comes_in_pieces_and_the_finish_is_last",
    ),
    "finishes twice": (lambda chunks: [*chunks, Finish()], "text_comes_in_pieces_and_the_finish_is_last"),
    "always stops": (lambda chunks: [*chunks[:-1], Finish("stop")], "reason_to_finish_is_told"),
    "takes a cut for an end": (lambda chunks: [*chunks, Finish()], "an_end_without_a_reason_is_a_cut"),
    "loses signatures": (
        lambda chunks: [ReasoningDelta(c.text) if isinstance(c, ReasoningDelta) else c for c in chunks],
        "signed_reasoning_goes_back_untouched",
    ),
    "thinks aloud": (
        lambda chunks: [TextDelta(c.text) if isinstance(c, ReasoningDelta) else c for c in chunks],
        "reasoning_stands_apart_from_text",
    ),
    "turns calls round": (
        lambda chunks: [*reversed(chunks[:-1]), chunks[-1]],
        "calls_of_one_answer_keep_their_order_and_ids",
    ),
    "makes ids up": (
        lambda chunks: [
            ToolCallDelta(c.index, None, c.name, c.args) if isinstance(c, ToolCallDelta) else c for c in chunks
        ],
        "calls_of_one_answer_keep_their_order_and_ids",
    ),
    "mends arguments": (
        lambda chunks: [ToolCallDelta(0, "c", "f", "{}") if isinstance(c, ToolCallDelta) else c for c in chunks],
        "broken_arguments_are_kept_and_can_be_sent_back",
    ),
    "forgets usage": (lambda chunks: [c for c in chunks if not isinstance(c, UsageUpdate)], "usage_is_told"),
    "cleans text": (
        lambda chunks: [TextDelta(c.text.strip()) if isinstance(c, TextDelta) else c for c in chunks],
        "odd_characters_arrive_as_they_are",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found(fault: str) -> None:
    spoil, claim = FAULTS[fault]
    with pytest.raises((AssertionError, ProviderError)):
        await named(claim)(InProcess(spoil))


def test_claims_that_need_what_is_not_there_are_left_out() -> None:
    assert set(claims_for(frozenset())) < set(claims_for(IN_PROCESS)) < set(claims_for(FEATURES)) == set(MODEL_CONTRACT)
