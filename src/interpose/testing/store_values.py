"""Messages and checkpoints that the contract of stores is played with."""

from datetime import UTC, datetime
from typing import Any

from interpose.checkpoint import Checkpoint
from interpose.interrupts import Approved, Cancelled, OpenInterrupt, Rejected, Resolved
from interpose.messages import AssistantMessage, ImagePart, Message, TextPart, ToolCall, ToolResult, UserMessage
from interpose.request import ModelResponse, Usage
from interpose.saved import Counts, Kept, Private, SavedAnswer, SavedResult, SavedStep


def some_messages(count: int, start: int = 0) -> list[Message]:
    """Return *count* messages whose ids are `m0`, `m1`, …, from *start* on."""
    return [UserMessage(f"said {number}", id=f"m{number}") for number in range(start, start + count)]


def some_checkpoint(run_id: str = "r1", **fields: Any) -> Checkpoint:
    """Return the first part of a checkpoint, with *fields*."""
    fields = {
        "thread_id": "t1",
        "agent": "agent",
        "created_at": 100.0,
        "messages": (UserMessage("hi", id="u1"),),
        **fields,
    }
    return Checkpoint(run_id=run_id, **fields)


def full_checkpoint() -> Checkpoint:
    """Return a checkpoint with every field filled, and texts that encoders stumble over."""
    call = ToolCall("c1", "pay", {"amount": 2**70, "note": 'a"\\\n\0'}, idempotency_key="k", edited_by="ann")
    answer = AssistantMessage("I pay.", reasoning="why", tool_calls=(call,), id="a1", metadata={"x": [1, None]})
    picture = SavedResult.of(ToolResult(tool_call_id="c1", data=[TextPart("see"), ImagePart(url="http://x/y.png")]))
    plain = SavedResult.of(ToolResult(tool_call_id="c2", data={"__type__": "os.system", "value": "x"}, is_error=True))
    response = ModelResponse(answer, "tool_calls", Usage(3, 4), "m", "p", "cache")
    return some_checkpoint(
        parent_run_id="r0",
        resumed_from="r-1",
        base=7,
        committed=1,
        handed_in=1,
        offered=("pay",),
        asks=("pay",),
        status="paused",
        number=2,
        phase="before_tools",
        messages=(UserMessage("schön \U0001f600 \x00", id="u1"), answer),
        steps=(SavedStep.of(2, response, Usage(6, 8, cost_usd=0.01)),),
        started=("c1", "c2"),
        answered={"c1": picture, "c2": plain},
        passed=("before_model",),
        kept=(Kept(layer="Ask", tool_call_id="c1", result=plain), Kept(layer="Ask", response=response)),
        interrupts=(
            OpenInterrupt(id="i1", reason="ok?", value={"a": 1}, expires_at=datetime(2030, 1, 2, tzinfo=UTC)),
            OpenInterrupt(id="i2", reason="tool_approval", message="Run pay?", tool_call=call),
        ),
        answers={
            "i1": SavedAnswer.of(Resolved(0, by="ann"), 5.0),
            "i2": SavedAnswer.of(Approved({"amount": 1}), 5.0),
            "i3": SavedAnswer.of(Rejected("no", by="bob"), 5.0),
            "i4": SavedAnswer.of(Cancelled(), 5.0),
        },
        resolved=(OpenInterrupt(id="i1", reason="ok?"),),
        nested={"c1": some_checkpoint("r1/c1")},
        state={"topic": "x"},
        thread_state={"language": "fr"},
        private={"Notes": Private(3, {"seen": [1, 2]})},
        usage=Usage(9, 12),
        counts=Counts(model_calls=3, tool_calls=2, tokens=21, cost=0.5),
        tools={"pay": "0123456789abcdef"},
        expires_at=2e9,
    )
